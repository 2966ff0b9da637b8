"""`pytest --ctrf FILE`: what pytest-json-ctrf would write, where that is not installed."""
import importlib.util
import json
import time


class Report:
    def __init__(self, path):
        self.path, self.began, self.tests = path, time.time(), {}

    def pytest_runtest_logreport(self, report):
        worst = {"failed": 2, "skipped": 1, "passed": 0}
        test = self.tests.setdefault(report.nodeid, {"name": report.nodeid, "status": "passed", "duration": 0})
        test["duration"] += int(report.duration * 1000)
        if worst[report.outcome] > worst[test["status"]]:
            test["status"] = report.outcome

    def pytest_sessionfinish(self):
        tests = list(self.tests.values())
        count = {status: sum(test["status"] == status for test in tests) for status in ("passed", "failed", "skipped")}
        summary = {"tests": len(tests), **count, "pending": 0, "other": 0, "start": int(self.began), "stop": int(time.time())}
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"results": {"tool": {"name": "pytest"}, "summary": summary, "tests": tests}}, file)


if importlib.util.find_spec("pytest_json_ctrf") is None:
    def pytest_addoption(parser):
        parser.addoption("--ctrf", metavar="FILE", help="a report as JSON")

    def pytest_configure(config):
        if config.getoption("--ctrf"):
            config.pluginmanager.register(Report(config.getoption("--ctrf")))
