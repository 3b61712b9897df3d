"""Tests the bundled platform against the reference, because other tests rely on it."""

import base64
import concurrent.futures
from email.utils import parsedate_to_datetime
import http.client
import json
import socket
import ssl
import subprocess
import time
import unittest
import urllib.parse

import harness
from harness import TENANT, Simulator, encode_csr, make_csr

INSTANCES = f"/les/api/v1/tenants/{TENANT}/instances"
CATALOG = "/catalog-service/api/consumer"


class SimulatorCase(harness.PlatformCase):
    def setUp(self):
        super().setUp()
        self.directory = self.scratch()
        self.token = self.platform.access_token()

    def call(self, method, path, body=None, **more):
        return self.platform.call(method, path, body, self.token, **more)

    def onboard(self, instances=INSTANCES):
        answer = self.call("POST", instances, {"businessGroupId": "group-1", "businessGroupName": TENANT})
        self.assertEqual(answer.status, 201)
        return f"{instances}/{answer.json['id']}"

    def user_body(self, name, encoding="pem", **changes):
        common_name = f"logs-{TENANT}-{name}"
        _, pem = make_csr(self.directory, common_name)
        body = {
            "businessGroupId": "group-1",
            "businessGroupName": TENANT,
            "consumerGroup": "siem",
            "contact": {"email": "soc@example.com"},
            "csr": encode_csr(pem, encoding),
            "description": "a user",
        }
        body.update(changes)
        return body

    def create(self, home, name="one", **changes):
        answer = self.call("POST", f"{home}/users", self.user_body(name, **changes))
        self.assertEqual(answer.status, 201, answer.body)
        return f"{home}/users/{answer.json['id']}"


class IdentityTest(SimulatorCase):
    def authorize(self, **query):
        query = {"client_id": harness.CLIENT_ID, "redirect_uri": harness.REDIRECT_URL, "response_type": "code", **query}
        return self.platform.call("GET", f"/SAAS/t/{TENANT}/auth/oauth2/authorize?{urllib.parse.urlencode(query)}")

    def test_code_flow(self):
        answer = self.authorize(state="s 1")
        self.assertEqual(answer.status, 302)
        target = urllib.parse.urlsplit(answer.headers["Location"])
        sent = dict(urllib.parse.parse_qsl(target.query))
        self.assertEqual(set(sent), {"code", "userstore", "state"})
        self.assertEqual(sent["state"], "s 1")

        token = self.platform.token_request(grant_type="authorization_code", code=sent["code"])
        self.assertEqual(token.status, 200)
        self.assertEqual(token.json["token_type"], "Bearer")
        self.assertEqual(token.json["expires_in"], 604799)
        self.assertEqual(token.json["scope"], "user")
        self.assertEqual(len(token.json["access_token"].split(".")), 3)
        self.token = token.json["access_token"]
        self.assertEqual(self.call("GET", INSTANCES).json, {"items": []})

        again = self.platform.token_request(grant_type="authorization_code", code=sent["code"])
        self.assertEqual((again.status, again.json["error"]), (400, "invalid_grant"))

    def test_authorize_refusals(self):
        self.assertEqual(self.authorize(client_id="nobody").status, 400)
        self.assertEqual(self.authorize(redirect_uri="http://elsewhere.example.com").status, 400)
        self.platform.behave(oauth={"authorize_error": "access_denied", "authorize_error_description": "not you"})
        self.assertIn("error=access_denied&error_description=not%20you", self.authorize().headers["Location"])

    def test_refusals_of_the_token_endpoint(self):
        wrong = self.platform.token_request(client_secret="guess", grant_type="refresh_token", refresh_token="x")
        self.assertEqual((wrong.status, wrong.json["error"]), (401, "invalid_client"))
        self.assertEqual(self.platform.token_request(grant_type="password").status, 500)
        code = self.platform.code()
        moved = self.platform.token_request(grant_type="authorization_code", code=code, redirect_uri="http://localhost:1")
        self.assertEqual(moved.status, 400)

    def refresh(self, token):
        return self.platform.token_request(grant_type="refresh_token", refresh_token=token)

    def test_refresh_tokens_rotate(self):
        first = self.platform.refresh_token()
        answer = self.refresh(first)
        self.assertEqual(answer.status, 200)
        self.assertNotEqual(answer.json["refresh_token"], first)
        self.assertEqual(self.refresh(first).json["error"], "invalid_grant")
        self.assertEqual(self.refresh(answer.json["refresh_token"]).status, 200)

    def test_grace_and_family(self):
        self.platform.behave(oauth={"refresh_grace_s": 60})
        first = self.platform.refresh_token()
        second = self.refresh(first).json["refresh_token"]
        self.assertEqual(self.refresh(first).status, 200)
        self.platform.behave(oauth={"refresh_grace_s": -1, "revoke_family_on_reuse": True})
        self.assertEqual(self.refresh(first).status, 400)
        self.assertEqual(self.refresh(second).status, 400)

    def test_odd_answers(self):
        for value in (0, -1, "3600", 12.5):
            self.platform.behave(oauth={"expires_in": value})
            self.assertEqual(self.refresh(self.platform.refresh_token()).json["expires_in"], value)
        self.platform.behave(oauth={"expires_in": "absent", "refresh_token": "none"})
        answer = self.refresh(self.platform.refresh_token()).json
        self.assertNotIn("expires_in", answer)
        self.assertNotIn("refresh_token", answer)

    def test_expired_and_revoked_tokens(self):
        self.platform.expire_tokens()
        self.assertEqual(self.call("GET", INSTANCES).status, 401)
        self.assertEqual(self.platform.call("GET", INSTANCES).status, 401)
        token = self.platform.refresh_token()
        self.platform.revoke_tokens()
        self.assertEqual(self.refresh(token).status, 400)

    def test_platform_api_names_the_person(self):
        self.token = self.platform.access_token(person="alice")
        self.assertEqual(self.call("GET", f"/SAAS/t/{TENANT}/API/me").json["email"], "alice@example.com")


