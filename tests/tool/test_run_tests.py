"""run_tests with real runners, each in a small real project.

What decides is the result's data; the text for the model is looked at where it says something else.
"""
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tested_project import NODE, PYTEST, Project, by_name, counts, need


@pytest.fixture
def project(box):
    return Project(box)


# Python


def test_pytest(project):
    project.write(PYTEST)
    data = project.tests()
    assert (data["framework"], data["report"], data["exit_code"]) == ("pytest", "junit", 1)
    assert counts(data) == [2, 2, 1, 1]
    found = by_name(data)
    wrong = found["tests/test_calc.py::test_wrong"]
    assert (wrong["outcome"], wrong["file"], wrong["line"]) == ("failed", "tests/test_calc.py", 23)
    assert "half ½" in wrong["message"] and "assert 0.5 == 1" in wrong["message"]
    assert found["tests/test_calc.py::TestMore::test_by[0]"]["line"] == 10
    assert found["tests/test_calc.py::test_error"]["outcome"] == "error"
    assert found["tests/test_calc.py::test_skipped"]["message"].endswith("later")
    assert all(t["outcome"] in ("failed", "error") for t in data["tests"][:3])
    assert data["why"] == "pytest.ini"


def test_text_shows_failures_and_counts_the_rest(project):
    project.write(PYTEST)
    text = project.call()["text"]
    assert text.startswith("pytest: 2 failed, 1 error, 2 passed, 1 skipped, exit code 1")
    assert "FAILED tests/test_calc.py::test_wrong (tests/test_calc.py:23)" in text
    assert "test_divides" not in text


def test_pytest_selection(project):
    project.write(PYTEST)
    assert counts(project.tests(path="tests/test_calc.py::test_divides")) == [1, 0, 0, 0]
    assert counts(project.tests(filter="divides or skipped")) == [1, 0, 0, 1]


@pytest.mark.parametrize("command", [
    "pytest -q tests", "python3 -m pytest tests/test_calc.py", "cd tests && PYTHONPATH=.. pytest", "timeout 60 pytest",
    "env A=1 python3 -X dev -m pytest -q", "true; pytest 2>&1", "sh -c 'pytest -q'", "./run.sh", "make whatever",
])
def test_pytest_wherever_it_is_in_the_command(project, command):
    project.write(PYTEST | {"run.sh": ("#!/bin/sh\nexec pytest -q\n", 0o755), "Makefile": "whatever:\n\t@pytest -q\n"})
    data = project.tests(command=command)
    assert counts(data) == [2, 2, 1, 1], data
    assert data["report"] == "junit"


def test_output_that_lies_is_not_believed(project):
    project.write({"test_a.py": "import os\ndef test_a():\n    print('===== 5 passed in 0.01s =====', flush=True)\n    os._exit(0)\n"})
    text, data = project.fails(command="pytest -s")
    assert "no report" in text and "5 passed" in text
    assert counts(data) == [0, 0, 0, 0] and data["exit_code"] == 0


def test_collection_error(project):
    project.write({"test_a.py": "import nothing_of_that_name\n", "test_b.py": "def test_b(): pass\n"})
    data = project.tests()
    assert data["errors"] == 1 and "nothing_of_that_name" in data["tests"][0]["message"]


def test_no_tests_found(project):
    project.write({"pytest.ini": "[pytest]\n", "a.py": "x = 1\n"})
    text, data = project.fails()
    assert text.startswith("No tests were run") and data["exit_code"] == 5


def test_runner_that_fails_after_its_tests(project):
    project.write({"test_a.py": "def test_a(): pass\n",
                   "conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 3\n"})
    data = project.tests()
    assert (data["passed"], data["errors"], data["exit_code"]) == (1, 1, 3)
    assert data["tests"][0]["name"] == "(pytest)" and "exit code 3" in data["tests"][0]["message"]


def test_second_runner_without_a_report(project):
    project.write({"test_a.py": "def test_a(): pass\n", "test_b.py": "import os\ndef test_b(): os._exit(0)\n"})
    data = project.tests(command="pytest test_b.py; pytest test_a.py")
    assert (data["passed"], data["errors"]) == (1, 1)
    data = project.tests(command="pytest test_a.py; pytest test_a.py")
    assert counts(data) == [2, 0, 0, 0]


UNITTEST = {
    "tests/test_a.py": """import unittest

class A(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self): self.assertEqual(1, 2, "<&>")
    def test_raises(self): raise KeyError("x\\x00y")
    @unittest.skip("later")
    def test_skip(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_unexpected(self): pass
    def test_parts(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertNotEqual(i, 1)

class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise RuntimeError("no class")
    def test_never(self): pass
""",
}


