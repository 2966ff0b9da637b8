"""A second opinion on the tasks that come with hutch, without any of hutch: the folders are read, patched with
patch(1) and tested with pytest or node directly.

    check_tasks.py FOLDER [NAME…]      prints {"NAME": ["what is wrong", …], …}

pytest is imported once; every run is a fork of this process in a folder of its own, as many at a time as there are
processors. Only for tasks that one trusts: nothing is confined here.
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import pytest

CPU_SECONDS = 10
OPTIONS = ["-q", "--tb=no", "--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
MEMBERS = {"title", "instruction", "language", "tests", "solution", "reads", "limits", "prices", "seed"}
PARTS = {"src", "tests", "hidden", "workspace", "patches.json", "task.json"}


class Outcomes:
    """A plugin of pytest that keeps what became of each test: passed only if all of its phases did."""

    def __init__(self):
        self.of = {}

    def pytest_runtest_logreport(self, report):
        before = self.of.get(report.nodeid, "passed")
        self.of[report.nodeid] = report.outcome if before == "passed" else before

    def pytest_collectreport(self, report):
        if report.failed:
            self.of[report.nodeid] = "failed"


class Task:
    def __init__(self, folder):
        self.folder = folder
        self.json = json.loads((folder / "task.json").read_text())
        self.patches = {patch["name"]: patch["diff"] for patch in json.loads((folder / "patches.json").read_text())}
        self.solution = self.json["solution"]
        self.expected = self.json["tests"]["expected"]

    def variants(self):
        """Which patches are tried together: none, each alone, all subsets of the solution; and where runs are cheap
        everything that is no longer than the solution."""
        sets = [()] + [(name,) for name in self.patches]
        for size in range(2, len(self.solution) + 1):
            sets += itertools.combinations(self.patches if self.json["language"] == "python" else self.solution, size)
        return sets

    def lay_out(self, place, names):
        """Puts the workspace there with these patches applied, then the hidden tests. Returns whether they applied."""
        for part in ("src", "tests"):
            shutil.copytree(self.folder / part, place / part)
        if (self.folder / "workspace").exists():
            shutil.copytree(self.folder / "workspace", place, dirs_exist_ok=True)
        for name in names:
            patched = subprocess.run(["patch", "-p1", "-s", "-F0", "--no-backup-if-mismatch"], cwd=place,
                                     input=self.patches[name].encode(), stdout=subprocess.DEVNULL)
            if patched.returncode:
                return False
        if (self.folder / "hidden").exists():
            shutil.copytree(self.folder / "hidden", place, dirs_exist_ok=True)
        return True

    def run(self, place):
        if self.json["tests"]["runner"] == "pytest":
            return self.run_pytest(place)
        return self.run_command(place)

    def run_pytest(self, place):
        outcomes = Outcomes()
        tests = self.json["tests"]
        sys.path[:0] = [str(place / folder) for folder in tests["import"]]
        pytest.main(OPTIONS + [f"--rootdir={place}", f"--basetemp={place}/.tmp", *tests["paths"]], plugins=[outcomes])
        return outcomes.of

    def run_command(self, place):
        tests = self.json["tests"]
        report = place / ".report"
        subprocess.run(tests["command"].replace("%R", str(report)), shell=True, cwd=place, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not report.exists():
            return {}
        text = report.read_text()
        if tests["format"] == "junit":
            cases = xml.etree.ElementTree.fromstring(text).iter("testcase")
            return {case.get("name"): "passed" if len(case) == 0 else "failed" for case in cases}
        lines = re.findall(r"^(not )?ok \d+ - (.*)$", text, re.MULTILINE)
        return {name: "failed" if failed else "passed" for failed, name in lines}


def in_child(task, names, place):
    """Does one run and answers with a JSON document in a file beside the workspace."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    quiet = os.open("/dev/null", os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    workspace = place / "workspace"
    workspace.mkdir()
    applied = task.lay_out(workspace, names)
    os.chdir(workspace)
    answer = {"applied": applied, "outcomes": task.run(workspace) if applied else {}}
    (place / "answer").write_text(json.dumps(answer))


def warm_up(scratch):
    """One run of a test that is none of ours: what pytest imports for it, no child has to import again."""
    (scratch / "test_warm.py").write_text("import subprocess\n\n\ndef test_warm(tmp_path):\n    assert tmp_path\n")
    with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
        pytest.main(OPTIONS + [f"--rootdir={scratch}", f"--basetemp={scratch}/.tmp", str(scratch / "test_warm.py")])