class ExposureTest(SimulatorCase):
    def test_workflow(self):
        home = self.onboard()
        self.assertEqual(self.call("POST", INSTANCES, {}).status, 409)
        item = self.call("GET", INSTANCES).json["items"][0]
        self.assertEqual(item["status"], "READY")
        self.assertEqual(item["businessGroupId"], "group-1")

        user = self.create(home)
        listed = self.call("GET", f"{home}/users").json["items"][0]
        self.assertEqual(
            set(listed),
            {"id", "name", "description", "status", "businessGroupId", "businessGroupName", "consumerGroup", "contact",
             "createdBy", "creationDate", "expirationDate"},
        )
        full = self.call("GET", user).json
        self.assertEqual(full["contact"], {"email": "soc@example.com"})
        self.assertEqual(full["createdBy"], "svc-exposure")
        self.check_certificate(full["certificate"], f"logs-{TENANT}-one")

        self.assertEqual(self.call("DELETE", user).status, 204)
        self.assertEqual(self.call("GET", user).status, 404)
        self.assertEqual(self.call("GET", f"{home}/users").json, {"items": []})
        self.assertEqual([r["violations"] for r in self.platform.requests() if r["violations"]], [])

    def check_certificate(self, text, name):
        directory = self.directory
        (directory / "cert.pem").write_text(text)
        published = harness.public_key_of_certificate(directory / "cert.pem")
        self.assertEqual(published, harness.public_key_of_key(directory / f"{name}.key"))
        harness.openssl("verify", "-purpose", "sslclient", "-CAfile", self.platform.issuer_ca_file, directory / "cert.pem")

    def test_health_speaks_of_spaces(self):
        instances = f"/hes/api/v1/tenants/{TENANT}/instances"
        answer = self.call("POST", instances, {"spaceID": "space-1", "spaceName": TENANT})
        item = self.call("GET", f"{instances}/{answer.json['id']}").json
        self.assertEqual((item["spaceID"], item["spaceName"]), ("space-1", TENANT))
        self.assertNotIn("businessGroupId", item)
        self.platform.behave(exposure={"group": "space"})
        self.assertEqual(self.call("GET", instances).json["items"][0]["space"], "space-1")

    def test_what_a_new_user_must_have(self):
        home = self.onboard()
        good = self.user_body("good")
        name = f"logs-{TENANT}-bad"

        def csr(*arguments, **more):
            return encode_csr(make_csr(self.directory, *arguments, **more)[1])

        for changes in (
            {"consumerGroup": ""},
            {"contact": {}},
            {"csr": None},
            {"csr": "not base64!"},
            {"csr": base64.b64encode(b"nonsense").decode()},
            {"csr": make_csr(self.directory, name)[1]},
            {"csr": csr("health-orion-123-x")},
            {"csr": csr(f"logs-{TENANT}-")},
            {"csr": csr(f"logs-{TENANT}-Upper")},
            {"csr": csr(name, subject=f"/O=example/CN={name}")},
            {"csr": csr(name, usage="serverAuth")},
            {"csr": csr(name, usage="clientAuth,serverAuth")},
        ):
            answer = self.call("POST", f"{home}/users", {**good, **changes})
            self.assertEqual(answer.status, 400, changes)
            self.assertTrue(answer.json["message"])
        self.assertEqual(self.call("POST", f"{home}/users", good).status, 201)
        self.assertEqual(self.call("POST", f"{home}/users", good).status, 409)

    def test_der_and_flat_contact_and_ed25519(self):
        home = self.onboard()
        _, pem = make_csr(self.directory, f"logs-{TENANT}-ed", algorithm="ED25519")
        body = self.user_body("der", encoding="der")
        self.assertEqual(self.call("POST", f"{home}/users", body).status, 201)
        body = {**body, "csr": encode_csr(pem), "contact.email": "soc@example.com"}
        del body["contact"]
        self.platform.behave(exposure={"csr_encoding": "der"})
        self.assertEqual(self.call("POST", f"{home}/users", body).status, 400)
        self.platform.behave(exposure={"csr_encoding": "pem"})
        self.assertEqual(self.call("POST", f"{home}/users", body).status, 201)

    def test_certificate_formats(self):
        home = self.onboard()
        user = self.create(home, "formats")
        for form in ("pem", "pem-crlf", "pem-escaped", "pem-text", "base64-pem", "base64-der"):
            for order in ("leaf-first", "leaf-last", "shuffled"):
                self.platform.behave(exposure={"certificate": {"format": form, "chain": "full", "order": order}})
                text = self.call("GET", user).json["certificate"]
                if form == "base64-der":
                    pems = [ssl.DER_cert_to_PEM_cert(base64.b64decode(text))]
                else:
                    plain = base64.b64decode(text).decode() if form == "base64-pem" else text
                    plain = plain.replace("\\n", "\n").replace("\r\n", "\n")
                    pems = plain.split("-----BEGIN")[1:]
                    self.assertEqual(len(pems), 3)
                    leaf = pems[0 if order == "leaf-first" else 2]
                    pems = ["-----BEGIN" + leaf]
                self.check_certificate(pems[0], f"logs-{TENANT}-formats")
        for answer in ("absent", "null", "empty", "garbage"):
            self.platform.behave(exposure={"certificate": {"answer": answer}})
            self.assertEqual("certificate" in self.call("GET", user).json, answer != "absent")

    def test_dates(self):
        home = self.onboard()
        user = self.create(home, "dates")
        seen = {}
        for form in ("iso", "iso-millis", "iso-nanos", "iso-offset", "iso-compact-offset", "iso-no-zone", "date",
                     "blank", "blank-millis", "rfc1123", "unix", "unix-text", "unix-ms", "unix-ms-text", "garbage",
                     "empty", "null"):
            self.platform.behave(exposure={"date_format": form})
            seen[form] = self.call("GET", user).json["expirationDate"]
        self.assertIsInstance(seen["unix"], int)
        self.assertEqual(str(seen["unix"]), seen["unix-text"])
        self.assertEqual(seen["unix"], seen["unix-ms"] // 1000)
        self.assertEqual(seen["iso"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seen["unix"])))
        self.assertEqual(seen["rfc1123"], time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(seen["unix"])))
        self.assertEqual(seen["iso-offset"][-6:], "+02:00")
        self.assertIsNone(seen["null"])
        self.platform.behave(exposure={"date_format": "absent"})
        self.assertNotIn("expirationDate", self.call("GET", user).json)

    def test_odd_certificates(self):
        home = self.onboard()
        for rule, option, wanted in (
            ({"lifetime_s": -10, "not_before_offset_s": -60}, "-checkend", "will expire"),
            ({"usage": "server"}, "-purpose", "SSL client : No"),
            ({"usage": "none"}, "-purpose", "SSL client : Yes"),
        ):
            self.platform.behave(exposure={"certificate": {"lifetime_s": None, "usage": None, **rule}})
            user = self.create(home, f"odd-{wanted[-3:].strip().lower()}")
            text = self.call("GET", user).json["certificate"]
            arguments = [option, "0"] if option == "-checkend" else [option]
            shown = subprocess.run(["openssl", "x509", "-noout", *arguments], input=text.encode(),
                                           capture_output=True, check=False).stdout.decode()
            self.assertIn(wanted, shown)
        self.platform.behave(exposure={"certificate": {"usage": None, "key": "other"}})
        text = self.call("GET", self.create(home, "stranger")).json["certificate"]
        (self.directory / "stranger.pem").write_text(text)
        self.assertNotEqual(
            harness.public_key_of_certificate(self.directory / "stranger.pem"),
            harness.public_key_of_key(self.directory / f"logs-{TENANT}-stranger.key"))

    def test_in_progress_and_list_lag(self):
        home = self.onboard()
        self.platform.behave(exposure={"ready_delay_ms": -1, "list_lag_ms": 3_600_000})
        user = self.create(home, "slow")
        self.assertEqual(self.call("GET", user).json["status"], "IN PROGRESS")
        self.assertIsNone(self.call("GET", user).json["certificate"])
        self.assertEqual(self.call("GET", f"{home}/users").json["items"], [])
        self.platform.change_user(user.rsplit("/", 1)[1], status="READY")
        self.assertIn("BEGIN CERTIFICATE", self.call("GET", user).json["certificate"])

    def test_lists_that_lie(self):
        home = self.onboard()
        for name in ("a", "b", "c"):
            self.create(home, name)
        for rule, count in (({"list": "cut", "list_limit": 2}, 2), ({"list": "empty"}, 0), ({"list": "full"}, 3)):
            self.platform.behave(exposure=rule)
            self.assertEqual(len(self.call("GET", f"{home}/users").json["items"]), count)
        self.platform.behave(exposure={"list_fields": {"nextPage": "2"}})
        self.assertEqual(self.call("GET", f"{home}/users").json["nextPage"], "2")
        self.platform.behave(exposure={"list": "html"})
        answer = self.call("GET", f"{home}/users")
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/html; charset=utf-8"))

    def test_other_shapes(self):
        home = self.onboard()
        self.platform.behave(exposure={"surplus_users": 1, "description_limit": 4, "contact": "flat",
                                       "optional_fields": "null", "unknown_fields": True})
        user = self.create(home, "shapes")
        self.assertEqual(len(self.call("GET", f"{home}/users").json["items"]), 2)
        full = self.call("GET", user).json
        self.assertEqual(full["description"], "a us")
        self.assertEqual(full["contact.email"], "soc@example.com")
        self.assertIsNone(full["createdBy"])
        self.assertIn("links", full)
        self.platform.change_user(full["id"], fields={"status": "DEGRADED", "certificate": 7})
        self.assertEqual(self.call("GET", user).json["certificate"], 7)
        self.assertEqual(self.call("GET", user).json["status"], "DEGRADED")

    def test_others_work_here_too(self):
        foreign = self.platform.put_user(description="made in the portal")
        home = f"{INSTANCES}/{self.call('GET', INSTANCES).json['items'][0]['id']}"
        self.assertEqual(self.call("GET", f"{home}/users/{foreign}").json["description"], "made in the portal")
        self.assertEqual(self.platform.delete_users(id=foreign), 1)
        self.assertEqual(self.call("GET", f"{home}/users").json["items"], [])
        self.assertEqual(self.platform.state()["deleted_users"][0]["by"], "control")
        self.assertEqual(self.platform.delete_instances(variant="log"), 1)
        self.assertEqual(self.call("GET", INSTANCES).json["items"], [])

    def test_a_second_instance(self):
        homes = [self.platform.put_instance(), self.platform.put_instance(status="IN PROGRESS")]
        self.assertEqual([i["id"] for i in self.call("GET", INSTANCES).json["items"]], homes)
        self.assertEqual(self.call("GET", f"{INSTANCES}/{homes[1]}").json["status"], "IN PROGRESS")
        self.assertEqual(self.call("POST", f"{INSTANCES}/{homes[1]}/users", self.user_body("early")).status, 409)

    def test_certificates_signed_again(self):
        user = self.platform.put_user()
        self.platform.change_user(user, lifetime_s=3600)
        shown = self.platform.users()[0]
        harness.openssl("x509", "-noout", "-checkend", "3500", stdin=shown["certificate_pem"].encode())
        with self.assertRaises(AssertionError):
            harness.openssl("x509", "-noout", "-checkend", "3700", stdin=shown["certificate_pem"].encode())

    def test_tenants_and_unknown_addresses(self):
        self.platform.behave(tenants=["another"])
        self.assertEqual(self.call("GET", INSTANCES).status, 403)
        self.assertEqual(self.call("GET", "/elsewhere").status, 404)
        self.assertEqual(self.call("PUT", INSTANCES, {}).status, 405)
        self.assertEqual(self.call("GET", "/les/swagger/index.html").status, 200)