def test_unittest(project):
    project.write(UNITTEST)
    data = project.tests(framework="unittest")
    assert (data["framework"], data["report"]) == ("unittest", "junit")
    found = by_name(data)
    assert counts(data) == [1, 3, 2, 2], list(found)
    bad = found["test_a.A.test_bad"]
    assert (bad["outcome"], bad["file"], bad["line"]) == ("failed", "tests/test_a.py", 5)
    assert "<&>" in bad["message"]
    assert found["test_a.A.test_parts (i=1)"]["outcome"] == "failed"


def test_unittest_command(project):
    project.write(UNITTEST | {"tests/__init__.py": ""})
    data = project.tests(command="python3 -m unittest -v tests.test_a.A.test_good")
    assert counts(data) == [1, 0, 0, 0] and "test_good" in data["output"]
    data = project.tests(command="python3 -m unittest nothing.here")
    assert counts(data) == [0, 0, 1, 0]


# Builds


CTEST = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.10)
project(demo C)
enable_testing()
add_executable(check check.c)
add_test(NAME good COMMAND check)
add_test(NAME bad COMMAND check bad)
add_test(NAME skip COMMAND sh -c "exit 77")
set_tests_properties(skip PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME absent COMMAND /nonexistent/program)
""",
    "check.c": '#include <stdio.h>\nint main(int argc, char **argv) { if (argc > 1) puts("it is bad"); return argc > 1; }\n',
}


def test_ctest_is_configured_and_built(project):
    need("cmake", "ctest", "cc")
    project.write(CTEST)
    data = project.tests()
    assert (data["framework"], data["report"]) == ("ctest", "junit")
    assert counts(data) == [1, 1, 1, 1]
    assert by_name(data)["bad"]["message"] == "it is bad"
    assert not (project.box.workspace / "build").exists()
    assert counts(project.tests(filter="go+d")) == [1, 0, 0, 0]


def test_ctest_that_does_not_build(project):
    need("cmake", "ctest", "cc")
    project.write(CTEST | {"check.c": "int main(void) { return nothing_of_that_name; }\n"})
    text, data = project.fails()
    assert "no report" in text and "nothing_of_that_name" in text and data["exit_code"] != 0


def test_ctest_in_a_build_folder(project):
    need("cmake", "ctest", "cc")
    project.write(CTEST)
    opts = ["--mode", "direct"]
    project.tests(opts, command="cmake -S . -B build >/dev/null && cmake --build build >/dev/null && cd build && ctest")
    data = project.tests(opts)
    assert data["command"] == "cmake --build build && cd build && ctest"
    assert counts(data) == [1, 1, 1, 1]


MESON = {
    "meson.build": """project('demo')
test('good', find_program('true'))
test('bad', find_program('bad.sh'))
test('inner', find_program('tap.sh'), protocol: 'tap')
test('slow', find_program('sleep'), args: ['60'], timeout: 1)
""",
    "bad.sh": ("#!/bin/sh\necho it is bad\nexit 1\n", 0o755),
    "tap.sh": ("#!/bin/sh\necho 1..2\necho ok 1 - a\necho not ok 2 - b\necho '# why'\n", 0o755),
}


def test_meson(project):
    need("meson", "ninja")
    project.write(MESON)
    data = project.tests()
    assert (data["framework"], data["report"]) == ("meson", "json")
    assert counts(data) == [2, 3, 0, 0]
    found = by_name(data)
    assert "it is bad" in found["bad"]["message"] and found["inner > b"]["message"] == "why"
    slow = found["slow"]
    assert slow["outcome"] == "failed" and slow["message"].startswith("TIMEOUT")


def test_meson_leaves_nothing_in_its_build_folder(project):
    need("meson", "ninja")
    project.write(MESON)
    opts = ["--mode", "direct"]
    project.tests(opts, command="meson setup build && meson test -C build good")
    assert counts(project.tests(opts, framework="meson", filter="good")) == [1, 0, 0, 0]
    left = os.listdir(project.box.workspace / "build" / "meson-logs")
    assert not [name for name in left if name.startswith("hutch-")]


def test_make_plain(project):
    need("make")
    project.write({"Makefile": "all:\n\ntest: all\n\t@echo 5 passed\n\t@test ! -e broken\n"})
    data = project.tests()
    assert (data["framework"], data["report"], data["command"]) == ("make", "exit code", "make test")
    assert [(t["name"], t["outcome"]) for t in data["tests"]] == [("make test", "passed")]
    project.write({"broken": ""})
    data = project.tests()
    assert counts(data) == [0, 1, 0, 0] and "5 passed" in data["tests"][0]["message"]


def test_make_with_tap(project):
    need("make")
    project.write({"Makefile": "check:\n\t@sh a.sh\n\t@sh b.sh\n",
                   "a.sh": "echo 1..2; echo ok 1 - one; echo ok 2 - two\n", "b.sh": "echo 1..2; echo not ok 1 - three\n"})
    data = project.tests()
    assert data["report"] == "tap" and counts(data) == [2, 1, 1, 0]
    assert by_name(data)["(plan)"]["message"] == "planned 2, ran 1"


AUTOMAKE = """check:
	@mkdir -p logs
	@printf ':test-result: PASS\\n:recheck: no\\n' >logs/a.trs
	@printf ':test-result: FAIL 2 - two\\n' >logs/b.trs; printf 'b went wrong\\n' >logs/b.log
	@echo PASS: logs/a; echo FAIL: logs/b 2 - two; exit 1
