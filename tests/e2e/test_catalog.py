"""Catalog requests and day-2 actions (platform-api sections 4.1, 4.2), and the credentials of the file on disk."""

import json
import os
import re
import stat
import subprocess
import unittest

import harness

CONSUMER = "/catalog-service/api/consumer"
TYPE = "com.example.vcac.catalog.domain.request.CatalogItemProvisioningRequest"
GROUP = ("--business-group", "group-1")
ACCESS_KEY = "provider-accessKeyID"
SECRET_KEY = "provider-secretAccessKey"


def sentence_of(done):
    return done.stderr.strip()


class CatalogCase(harness.PlatformCase):
    BEHAVIOUR = {"catalog": {"step_ms": 20}}

    def setUp(self):
        super().setUp()
        self.host = self.agent(exposures=[], settings={"catalog": {"base_url": self.platform.base_url}})

    def behave(self, **catalog):
        self.platform.behave(catalog=catalog)

    def orders(self):
        return self.platform.state()["catalog"]["requests"]

    def requests(self, operation):
        return self.platform.requests(operation)

    def assert_by_the_reference(self):
        """Checks that every call is as the reference requires."""
        for request in self.platform.requests():
            self.assertEqual(request["violations"], [], request["path"])

    def data_file(self, content):
        path = self.host.directory / "order.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def order(self, *arguments, **options):
        return self.host.run("catalog", "request", "item-1", *GROUP, *arguments, **options)