class CatalogTest(SimulatorCase):
    def order(self, **changes):
        body = {"type": "com.example.Request", "data": {"planName": "small"}, **changes}
        return self.call("POST", f"{CATALOG}/entitledCatalogItems/item-1/requests?businessGroupId=group-1", body)

    def test_order(self):
        template = self.call("GET", f"{CATALOG}/entitledCatalogItems/item-1/requests/customTemplate?businessGroupId=g")
        self.assertTrue(template.json["type"].endswith("CatalogItemProvisioningRequest"))
        self.assertIsNone(template.json["data"]["planName"])
        self.assertEqual(self.order(type=None).status, 400)

        answer = self.order()
        self.assertEqual(answer.status, 201)
        path = f"{CATALOG}/requests/{answer.json['id']}"
        self.assertFalse(self.call("GET", path).json["final"])
        done = harness.wait_until(lambda: (shown := self.call("GET", path).json)["final"] and shown)
        self.assertTrue(done["successful"])
        self.assertEqual(self.call("GET", f"{CATALOG}/requests/unknown").status, 404)

    def test_styles(self):
        self.platform.behave(catalog={"id_in": "location", "status_style": "state", "outcome": "failed", "step_ms": 0})
        answer = self.order()
        self.assertEqual(answer.body, b"")
        shown = self.call("GET", urllib.parse.urlsplit(answer.headers["Location"]).path).json
        self.assertEqual(shown["state"], "PROVIDER_FAILED")
        self.assertNotIn("final", shown)

    def test_action_values(self):
        form = f"{CATALOG}/resources/r1/actions/a1/forms/request"
        self.assertEqual(self.call("GET", form).status, 200)
        wanted = ["provider-accessKeyID", "provider-secretAccessKey", "no-such-element"]
        updates = self.call("POST", f"{form}/update", {"affectedElements": wanted}).json["elementUpdates"]
        values = {}
        for each in updates:
            fixed = [f for f in each["facetValues"]["facets"] if f["type"] == "fixedValue"]
            self.assertGreater(len(each["facetValues"]["facets"]), len(fixed))
            values[each["id"]] = fixed[0]["value"]["value"]
        self.assertEqual(values["provider-accessKeyID"], "simulated-access-key")
        self.assertIn("provider-decoy", values)
        self.assertNotIn("no-such-element", values)
        self.platform.behave(catalog={"elements": {"x": 5, "y": {"facets": []}}, "decoys": False, "reversed": True})
        updates = self.call("POST", f"{form}/update", {"affectedElements": ["x", "y"]}).json["elementUpdates"]
        self.assertEqual([u["id"] for u in updates], ["y", "x"])
        self.assertEqual(updates[0]["facetValues"]["facets"], [])
        self.assertEqual(updates[1]["facetValues"]["facets"][0]["value"]["value"], 5)