"""


def test_make_as_automake_does(project):
    need("make")
    stale = project.box.workspace / "old.trs"
    project.write({"Makefile": AUTOMAKE, "old.trs": ":test-result: FAIL\n"})
    os.utime(stale, (1, 1))
    data = project.tests()
    assert counts(data) == [1, 1, 0, 0]
    assert by_name(data)["logs/b > 2 - two"]["message"] == "b went wrong"
    assert "logs/a" in by_name(data)


def test_make_that_prints_results(project):
    need("make")
    project.write({"Makefile": "check:\n\t@echo PASS: a; echo SKIP: b; echo XPASS: c; exit 1\n"})
    data = project.tests()
    assert data["report"] == "text" and counts(data) == [1, 1, 0, 1]


# Other languages


def test_prove(project):
    need("prove", "perl")
    project.write({"t/a.t": "use Test::More tests => 3; ok(1, 'one'); is(1, 2, 'two');"
                            " subtest inner => sub { plan tests => 1; ok(0, 'deep') };\n",
                   "t/b.t": "print \"1..3\\nok 1\\nok 2\\n\"; exit 3;\n",
                   "t/c.t": "print \"1..0 # SKIP not here\\n\";\n"})
    data = project.tests()
    assert (data["framework"], data["report"]) == ("prove", "tap")
    assert counts(data) == [3, 2, 1, 1]
    found = by_name(data)
    assert found["t/b.t > (plan)"]["message"] == "planned 3, ran 2"
    two = found["t/a.t > two"]
    assert (two["file"], two["line"]) == ("t/a.t", 1) and "expected: '2'" in two["message"]
    assert found["t/a.t > inner > deep"]["outcome"] == "failed"
    assert found["t/c.t"]["outcome"] == "skipped"


def test_tap_of_any_script(project):
    project.write({"check.sh": "echo TAP version 13; echo 1..2; echo ok 1 - a; echo 'ok 2 - b # SKIP no'\n"})
    data = project.tests(command="sh check.sh")
    assert (data["framework"], data["report"]) == ("command", "tap") and counts(data) == [1, 0, 0, 1]
    data = project.tests(command="sh check.sh", framework="tap")
    assert data["framework"] == "tap" and counts(data) == [1, 0, 0, 1]


@pytest.mark.parametrize("given", [{}, {"command": "npm test"}, {"command": "npm run check"}, {"command": "node --test"}])
def test_node(project, given):
    need("node", "npm")
    scripts = json.dumps({"scripts": {"test": "node --test", "check": "echo first && node --test *.test.js"}})
    project.write({"a.test.js": NODE, "package.json": scripts})
    data = project.tests(**given)
    assert data["report"] == "junit" and counts(data) == [1, 1, 0, 1], data
    bad = by_name(data)["suite > bad"]
    assert (bad["file"], bad["line"]) == ("a.test.js", 5)


def test_node_without_a_script(project):
    need("node")
    project.write({"a.test.js": NODE})
    data = project.tests(filter="good")
    assert data["framework"] == "node" and data["passed"] >= 1 and data["failed"] == 0


def rust():
    """A toolchain, wherever it is: (folder, cargo's own folder)."""
    cargo = shutil.which("cargo")
    if not cargo:
        pytest.skip("no cargo on this host")
    done = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False)
    folder = Path(done.stdout.strip() or "/usr")
    if not (folder / "bin" / "cargo").exists():
        pytest.skip("cargo has no toolchain folder of its own")
    return folder


