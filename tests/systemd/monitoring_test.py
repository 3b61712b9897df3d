"""Alert rules and dashboard: they use metrics that exist, and alerts fire when they should and only then."""

import json
import pathlib
import re
import tempfile
import unittest

import support

HERE = pathlib.Path(__file__).parent
RULES = support.SOURCE / "systemd/prometheus/exposure-agent.rules.yml"
DASHBOARD = support.SOURCE / "systemd/grafana/exposure-agent.json"
METRICS = dict(line.split() for line in (support.SOURCE / "systemd/prometheus/metrics.txt").read_text().splitlines()
               if line and not line.startswith("#"))


def metrics_in(text):
    for name in set(re.findall(r"exposure_agent_\w+", text)):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        yield base if METRICS.get(base) == "histogram" else name


class monitoring(unittest.TestCase):
    def test_rules_are_valid(self):
        support.require("promtool")
        support.run("promtool", "check", "rules", RULES)

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

    def test_rules_and_dashboard_use_metrics_that_exist(self):
        for source in (RULES, DASHBOARD):
            used = set(metrics_in(source.read_text()))
            self.assertTrue(used)
            self.assertLessEqual(used, set(METRICS), source.name)

    def test_every_metric_is_explained(self):
        manual = (support.SOURCE / "systemd/man/exposure-agent.1").read_text()
        self.assertEqual(set(re.findall(r"exposure_agent_\w+", manual)), set(METRICS))

    def test_dashboard_is_whole(self):
        board = json.loads(DASHBOARD.read_text())
        variables = {variable["name"] for variable in board["templating"]["list"]}
        self.assertEqual(variables, {"datasource", "instance", "exposure", "user"})
        ids = [panel["id"] for panel in board["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        for panel in board["panels"]:
            self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])
            self.assertTrue(panel["targets"], panel["title"])
        used = set(re.findall(r"\$(\w+)", json.dumps(board)))
        self.assertLessEqual(used - {"__rate_interval", "__all"}, variables)

    def test_dashboard_queries_are_valid(self):
        support.require("promtool")
        queries = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
        rules = {"groups": [{"name": "dashboard", "rules": [
            {"record": f"panel:{n}", "expr": query.replace("$__rate_interval", "5m")} for n, query in enumerate(queries)]}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(rules, file)  # JSON is YAML
            file.flush()
            support.run("promtool", "check", "rules", "--lint=none", file.name)


if __name__ == "__main__":
    support.main()