class FaultTest(SimulatorCase):
    def test_status_headers_and_count(self):
        self.platform.fault(operation="list_instances", nth=2, times=2, status=503, headers={"Retry-After": "7"},
                            body={"message": "later"})
        statuses = [self.call("GET", INSTANCES).status for _ in range(5)]
        self.assertEqual(statuses, [200, 503, 503, 200, 200])
        self.assertEqual(self.platform.faults()[0]["fired"], 2)
        self.assertEqual([r["status"] for r in self.platform.requests("list_instances")], statuses)

    def test_path_and_redirect(self):
        self.platform.fault(path="/les/", times=0, redirect="https://login.example.com/")
        answer = self.call("GET", INSTANCES)
        self.assertEqual((answer.status, answer.headers["Location"]), (302, "https://login.example.com/"))
        self.assertEqual(self.call("GET", "/hes" + INSTANCES[4:]).status, 200)

    def test_lost_answers(self):
        for effect, done in (({"close": "before"}, 0), ({"close": "after"}, 1), ({"reset": "after"}, 1)):
            self.platform.reset()
            self.token = self.platform.access_token()
            self.platform.fault(operation="create_instance", **effect)
            with self.assertRaises((OSError, http.client.HTTPException)):
                self.call("POST", INSTANCES, {})
            self.assertEqual(len(self.platform.state()["instances"]), done)

    def test_cut_huge_html_and_framing(self):
        self.onboard()
        self.platform.fault(operation="list_instances", truncate=10)
        with self.assertRaises((http.client.IncompleteRead, OSError)):
            self.call("GET", INSTANCES)
        self.platform.clear_faults()
        self.platform.fault(operation="list_instances", huge_bytes=3_000_000)
        self.assertEqual(len(self.call("GET", INSTANCES).body), 3_000_000)
        self.platform.clear_faults()
        self.platform.fault(operation="list_instances", status=200, body="<html>Sign in</html>")
        self.assertTrue(self.call("GET", INSTANCES).headers["Content-Type"].startswith("text/html"))
        self.platform.clear_faults()
        self.platform.fault(operation="list_instances", status=200, body="{}", drip_ms=1)
        self.assertEqual(self.call("GET", INSTANCES).json, {})
        for framing in ("chunked", "until-close"):
            self.platform.clear_faults()
            self.platform.fault(operation="list_instances", framing=framing)
            self.assertEqual(len(self.call("GET", INSTANCES).json["items"]), 1)

    def test_work_done_late_and_answer_replaced(self):
        self.platform.fault(operation="create_instance", late_ms=200, status=500)
        self.assertEqual(self.call("POST", INSTANCES, {}).status, 500)
        self.assertEqual(self.platform.state()["instances"], [])
        harness.wait_until(lambda: self.platform.state()["instances"])
        self.platform.reset()
        self.token = self.platform.access_token()
        self.platform.fault(operation="create_instance", status=502, process=True)
        self.assertEqual(self.call("POST", INSTANCES, {}).status, 502)
        self.assertEqual(len(self.platform.state()["instances"]), 1)

    def test_a_hanging_answer_holds_up_nobody(self):
        self.platform.fault(operation="list_instances", hang="before")
        stuck = self.platform.connect()
        stuck.request("GET", INSTANCES, headers={"Authorization": f"Bearer {self.token}"})
        self.assertEqual(self.call("GET", INSTANCES).status, 200)
        stuck.sock.settimeout(0.2)
        with self.assertRaises(socket.timeout):
            stuck.getresponse()
        stuck.close()

    def test_unknown_rules_are_refused(self):
        for rule in ({"stauts": 500}, {"close": "sometimes"}, {"framing": "wavy"}):
            with self.assertRaises(harness.ControlError):
                self.platform.fault(**rule)
        for change in ({"exposures": {}}, {"exposure": {"list": "short"}}, {"exposure": {"ready_delay_ms": "soon"}}):
            with self.assertRaises(harness.ControlError):
                self.platform.behave(**change)


