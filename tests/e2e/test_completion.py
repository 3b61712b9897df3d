"""Candidates for the command line, as requested by the completion scripts."""

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import termios
import unittest

import harness


class CompletionTest(harness.PlatformCase):
    def setUp(self):
        super().setUp()
        self.host = self.agent("siem", "backup", login=False)

    def after(self, *words):
        """The candidates for the last word."""
        done = subprocess.run([harness.built("exposure-agent"), "__complete", *map(str, words)], capture_output=True,
                              text=True, check=True)
        self.assertEqual(done.stderr, "")
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    def test_verbs_options_and_values(self):
        config = ("-c", self.host.config_file)
        for words, found in ((["stat"], ["status"]),
                             (["status", "--c"], ["--check", "--config"]),
                             (["status", "-o", ""], ["text", "json", "wide"]),
                             (["status", "-o", "w"], ["wide"]),
                             (["status", "--output=j"], ["--output=json"]),
                             (["--log-level", "d"], ["debug"]),
                             (["--log-level=e"], ["--log-level=error"]),
                             (["run", "--deploy", ""], ["direct", "unit"]),
                             (["completion", ""], ["bash", "zsh", "fish"]),
                             (["catalog", "t"], ["template"]),
                             (["action", ""], ["form", "values"]),
                             (["-c", ""], [":files"]),
                             (["login", "--refresh-token-file", ""], [":files"]),
                             (["reconcile", "--timeout", ""], []),
                             ([*config, "rotate", ""], ["logs/siem", "logs/backup"]),
                             ([*config, "rotate", "logs/siem", "logs/b"], ["logs/backup"]),
                             ([*config, "status", "--check", "logs/s"], ["logs/siem"]),
                             ([f"--config={self.host.config_file}", "explain", ""], ["logs/siem", "logs/backup"]),
                             ([*config, "users", "show", ""], ["logs"]),
                             ([*config, "instances", ""], ["logs"]),
                             ([*config, "users", "l"], ["logs"]),
                             (["-c", "/nowhere", "rotate", ""], [])):
            with self.subTest(words=words):
                self.assertEqual(self.after(*words), found)
        everything = self.after("")
        for verb in ("run", "reconcile", "plan", "status", "init", "users", "catalog"):
            self.assertIn(verb, everything)
        self.assertLessEqual({"delete", "show"}, set(self.after("users", "")))

    def script(self, shell):
        return self.host.run("completion", shell, expect=0).stdout

    def test_bash(self):
        script = self.script("bash") + (
            'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _exposure_agent; printf "%s\\n" "${COMPREPLY[@]}"')
        for words, found in ((["-c", self.host.config_file, "rotate", "logs/s"], ["logs/siem"]),
                             (["status", "-o", ""], ["text", "json", "wide"]),
                             (["-c", str(self.host.config_file)[:-2]], [str(self.host.config_file)])):
            with self.subTest(words=words):
                done = subprocess.run(["bash", "-c", script, "bash", harness.built("exposure-agent"), *words],
                                      capture_output=True, text=True, check=True)
                self.assertEqual(done.stdout.split(), found, done.stderr)

    @unittest.skipUnless(shutil.which("zsh"), "needs zsh")
    def test_zsh(self):
        """The names of users and exposures, as a person gets them: an interactive shell, and the tab key."""
        program = harness.built("exposure-agent")
        config = self.host.config_file
        for typed, expected in ((f"-c {config} rotate logs/s", "rotate logs/siem "),
                                (f"-c {config} rotate logs/siem logs/b", "logs/siem logs/backup "),
                                (f"-c {config} users show l", "users show logs "),
                                (f"-c {config} status --che", "status --check "),
                                ("status --output=j", "status --output=json "),
                                ("complet", "completion ")):
            with self.subTest(typed=typed):
                master, slave = pty.openpty()
                fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 400, 0, 0))  # no line is broken
                shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave,
                                         start_new_session=True, env=self.host.environment({"TERM": "dumb"}))
                os.close(slave)
                seen = []

                def shown(wanted):
                    while wanted not in "".join(seen):
                        if not select.select([master], [], [], harness.RUN_TIMEOUT)[0]:
                            self.fail(f"{wanted!r} is not in {''.join(seen)!r}")
                        seen.append(os.read(master, 65536).decode(errors="replace"))

                try:
                    os.write(master, (f"unsetopt zle_bracketed_paste beep; PROMPT=; path=({program.parent} $path); "
                                      "autoload -U compinit; compinit -u -D; "
                                      "source <(exposure-agent completion zsh); print rea''dy\n").encode())
                    shown("ready\r\n")
                    seen.clear()
                    os.write(master, f"exposure-agent {typed}\t".encode())
                    shown(expected)
                finally:
                    shell.kill()
                    shell.wait()
                    os.close(master)

    def test_syntax_elsewhere(self):
        for shell in ("zsh", "fish"):
            with self.subTest(shell):
                if not shutil.which(shell):
                    self.skipTest(f"{shell} is not installed")
                subprocess.run([shell, "-n"], input=self.script(shell), text=True, check=True)


if __name__ == "__main__":
    unittest.main()