class TemplateTest(CatalogCase):
    def test_the_template_is_printed_as_it_is(self):
        template = json.loads(self.host.run("catalog", "template", "item-1", *GROUP, expect=0).stdout)
        self.assertEqual(template["type"], TYPE)
        self.assertEqual(len(template["data"]), 12)
        (request,) = self.requests("catalog_template")
        self.assertEqual(request["method"], "GET")
        self.assertEqual(request["path"], f"{CONSUMER}/entitledCatalogItems/item-1/requests/customTemplate")
        self.assert_by_the_reference()

    def test_ids_are_escaped(self):
        self.host.run("catalog", "template", "a b/../c?d", "--business-group", "g&h=i", expect=0)
        self.order("--set", "planName=x", expect=0)
        self.assertEqual(self.orders()[0]["business_group"], "group-1")

    def test_an_unknown_item(self):
        self.behave(items={"item-2": {"planName": None}})
        done = self.host.run("catalog", "template", "item-1", *GROUP, expect=1)
        self.assertIn("item-1", done.stderr)
        self.assertIn("there is no entitled catalog item", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_an_answer_that_is_no_json(self):
        self.platform.fault(operation="catalog_template", status=200, body="<html>log in</html>")
        done = self.host.run("catalog", "template", "item-1", *GROUP, expect=1)
        self.assertIn("sent an invalid response", done.stderr)

    def test_without_an_address(self):
        del self.host.settings["catalog"]
        self.host.write_config()
        done = self.host.run("catalog", "template", "item-1", *GROUP, expect=78)
        self.assertIn("catalog.base_url", done.stderr)

    def test_without_a_business_group(self):
        self.host.run("catalog", "template", "item-1", expect=64)


class RequestTest(CatalogCase):
    def test_data_from_a_file(self):
        body = {"type": TYPE, "data": {"planName": "small", "tmpCatalog": [1, {"a": None}]}}
        identifier = self.order("--data", self.data_file(body), expect=0).stdout.strip()
        (made,) = self.orders()
        self.assertEqual(identifier, made["id"])
        self.assertEqual(made["body"], body)
        self.assertEqual((made["item"], made["business_group"]), ("item-1", "group-1"))
        self.assertEqual(self.requests("catalog_template"), [])
        self.assert_by_the_reference()

    def test_data_from_standard_input(self):
        body = {"type": TYPE, "data": {"planName": "größer"}}
        self.order("--data", "-", stdin=json.dumps(body), expect=0)
        self.assertEqual(self.orders()[0]["body"], body)

    def test_type_is_taken_from_the_template(self):
        self.order("--data", self.data_file({"data": {"planName": "small"}}), expect=0)
        self.assertEqual(self.orders()[0]["body"], {"type": TYPE, "data": {"planName": "small"}})
        self.assertEqual(len(self.requests("catalog_template")), 1)

    def test_a_bare_data_object_is_put_under_data(self):
        self.order("--data", self.data_file({"planName": "small"}), expect=0)
        self.assertEqual(self.orders()[0]["body"], {"type": TYPE, "data": {"planName": "small"}})

    def test_the_rest_of_the_answer_is_in_the_json(self):
        done = self.order("--data", self.data_file({"data": {"planName": "small"}}), "-o", "json", expect=0)
        shown = json.loads(done.stdout)
        self.assertEqual(shown["id"], self.orders()[0]["id"])
        self.assertEqual(shown["answer"]["id"], shown["id"])
        self.assertGreater(len(shown["answer"]), 1)

    def test_data_that_is_no_request(self):
        for content in ("", "[]", "{", '"text"'):
            with self.subTest(content=content):
                done = self.order("--data", self.data_file(content), expect=64)
                self.assertIn("order.json", done.stderr)
        done = self.order("--data", self.host.directory / "nothing.json", expect=64)
        self.assertIn("nothing.json", done.stderr)
        self.assertEqual(self.requests("catalog_submit"), [])

    def test_neither_data_nor_set(self):
        self.assertIn("--set", self.order(expect=64).stderr)

    def test_set_over_the_template(self):
        assignments = {
            "p_vm_cpu_count=4": ("p_vm_cpu_count", 4),
            "p_enabled_backup_configuration=true": ("p_enabled_backup_configuration", True),
            "aggregate=null": ("aggregate", None),
            'uplinkTopology={"a":[1,2]}': ("uplinkTopology", {"a": [1, 2]}),
            "planName=small plan": ("planName", "small plan"),
            'serviceName="7"': ("serviceName", "7"),
            "p_friendly_name=a=b": ("p_friendly_name", "a=b"),
            "tmpCatalog=": ("tmpCatalog", ""),
            "p_plan_mode=1e": ("p_plan_mode", "1e"),
        }
        self.order(*[part for text in assignments for part in ("--set", text)], expect=0)
        body = self.orders()[0]["body"]
        self.assertEqual(body["type"], TYPE)
        self.assertEqual(len(body["data"]), 12)
        for key, value in assignments.values():
            self.assertEqual(body["data"][key], value, key)
            self.assertIs(type(body["data"][key]), type(value), key)

    def test_set_over_data(self):
        data = self.data_file({"type": TYPE, "data": {"planName": None, "more": 1}})
        self.order("--data", data, "--set", "planName=big", expect=0)
        self.assertEqual(self.orders()[0]["body"]["data"], {"planName": "big", "more": 1})

    def test_an_unknown_key(self):
        done = self.order("--set", "planNam=small", expect=64)
        self.assertIn("unknown key 'planNam'", done.stderr)
        self.assertIn("did you mean planName?", done.stderr)
        done = self.order("--set", "zzzzzzzzzzzz=small", expect=64)
        self.assertIn("serviceName", done.stderr)
        self.order("--set", "planName", expect=64)
        self.order("--set", "=x", expect=64)
        self.assertEqual(self.requests("catalog_submit"), [])

    def test_where_the_id_stands(self):
        for place in ("body", "location", "both"):
            with self.subTest(place=place):
                self.behave(id_in=place)
                before = {order["id"] for order in self.orders()}
                identifier = self.order("--set", "planName=x", expect=0).stdout.strip()
                self.assertEqual({order["id"] for order in self.orders()} - before, {identifier})
        self.behave(id_in="nowhere")
        done = self.order("--set", "planName=x", expect=0)
        self.assertEqual(done.stdout, "")
        self.assertIn("without returning its id", done.stderr)

    def test_json(self):
        answer = json.loads(self.order("--set", "planName=x", "-o", "json", expect=0).stdout)
        self.assertEqual(answer["id"], self.orders()[0]["id"])

    def test_refused(self):
        self.platform.fault(operation="catalog_submit", status=400, body={"errors": [{"message": "the plan is unknown"}]})
        done = self.order("--set", "planName=x", expect=1)
        self.assertIn("the plan is unknown", done.stderr)
        self.assertEqual(len(self.requests("catalog_submit")), 1)

    def test_an_unknown_outcome_is_never_repeated(self):
        faults = {
            "closed after processing": {"close": "after"},
            "reset after processing": {"reset": "after"},
            "an answer that never comes": {"hang": "after"},
            "a page": {"status": 200, "body": "<html>oops</html>", "process": True},
            "500": {"status": 500, "body": {}, "process": True},
            "503": {"status": 503, "body": "busy", "process": True},
            "cut off": {"truncate": 5},
        }
        self.host.settings["network"]["timeout"] = "2s"
        self.host.write_config()
        for name, effect in faults.items():
            with self.subTest(fault=name):
                self.platform.reset()
                self.host.login()
                self.platform.fault(operation="catalog_submit", **effect)
                done = self.order("--set", "planName=x", expect=1)
                self.assertEqual(len(self.requests("catalog_submit")), 1)
                self.assertEqual(len(self.orders()), 1)
                self.assertEqual(done.stdout, "")
                self.assertIn("The request may have been started; it is not sent again", done.stderr)
                self.assertIn("item-1", done.stderr)
                self.assertIn("catalog show", done.stderr)

    def test_never_sent_is_told_apart(self):
        self.host.settings["catalog"]["base_url"] = "https://127.0.0.1:1"
        self.host.write_config()
        done = self.order("--data", self.data_file({"type": TYPE, "data": {}}), expect=69)
        self.assertNotIn("may have been started", done.stderr)

    def test_an_expired_token_is_one_order(self):
        self.platform.expire_tokens()
        self.order("--data", self.data_file({"type": TYPE, "data": {}}), expect=0)
        self.assertEqual(len(self.orders()), 1)
        self.assertEqual([r["status"] for r in self.requests("catalog_submit")], [401, 201])
        self.assertEqual(len(self.requests("token")), 2)  # the login of this test and one refresh


class FollowTest(CatalogCase):
    def test_to_its_end(self):
        for style in ("final", "phase", "state"):
            for outcome, code in {"successful": 0, "failed": 1, "rejected": 1}.items():
                with self.subTest(style=style, outcome=outcome):
                    self.behave(status_style=style, outcome=outcome)
                    done = self.order("--set", "planName=x", "--wait", expect=code)
                    identifier = self.requests("catalog_request")[-1]["path"].rsplit("/", 1)[1]
                    self.assertIn(identifier, done.stdout)
                    self.assertIn(outcome.upper(), done.stdout)
                    self.assertEqual("the order was" in done.stdout, code == 1)
                    shown = self.host.run("catalog", "show", identifier, expect=code)
                    self.assertIn(outcome.upper(), shown.stdout)
                    self.host.run("catalog", "show", identifier, "--wait", expect=code)

    def test_on_its_way(self):
        self.behave(outcome="never")
        identifier = self.order("--set", "planName=x", expect=0).stdout.strip()
        shown = json.loads(self.host.run("catalog", "show", identifier, "-o", "json", expect=0).stdout)
        self.assertEqual((shown["id"], shown["finished"]), (identifier, False))
        done = self.host.run("catalog", "show", identifier, "--wait", "--timeout", "3s", expect=1)
        self.assertIn("did not finish in time", done.stderr)
        self.assertIn(f"catalog show {identifier}", done.stderr)
        self.host.run("catalog", "show", identifier, "--wait", "--timeout", "soon", expect=64)

    def test_json_of_the_end(self):
        self.behave(outcome="failed")
        answer = json.loads(self.order("--set", "planName=x", "--wait", "-o", "json", expect=1).stdout)
        self.assertEqual((answer["finished"], answer["succeeded"]), (True, False))
        self.assertEqual(answer["details"], "the order was failed")

    def test_an_outage_while_it_waits(self):
        self.platform.fault(operation="catalog_request", status=503, body="")
        self.order("--set", "planName=x", "--wait", expect=0)
        self.assertEqual(len(self.requests("catalog_submit")), 1)

    def test_unknown_request(self):
        done = self.host.run("catalog", "show", "nobody", expect=1)
        self.assertIn("nobody", done.stderr)
        self.host.run("catalog", "show", "nobody", "--wait", expect=1)


class ActionTest(CatalogCase):
    def values(self, *elements, **options):
        return self.host.run("action", "values", "resource-1", "action-1", *elements, **options)

    def test_the_form(self):
        form = json.loads(self.host.run("action", "form", "resource-1", "action-1", expect=0).stdout)
        self.assertIn("layout", form)
        (request,) = self.requests("action_form")
        self.assertEqual(request["path"], f"{CONSUMER}/resources/resource-1/actions/action-1/forms/request")
        self.assert_by_the_reference()

    def test_values(self):
        for reversed_order in (False, True):
            with self.subTest(reversed=reversed_order):
                self.behave(reversed=reversed_order, decoys=not reversed_order)
                done = self.values(SECRET_KEY, ACCESS_KEY, expect=0)
                self.assertEqual(
                    done.stdout, f"{SECRET_KEY}=simulated-secret-key\n{ACCESS_KEY}=simulated-access-key\n"
                )
        self.behave(reversed=False, decoys=True)
        self.assertEqual(self.values(ACCESS_KEY, expect=0).stdout, f"{ACCESS_KEY}=simulated-access-key\n")
        request = self.requests("action_values")[0]
        self.assertEqual(request["method"], "POST")
        self.assertEqual(
            request["path"], f"{CONSUMER}/resources/resource-1/actions/action-1/forms/request/update"
        )
        self.assertEqual(request["body"], {"affectedElements": [SECRET_KEY, ACCESS_KEY]})
        self.assert_by_the_reference()

    def test_json(self):
        self.behave(missing_elements=[SECRET_KEY])
        answer = json.loads(self.values(ACCESS_KEY, SECRET_KEY, "-o", "json", expect=1).stdout)
        self.assertEqual(answer["values"], {ACCESS_KEY: "simulated-access-key"})
        self.assertEqual(answer["missing"], [SECRET_KEY])

    def test_numbers_and_booleans_are_values(self):
        self.behave(elements={"size": 7, "public": True, "ratio": 1.5})
        done = self.values("size", "public", "ratio", expect=0)
        self.assertEqual(done.stdout, "size=7\npublic=true\nratio=1.5\n")
        answer = json.loads(self.values("size", "public", "-o", "json", expect=0).stdout)
        self.assertEqual(answer["values"], {"size": "7", "public": "true"})
        self.assertEqual(set(answer["types"]), {"size", "public"})

    def test_what_is_no_value_does_not_hide_the_others(self):
        facet = lambda kind, value: {"type": kind, "value": {"type": "string", "value": value}}
        shapes = {
            "null": (None, "has no value yet (null)"),
            "list": ({"facets": [facet("fixedValue", ["a"])]}, "not a string, a number or a boolean"),
            "no fixedValue": ({"facets": [facet("defaultValue", "a decoy")]}, "no facet of type fixedValue"),
            "no facets": ({"facets": []}, "no facet of type fixedValue"),
            "first of two is null": ({"facets": [facet("fixedValue", None), facet("fixedValue", "b")]}, "has no value yet (null)"),
        }
        for name, (value, words) in shapes.items():
            with self.subTest(shape=name):
                self.behave(elements=None)
                self.behave(elements={ACCESS_KEY: "one", "odd": value, SECRET_KEY: "two"})
                done = self.values(ACCESS_KEY, "odd", SECRET_KEY, expect=1)
                self.assertEqual(done.stdout, f"{ACCESS_KEY}=one\n{SECRET_KEY}=two\n")
                self.assertIn("odd", sentence_of(done))
                self.assertIn(words, sentence_of(done))
        self.behave(elements=None, missing_elements=[ACCESS_KEY])
        done = self.values(ACCESS_KEY, SECRET_KEY, expect=1)
        self.assertEqual(done.stdout, f"{SECRET_KEY}=simulated-secret-key\n")
        self.assertIn(f"element {ACCESS_KEY} not found in the action's form", done.stderr)

    def test_an_answer_of_another_kind(self):
        self.behave(raw_update={"elements": []})
        self.assertIn("elementUpdates", self.values(ACCESS_KEY, expect=1).stderr)
        self.platform.fault(operation="action_values", status=404, body={"errors": [{"message": "no such action"}]})
        self.assertIn("no such action", self.values(ACCESS_KEY, expect=1).stderr)


class CredentialTest(CatalogCase):
    """`credentials:` in the file, managed by `reconcile`."""

    def setUp(self):
        super().setUp()
        self.directory = self.scratch()
        self.file = self.directory / "kept" / "s3.env"
        self.configure(self.credential())

    def credential(self, name="bucket", file=None, output_format="env", **more):
        output = {"file": str(file or self.file), "format": output_format, **more.pop("output", {})}
        elements = {"ACCESS_KEY": ACCESS_KEY, "SECRET_KEY": SECRET_KEY}
        return {"name": name, "resource": "resource-1", "action": "action-1", "elements": elements,
                "interval": "12h", "output": output, **more}

    def configure(self, *credentials):
        self.host.settings["credentials"] = list(credentials)
        self.host.write_config()

    def show(self, access, secret):
        self.behave(elements={ACCESS_KEY: access, SECRET_KEY: secret})

    def reconcile(self, expect=0, *arguments):
        return self.host.run(*arguments, "reconcile", expect=expect)

    def standing(self, name="bucket"):
        return next(c for c in self.host.status()["credentials"] if c["name"] == name)

    def facts(self):
        status = self.file.stat()
        return status.st_ino, status.st_mtime_ns

    def hook(self, text=""):
        script = f"cd {self.directory} || exit 99\necho run >>runs\n{text}"
        return [{"command": [str(harness.write_program(self.directory / "hook", script))]}]

    def runs(self):
        path = self.directory / "runs"
        return len(path.read_text().split()) if path.exists() else 0

    def test_env_is_read_back_by_sh(self):
        for secret in ("plain", "with blank", "it's", "$(reboot) `reboot` $HOME \\", 'a"b', "*", "-n", "größer",
                       "two\nlines", "''", "tab\there", "!$#&|;<>"):
            with self.subTest(secret=secret):
                self.show("access", secret)
                self.reconcile()
                read = subprocess.run(
                    ["sh", "-c", '. "$1"; printf "%s|%s|" "$ACCESS_KEY" "$SECRET_KEY"', "sh", self.file],
                    capture_output=True, text=True, check=True)
                self.assertEqual(read.stdout, f"access|{secret}|")
                self.assertEqual(read.stderr, "")

    def test_json_and_yaml(self):
        secret = 'a"b\\c: #d\n\te\x01ö'
        self.show("yes", secret)
        json_file, yaml_file = self.directory / "s3.json", self.directory / "s3.yaml"
        self.configure(self.credential("j", json_file, "json"), self.credential("y", yaml_file, "yaml"))
        self.reconcile()
        wanted = {"ACCESS_KEY": "yes", "SECRET_KEY": secret}
        self.assertEqual(json.loads(json_file.read_text()), wanted)
        # All values are double-quoted scalars, the same in YAML and JSON.
        lines = dict(line.split(": ", 1) for line in yaml_file.read_text().splitlines())
        self.assertEqual({key: json.loads(value) for key, value in lines.items()}, wanted)

    def test_mode_and_owner(self):
        self.reconcile()
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)
        group = os.getgid()
        self.configure(self.credential(output={"mode": "0640", "group": str(group)}))
        self.reconcile()
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o640)
        self.assertEqual(self.file.stat().st_gid, group)
        os.chmod(self.file, 0o666)
        self.reconcile()
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o640)

    def test_an_unchanged_file_is_not_touched(self):
        self.configure(self.credential(hooks=self.hook()))
        self.reconcile()
        before, updated_at = self.facts(), self.standing()["updated_at"]
        fetched = len(self.requests("action_values"))
        self.reconcile()
        self.assertEqual(len(self.requests("action_values")), fetched + 1)
        self.assertEqual(self.facts(), before)
        self.assertEqual(self.standing()["updated_at"], updated_at)
        self.assertEqual(self.runs(), 1)

        self.show("other", "values")
        self.reconcile()
        self.assertNotEqual(self.facts()[0], before[0])
        self.assertIn("other", self.file.read_text())
        self.assertEqual(self.runs(), 2)

    def test_a_hook_gets_no_expiry(self):
        self.configure(self.credential(hooks=self.hook('echo "<$EXPOSURE_NOT_AFTER>" >expiry')))
        self.reconcile()
        self.assertEqual((self.directory / "expiry").read_text(), "<>\n")

    def test_a_deleted_file_comes_back(self):
        self.reconcile()
        text = self.file.read_text()
        self.file.unlink()
        self.reconcile()
        self.assertEqual(self.file.read_text(), text)

    def test_a_failing_fetch_keeps_the_file(self):
        self.configure(self.credential(hooks=self.hook()))
        self.reconcile()
        text, before = self.file.read_text(), self.facts()
        faults = [
            lambda: self.platform.fault(operation="action_values", status=500, body="", times=0),
            lambda: self.platform.fault(operation="action_values", status=200, body="<html>", times=0),
            lambda: self.platform.fault(operation="action_values", close="after", times=0),
            lambda: self.behave(missing_elements=[SECRET_KEY]),
            lambda: self.behave(missing_elements=[], elements={ACCESS_KEY: "new", SECRET_KEY: None}),
        ]
        for number, fault in enumerate(faults):
            with self.subTest(fault=number):
                fault()
                done = self.reconcile(69 if number == 2 else 1)
                self.assertIn("bucket", done.stderr)
                self.assertEqual(self.file.read_text(), text)
                self.assertEqual(self.facts(), before)
                self.assertIn("bucket", self.standing()["last_error"])
                self.host.run("status", "--check", expect=1)
                self.platform.clear_faults()
        self.assertEqual(self.runs(), 1)
        self.behave(elements=None)
        self.reconcile()
        self.assertIsNone(self.standing()["last_error"])
        self.assertEqual(self.facts(), before)

    def test_one_failing_credential_does_not_stop_another(self):
        other = self.directory / "other.env"
        bad = self.credential("bad")
        bad["elements"] = {"X": "provider-unknown"}
        self.configure(bad, self.credential("good", other))
        self.reconcile(1)
        self.assertFalse(self.file.exists())
        self.assertIn("simulated-secret-key", other.read_text())
        self.assertIsNone(self.standing("good")["last_error"])
        self.assertIn("provider-unknown", self.standing("bad")["last_error"])

    def test_exit_codes_without_exposures(self):
        self.platform.fault(operation="action_values", status=401, body="", times=0)
        self.reconcile(77)
        self.platform.clear_faults()
        self.reconcile(0)
        self.platform.fault(operation="action_values", close="before", times=0)
        self.reconcile(69)
        self.platform.clear_faults()
        self.host.run("logout", expect=0)
        done = self.reconcile(77)
        self.assertIn("login", done.stderr)
        self.assertEqual(done.stderr.count("credential bucket"), 1, done.stderr)

    def test_a_failed_hook_is_repeated(self):
        self.configure(self.credential(hooks=self.hook("exit 3")))
        self.reconcile(1)
        self.assertTrue(self.file.exists())
        self.assertRegex(self.standing()["last_error"], r"^credential bucket: hook failed \(.*: exit 3.*\)\. Retry now: exposure-agent reconcile$")
        self.hook()
        self.reconcile()
        self.assertEqual(self.runs(), 2)
        self.assertIsNone(self.standing()["last_error"])

    def test_shown_in_status_and_plan(self):
        self.assertEqual(self.standing()["updated_at"], None)
        (planned,) = self.host.json("plan")["credentials"]
        self.assertEqual((planned["name"], planned["reason"]), ("bucket", "absent"))
        self.host.run("plan", "--detailed-exitcode", expect=2)
        self.assertIn("bucket", self.host.run("plan", expect=0).stdout)
        self.assertEqual(self.requests("action_values"), [])
        self.assertFalse(self.file.exists())

        self.reconcile()
        self.assertRegex(self.standing()["updated_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertIn("bucket", self.host.run("status", expect=0).stdout)
        (planned,) = self.host.json("plan")["credentials"]
        self.assertEqual(planned["reason"], "fresh")
        self.host.run("plan", "--detailed-exitcode", expect=0)

        changed = self.credential(output={"mode": "0640"})
        self.configure(changed)
        (planned,) = self.host.json("plan")["credentials"]
        self.assertEqual(planned["reason"], "changed")
        self.host.run("plan", "--detailed-exitcode", expect=2)

    def test_the_daemon_fetches_on_its_interval(self):
        self.configure(self.credential(interval="1s"))
        self.host.settings["metrics"] = {"listen": f"unix:{self.host.directory}/metrics.sock"}
        self.host.write_config()
        listener = self.host.directory / "metrics.sock"

        def updated():
            return int(re.search(r'credential_updated_timestamp_seconds{credential="bucket"} (\d+)', harness.scrape(listener))[1])

        with self.host.daemon():
            harness.wait_until(self.file.exists)
            self.show("renewed", "by-itself")
            harness.wait_until(lambda: "by-itself" in self.file.read_text())
            harness.wait_until(lambda: abs(updated() - int(self.file.stat().st_mtime)) <= 2)
            self.assertIn('exposure_agent_credential_failing{credential="bucket"} 0', harness.scrape(listener))
            self.platform.fault(operation="action_values", status=500, body="", times=0)
            harness.wait_until(lambda: 'credential_failing{credential="bucket"} 1' in harness.scrape(listener))
            self.assertIn("by-itself", self.file.read_text())

    def test_a_login_ends_the_back_off_of_a_running_daemon(self):
        self.platform.revoke_tokens()
        with self.host.daemon():
            harness.wait_until(lambda: "exposure-agent login" in (self.standing()["last_error"] or ""))
            self.host.login()
            harness.wait_until(self.file.exists)
            harness.wait_until(lambda: self.standing()["last_error"] is None)

    def test_no_value_is_told_to_anybody(self):
        secret = "a-value-that-nobody-may-see"
        self.show("an-access-key-of-ours", secret)
        self.configure(self.credential(hooks=self.hook("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ >seen 2>/dev/null; true")))
        said = [self.reconcile(0, "--log-level", "debug")]
        self.configure(self.credential(hooks=self.hook("exit 1")))
        self.show("an-access-key-of-ours", secret + "-2")
        said.append(self.reconcile(1, "--log-level", "debug"))
        for verb in ("status", "plan", "token"):
            said.append(self.host.run("--log-level", "debug", verb, expect=0))
        self.assertIn(secret, self.file.read_text())
        for done in said:
            self.assertNotIn("may-see", done.stdout + done.stderr)
        self.assertNotIn(b"may-see", (self.directory / "seen").read_bytes())
        for path in self.host.private_files():
            self.assertNotIn(b"may-see", path.read_bytes(), path)


if __name__ == "__main__":
    unittest.main()