class TransportTest(SimulatorCase):
    def test_server_certificates(self):
        for kind, sentence in (("unknown-ca", "certificate signature failure|unable to get|self.signed"),
                               ("other-host", "not valid for"), ("expired", "expired")):
            self.platform.behave(server_certificate=kind)
            with self.assertRaisesRegex(ssl.SSLCertVerificationError, sentence):
                self.call("GET", INSTANCES)
        self.assertEqual(self.platform.requests(), [])
        harness.wait_until(lambda: self.platform.state()["connections"]["refused"] == 3)
        self.platform.behave(server_certificate="good")
        with self.subTest("by name"):
            connection = self.platform.connect("localhost")
            self.assertEqual(self.call("GET", INSTANCES, connection=connection).status, 200)
            connection.close()

    def test_clock(self):
        self.platform.behave(clock_offset_s=3600)
        ahead = parsedate_to_datetime(self.call("GET", INSTANCES).headers["Date"]).timestamp() - time.time()
        self.assertAlmostEqual(ahead, 3600, delta=60)

    def test_hundreds_of_connections_stay_open(self):
        connections = [self.platform.connect() for _ in range(200)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for _ in range(2):
                answers = pool.map(lambda c: self.call("GET", INSTANCES, connection=c).status, connections)
                self.assertEqual(set(answers), {200})
        self.assertEqual(self.platform.state()["connections"]["accepted"], 200)
        for connection in connections:
            connection.close()

    def test_journal_holds_no_secret(self):
        token = self.platform.refresh_token()
        self.platform.token_request(grant_type="refresh_token", refresh_token=token)
        self.call("GET", INSTANCES, headers={"Accept": "text/html"})
        shown = json.dumps(self.platform.requests()) + json.dumps(self.platform.state())
        for secret in (token, self.token, harness.CLIENT_SECRET):
            self.assertNotIn(secret, shown)
        self.assertEqual(self.platform.requests("list_instances")[0]["violations"], ["Accept is not application/json"])


class RestartTest(unittest.TestCase):
    def test_state_and_authorities_survive(self):
        with Simulator({"exposure": {"instance_ready_delay_ms": 0}}, keep_state=True) as platform:
            user = platform.put_user(description="kept")
            token, refresh = platform.access_token(), platform.refresh_token()
            authority = platform.ca_file.read_text()
            platform.halt()
            platform.start()
            self.assertEqual(platform.ca_file.read_text(), authority)
            self.assertEqual([u["id"] for u in platform.users()], [user])
            self.assertEqual(len(platform.call("GET", INSTANCES, token=token).json["items"]), 1)
            self.assertEqual(platform.token_request(grant_type="refresh_token", refresh_token=refresh).status, 200)


if __name__ == "__main__":
    unittest.main()
