"""Rules and dashboards: they use only metrics that exist, alerts fire exactly when they should, and the fleet's
recording rules yield the true values for a simulated fleet."""

import collections
import json
import pathlib
import re
import tempfile
import unittest

import support

HERE = pathlib.Path(__file__).parent
RULES = support.SOURCE / "systemd/prometheus/exposure-agent.rules.yml"
FLEET_RULES = support.SOURCE / "systemd/prometheus/exposure-agent-fleet.rules.yml"
DASHBOARDS = {
    support.SOURCE / "systemd/grafana/exposure-agent.json": {"datasource", "instance", "exposure", "user"},
    support.SOURCE / "systemd/grafana/exposure-agent-fleet.json": {"datasource", "job"},
}
METRICS = dict(line.split() for line in (support.SOURCE / "systemd/prometheus/metrics.txt").read_text().splitlines()
               if line and not line.startswith("#"))


def metrics_in(text):
    for name in set(re.findall(r"(?<![\w:])exposure_agent_\w+", text)):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        yield base if METRICS.get(base) == "histogram" else name


def recorded_in(text):
    return set(re.findall(r"\w+:exposure_agent_\w+:\w+", text))


def queries(board):
    """The query of each panel, with all variables set to All."""
    for panel in json.loads(board.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], re.sub(r"\$(instance|exposure|user|job)\b", ".*",
                                         target["expr"].replace("$__rate_interval", "5m"))


class Fleet:
    """The hosts of one job as Prometheus sees them after 90 minutes, and the values that the rules must record."""

    NOW, DAY = 5400, 86400
    # number of hosts: (state, time until rotation, metrics that differ from a healthy host's)
    HOSTS = [
        (3, "logged out", 8 * DAY, {"login_required": 1, "deploy_pending": 1}),
        (2, "logged out", 8 * DAY, {"login_required": 1, "certificate_ready": 0}),
        (4, "no certificate", None, {"certificate_ready": 0}),
        (1, "no certificate", -4000, {"certificate_ready": 0}),
        (5, "rotation overdue", -4000, {"login_failing_since_timestamp_seconds": 60}),
        (6, "hook pending", 6 * DAY, {"deploy_pending": 1}),
        (7, "ok", 20 * DAY, {}),
        (9, "ok", 60 * DAY, {"token_published_timestamp_seconds": 5000}),
        (1, "ok", -30, {}),  # due right now
    ]
    LEFT = 90 * DAY  # from rotation date to expiry

    def __init__(self):
        self.series = []
        self.states = collections.Counter()
        self.within = collections.Counter()
        self.users = self.ready = 0
        for count, state, due, differing in self.HOSTS:
            for _ in range(count):
                self.add(state, due, differing)

    def add(self, state, due, differing):
        host = f"host-{self.states.total()}"
        users = 1 + self.states.total() % 3
        self.states[state] += 1
        of_host = {"login_required": 0, "login_failing_since_timestamp_seconds": 0, "token_published_timestamp_seconds": 0,
                   "access_token_expiry_timestamp_seconds": 9000}
        rotate_at = 0 if due is None else self.NOW + due
        of_user = {"certificate_ready": 1, "deploy_pending": 0, "retiring_users": 0,
                   "certificate_rotate_at_timestamp_seconds": rotate_at,
                   "certificate_not_after_timestamp_seconds": rotate_at and rotate_at + self.LEFT}
        for metric, value in of_host.items():
            self.put(metric, f"{differing.get(metric, value)}x100", instance=host)
        self.put("build_info", "1x100", instance=host, version="1.2.3")
        self.put("platform_requests_total", "0+60x100", instance=host, operation="get_user", status="200")
        if "certificate_ready" in differing:
            self.put("platform_requests_total", "0+30x100", instance=host, operation="create_user", status="503")
        self.put("token_publish_failures_total", "0x100", instance=host)
        for bound in ("0.5", "+Inf"):
            self.put("reconcile_duration_seconds_bucket", "0+1x100", instance=host, exposure="logs", le=bound)
        for number in range(users):
            for metric, value in of_user.items():
                self.put(metric, f"{differing.get(metric, value)}x100", instance=host, exposure="logs", user=f"u{number}")
            for result in ("success", "failure"):
                self.put("rotations_total", "0x100", instance=host, exposure="logs", user=f"u{number}", result=result)
            self.users += 1
            self.ready += differing.get("certificate_ready", 1)
            for within, limit in (("1d", self.DAY), ("7d", 7 * self.DAY), ("30d", 30 * self.DAY)):
                self.within[within] += due is not None and due < limit

    def put(self, metric, values, **labels):
        shown = ", ".join(f'{name}="{value}"' for name, value in {"job": "agents", **labels}.items())
        self.series.append({"series": f"exposure_agent_{metric}{{{shown}}}", "values": values})

    def expected(self):
        """(expression, labels, value)"""
        for state, count in self.states.items():
            yield f'job_state:exposure_agent_hosts:count{{state="{state}"}}', f'state="{state}"', count
        for within, count in self.within.items():
            yield f'job_within:exposure_agent_rotations:count{{within="{within}"}}', f'within="{within}"', count
        broken = sum(count for count, _, _, differing in self.HOSTS if "certificate_ready" in differing)
        hosts = self.states.total()
        rates = "job_operation_status:exposure_agent_platform_requests:rate5m"
        yield from (
            ('job_version:exposure_agent_hosts:count', 'version="1.2.3"', hosts),
            ("job:exposure_agent_certificates:count", "", self.users),
            ("job:exposure_agent_certificates_ready:sum", "", self.ready),
            ("job:exposure_agent_certificate_not_after_timestamp_seconds:min", "", self.NOW - 4000 + self.LEFT),
            ("job:exposure_agent_login_required:sum", "", self.states["logged out"]),
            ("job:exposure_agent_login_failing:count", "", self.states["rotation overdue"]),
            ("job:exposure_agent_token_published_timestamp_seconds:max", "", 5000),
            ("job:exposure_agent_token_publish_failures:increase1h", "", 0),
            ("job:exposure_agent_platform_errors:ratio_rate5m", "", 30 * broken / (60 * hosts + 30 * broken)),
            (f'{rates}{{status="200"}}', 'operation="get_user", status="200"', hosts),
            (f'{rates}{{status="503"}}', 'operation="create_user", status="503"', broken / 2),
        )