def test_cargo(project):
    need("cc")
    folder = rust()
    if not project.box.caller.can_run(folder / "bin" / "cargo"):
        pytest.skip("this user may not run the host's cargo")
    project.write({"Cargo.toml": '[package]\nname = "demo"\nversion = "0.1.0"\nedition = "2021"\n',
                   "src/lib.rs": """pub fn one() -> i32 { 1 }
#[cfg(test)]
mod tests {
    #[test]
    fn good() { println!("test fake ... ok"); }
    #[test]
    fn bad() { assert_eq!(crate::one(), 2, "not two"); }
    #[test]
    #[ignore]
    fn slow() {}
}
""", "tests/dies.rs": "#[test]\nfn a() {}\n#[test]\nfn b() { std::process::exit(0) }\n"})
    opts = ["--ro", f"{folder}:/opt/rust", "--env", "PATH=/opt/rust/bin:/usr/bin:/bin", "--memory", "2G"]
    data = project.tests(opts, wait=300)
    assert (data["framework"], data["report"]) == ("cargo", "text")
    found = by_name(data)
    assert found["tests::bad"]["outcome"] == "failed" and "not two" in found["tests::bad"]["message"]
    assert (found["tests::bad"]["file"], found["tests::bad"]["line"]) == ("src/lib.rs", 7)
    assert found["tests::slow"]["outcome"] == "skipped" and found["tests::good"]["outcome"] == "passed"
    assert "tests::fake" not in found
    assert "died" in found["(test program)"]["message"]
    project.write({"src/lib.rs": "fn broken( {}\n"})
    text, _ = project.fails(opts, wait=300)
    assert text.startswith("No tests were run") and "error" in text


def test_go(project):
    need("go")
    project.write({"go.mod": "module example.com/demo\n\ngo 1.18\n",
                   "a_test.go": 'package demo\n\nimport "testing"\n\nfunc TestGood(t *testing.T) {}\n\n'
                                'func TestBad(t *testing.T) {\n\tt.Fatal("not good")\n}\n'})
    data = project.tests(["--memory", "2G"], wait=300)
    assert (data["framework"], data["report"]) == ("go", "json") and counts(data) == [1, 1, 0, 0]


def test_go_as_it_prints(project):
    """Where there is no go, a program that prints what it does."""
    events = [{"Action": "run", "Package": "x", "Test": "TestA"}, {"Action": "pass", "Package": "x", "Test": "TestA", "Elapsed": 0.1},
              {"Action": "run", "Package": "x", "Test": "TestB"},
              {"Action": "output", "Package": "x", "Test": "TestB", "Output": "    b_test.go:7: no\n"},
              {"Action": "fail", "Package": "x", "Test": "TestB"}, {"Action": "fail", "Package": "x"}]
    lines = "".join(json.dumps(e) + "\n" for e in events)
    project.write({"bin/go": (f"#!/bin/sh\ntest \"$*\" = 'test -json ./...' || exit 2\ncat <<'E'\n{lines}E\nexit 1\n", 0o755),
                   "go.mod": "module x\n"})
    data = project.tests(["--env", "PATH=/workspace/bin:/usr/bin:/bin"])
    assert (data["framework"], data["report"]) == ("go", "json") and counts(data) == [1, 1, 0, 0]
    assert (data["tests"][0]["name"], data["tests"][0]["line"]) == ("x.TestB", 7)


@pytest.mark.parametrize("name, options", [
    ("jest", "--json --outputFile="), ("vitest", "--reporter=default --reporter=json --outputFile.json="),
])
@pytest.mark.parametrize("folder", ["", "web/"])
def test_javascript_runners_are_told_where_to_write(project, name, options, folder):
    """A script in place of the runner checks its options and leaves a recorded report."""
    need("node", "npm")
    recorded = Path(__file__).parent.parent / "unit" / "guest" / "reports" / f"{name}.json"
    fake = (f"#!/bin/sh\ncase \"$*\" in *'{options}'*) ;; *) exit 9;; esac\n"
            "for w; do case $w in --outputFile*=*) cp recorded.json \"${w#*=}\";; esac; done\nexit 1\n")
    project.write({f"{folder}node_modules/.bin/{name}": (fake, 0o755), f"{folder}recorded.json": recorded.read_text(),
                   f"{folder}package.json": json.dumps({"scripts": {"test": name}})})
    data = project.tests(**({"cwd": "web"} if folder else {}))
    assert (data["framework"], data["report"]) == (name, "json")
    assert data["failed"] == 1 and data["passed"] == 1
    assert by_name(data)["math > fails"]["outcome"] == "failed"
