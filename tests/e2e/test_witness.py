"""Tests the checks of the survival tests: each kind of damage, done on purpose, is detected."""

import shutil
import unittest

import harness
import witness


class WitnessTest(harness.PlatformCase):
    def found_after(self, damage):
        """The kinds of faults found after `damage` was done to one healthy user."""
        with witness.scene(self.platform, ["a"]) as (agent, watcher, strangers):
            agent.login()
            agent.run("reconcile", expect=0)
            self.assertEqual(self.look(agent, watcher, strangers), set())
            damage(agent)
            reads = watcher.reads
            harness.wait_until(lambda: watcher.reads > reads + 2 or watcher.faults)
            return self.look(agent, watcher, strangers)

    def look(self, agent, watcher, strangers):
        faults = witness.faults_at_any_time(self.platform, agent) + strangers.faults() + watcher.take_faults()
        faults += witness.faults_at_the_end(self.platform, agent, ["a"]) + witness.reused(self.platform, allowed=0)
        return {fault.kind for fault in faults}

    def ours(self):
        return next(user for user in self.platform.users() if witness.MARK in user["description"])

    def test_a_key_that_is_gone(self):
        def damage(agent):
            agent.change_state("DELETE FROM generations")
        self.assertEqual(self.found_after(damage), {witness.LOST_KEY})

    def test_a_pair_that_does_not_match(self):
        def damage(agent):
            key, _ = harness.make_csr(agent.directory, "other")
            shutil.copy(key, agent.published("a").current / "key.pem")
        self.assertEqual(self.found_after(damage), {witness.MISMATCHED_PAIR})

    def test_a_file_that_is_cut_off(self):
        def damage(agent):
            file = agent.published("a").current / "fullchain.pem"
            file.write_bytes(file.read_bytes()[:100])
        self.assertEqual(self.found_after(damage), {witness.MISMATCHED_PAIR})

    def test_a_user_too_many(self):
        def damage(_):
            self.platform.put_user(common_name="surplus", csr=self.ours()["csr"], description=self.ours()["description"])
        self.assertEqual(self.found_after(damage), {witness.ORPHAN})

    def test_a_user_of_ours_that_is_gone(self):
        self.assertEqual(self.found_after(lambda _: self.platform.delete_users(id=self.ours()["id"])), {witness.DELETED})

    def test_a_stranger_that_is_gone(self):
        self.assertEqual(self.found_after(lambda _: self.platform.delete_users(description_contains="made by hand")),
                         {witness.DELETED})

    def test_a_refresh_token_that_is_used_twice(self):
        def damage(_):
            token = self.platform.refresh_token()
            for _ in range(2):
                self.platform.token_request(grant_type="refresh_token", refresh_token=token)
        self.assertEqual(self.found_after(damage), {witness.REUSED})


if __name__ == "__main__":
    unittest.main()