class monitoring(unittest.TestCase):
    def test_rules_are_valid(self):
        support.require("promtool")
        support.run("promtool", "check", "rules", RULES, FLEET_RULES)

    def test_a_simulated_fleet(self):
        """Checks what the fleet's rules record, and that no panel of either dashboard is empty."""
        support.require("promtool")
        fleet = Fleet()
        cases = []
        for query, labels, value in fleet.expected():
            name = query.partition("{")[0]
            all_labels = ", ".join(filter(None, ['job="agents"', labels]))
            cases.append({"expr": query, "eval_time": "90m",
                          "exp_samples": [{"labels": f"{name}{{{all_labels}}}", "value": value}]})
        for board in DASHBOARDS:
            for _title, query in queries(board):
                cases.append({"expr": f"count({query}) > bool 0", "eval_time": "90m",
                              "exp_samples": [{"labels": "{}", "value": 1}]})
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"rule_files": [str(FLEET_RULES)], "evaluation_interval": "1m", "tests": [
                {"interval": "1m", "input_series": fleet.series, "promql_expr_test": cases}]}, file)
            file.flush()
            support.run("promtool", "test", "rules", file.name)

    def test_alerts_fire_when_they_should(self):
        support.require("promtool")
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as cases:
            cases.write((HERE / "alerts.yml").read_text().replace("RULES", str(RULES)))
            cases.flush()
            support.run("promtool", "test", "rules", cases.name)

    def test_every_alert_has_a_case(self):
        cases = (HERE / "alerts.yml").read_text()
        for alert in re.findall(r"alert: ExposureAgent(\w+)", RULES.read_text()):
            self.assertRegex(cases, rf"ExposureAgent\(?(\w+\|)*{alert}\b")

    def test_rules_and_dashboards_use_metrics_that_exist(self):
        recorded = set(re.findall(r"record: (\S+)", FLEET_RULES.read_text()))
        for source in (RULES, FLEET_RULES, *DASHBOARDS):
            text = source.read_text()
            used = set(metrics_in(text))
            self.assertTrue(used or recorded_in(text))
            self.assertLessEqual(used, set(METRICS), source.name)
            self.assertLessEqual(recorded_in(text), recorded, source.name)

    def test_every_metric_is_explained(self):
        manual = (support.SOURCE / "systemd/man/exposure-agent.1").read_text()
        self.assertEqual(set(re.findall(r"exposure_agent_\w+", manual)), set(METRICS))

    def test_dashboards_are_whole(self):
        for board, known in DASHBOARDS.items():
            content = json.loads(board.read_text())
            variables = {variable["name"] for variable in content["templating"]["list"]}
            self.assertEqual(variables, known)
            ids = [panel["id"] for panel in content["panels"]]
            self.assertEqual(len(ids), len(set(ids)))
            for panel in content["panels"]:
                self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])
                self.assertTrue(panel["targets"], panel["title"])
            used = set(re.findall(r"\$(\w+)", json.dumps(content)))
            self.assertLessEqual(used - {"__rate_interval", "__all"}, variables)

    def test_dashboard_queries_are_valid(self):
        support.require("promtool")
        asked = [query for board in DASHBOARDS for _title, query in queries(board)]
        rules = {"groups": [{"name": "dashboard", "rules": [
            {"record": f"panel:{n}", "expr": query} for n, query in enumerate(asked)]}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(rules, file)  # JSON is YAML
            file.flush()
            support.run("promtool", "check", "rules", "--lint=none", file.name)


if __name__ == "__main__":
    support.main()