def run_all(tasks, scratch):
    """{(task's name, patches): answer}, an answer that died being empty."""
    warm_up(scratch)
    waiting = [(name, names) for name, task in tasks.items() for names in task.variants()]
    running, answers, number = {}, {}, 0
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            number += 1
            name, names = waiting.pop(0)
            place = scratch / str(number)
            place.mkdir()
            child = os.fork()
            if child == 0:
                try:
                    in_child(tasks[name], names, place)
                finally:
                    os._exit(0)
            running[child] = (name, names), place
        child, _ = os.wait()
        if child in running:
            which, place = running.pop(child)
            answer = place / "answer"
            answers[which] = json.loads(answer.read_text()) if answer.exists() else {"applied": True, "outcomes": {}}
            shutil.rmtree(place)
    return answers


def check_form(task):
    """What is wrong with the folder itself."""
    tests, names = task.json["tests"], list(task.patches)
    if left := {entry.name for entry in task.folder.iterdir()} - PARTS:
        yield f"unknown files: {sorted(left)}"
    if left := set(task.json) - MEMBERS:
        yield f"unknown members: {sorted(left)}"
    if not re.fullmatch("[a-z0-9_]+", task.folder.name):
        yield "the name is not of the form [a-z0-9_]+"
    if bad := [name for name in names if not re.fullmatch("[a-z0-9-]+", name)]:
        yield f"names of patches are not of the form [a-z0-9-]+: {bad}"
    if bad := [name for name in task.solution if name not in names]:
        yield f"the solution names patches that are not there: {bad}"
    if not 4 <= len(names) <= 8:
        yield f"{len(names)} patches, not 4 to 8"
    if len(names) + len(task.json.get("reads", [])) + 2 > 14:
        yield "more than 14 actions"
    if len(set(tests["expected"])) != len(tests["expected"]):
        yield "a test is expected twice"
    if touched := [name for name, diff in task.patches.items() if re.search(r"^\+\+\+ b/(?!src/)", diff, re.MULTILINE)]:
        yield f"patches touch more than src: {touched}"
    for path in task.json.get("reads", []):
        if not (task.folder / path).is_file():
            yield f"reads names {path}, which is not there"
    for name in task.solution:
        if name in task.json["instruction"]:
            yield f"the instruction names the patch {name}"


def check_orders(task, scratch):
    """The patches of the solution touch different places: they apply in any order, to the same end."""
    ends = {}
    for number, names in enumerate(itertools.permutations(task.solution)):
        place = scratch / f"{task.folder.name}.{number}"
        place.mkdir()
        if not task.lay_out(place, names):
            yield f"{' + '.join(names)}: does not apply in this order"
        files = sorted(path for path in place.rglob("*") if path.is_file())
        ends[tuple((path.relative_to(place), path.read_bytes()) for path in files)] = names
    if len(ends) > 1:
        yield "the order of the solution matters"


def check_runs(task, answers):
    """What is wrong with what came of it."""
    def passed(names):
        of = answers[names]["outcomes"]
        return sum(of.get(test) == "passed" for test in task.expected)

    solution = tuple(task.solution)
    for names, answer in answers.items():
        what = " + ".join(names) or "the original"
        if not answer["applied"]:
            if len(names) == 1 or set(names) <= set(solution):
                yield f"{what}: does not apply"
        elif set(names) == set(solution):
            if passed(names) != len(task.expected):
                bad = [test for test in task.expected if answer["outcomes"].get(test) != "passed"]
                yield f"{what}: is the solution and fails {bad}"
            if more := set(answer["outcomes"]) - set(task.expected):
                yield f"{what}: runs tests that are not expected: {sorted(more)}"
        elif passed(names) == len(task.expected):
            yield f"{what}: passes all tests"
    if not any(passed(names) for names in answers if set(names) != set(solution)):
        yield "no run but the solution passes any test"


def check(folder, names):
    tasks = {name: Task(folder / name) for name in names}
    with tempfile.TemporaryDirectory(prefix="check-tasks-") as scratch:
        scratch = pathlib.Path(scratch)
        problems = {name: [*check_form(task), *check_orders(task, scratch)] for name, task in tasks.items()}
        answers = run_all(tasks, scratch)
    for name, task in tasks.items():
        problems[name] += check_runs(task, {patches: answer for (of, patches), answer in answers.items() if of == name})
    if os.environ.get("CHECK_TASKS_RATES"):
        for (name, patches), answer in answers.items():
            of, expected = answer["outcomes"], tasks[name].expected
            good = sum(of.get(test) == "passed" for test in expected)
            print(f"{name:16} {good:3}/{len(expected):<3} {' + '.join(patches) or '-'}", file=sys.stderr)
    return problems


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    names = sys.argv[2:] or sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    json.dump(check(folder, names), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
