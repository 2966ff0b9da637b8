"""run_tests when something else than the runner decides: reports that commands leave, the choice of a runner, the run itself."""
import os

import pytest

from tested_project import NODE, PYTEST, Project, by_name, counts, need


@pytest.fixture
def project(box):
    return Project(box)


# Reports that a command leaves


JUNIT = '<testsuite name="s"><testcase name="a" classname="c"/><testcase name="b" classname="c"><failure message="no"/></testcase></testsuite>'


def test_junit_files_are_found(project):
    project.write({"run.sh": f"mkdir -p out/deep; echo '{JUNIT}' >out/deep/TEST-a.xml; echo '{JUNIT}' >out/TEST-b.xml\n"})
    data = project.tests(command="sh run.sh")
    assert data["report"] == "junit" and counts(data) == [2, 2, 0, 0]


@pytest.mark.parametrize("report", ["out/r.xml", "out", "out/*.xml", "**/r.xml"])
def test_report_is_named(project, report):
    project.write({"run.sh": f"mkdir -p out; echo '{JUNIT}' >out/r.xml\n"})
    assert counts(project.tests(command="sh run.sh", report=report)) == [1, 1, 0, 0]


def test_stale_reports_are_not_read(project):
    project.write({"TEST-old.xml": JUNIT, "out/r.xml": JUNIT})
    text, data = project.fails(command="true", report="out/r.xml")
    assert "older than the run" in text and counts(data) == [0, 0, 0, 0]
    text, _ = project.fails(command="true")
    assert "no report" in text


def test_exit_code_only_when_asked_for(project):
    text, _ = project.fails(command="echo 5 passed")
    assert "no report" in text and "exit_code" in text and "5 passed" in text
    data = project.tests(command="echo 5 passed", framework="exit_code")
    assert data["report"] == "exit code" and counts(data) == [1, 0, 0, 0]
    assert counts(project.tests(command="exit 3", framework="exit_code")) == [0, 1, 0, 0]


@pytest.mark.parametrize("make, word", [
    ("echo '<testsuite><testcase' >r.xml", "invalid"),
    ("echo '<html/>' >r.xml", "not a JUnit report"),
    ("""printf '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><testsuite name="&b;"/>' >r.xml""",
     "document type"),
    ("truncate -s 1G r.xml", "64 MiB"),
    ("mkfifo r.xml", "FIFO"),
    ("ln -s /etc/passwd r.xml", "leads out"),
    ("ln -s r.xml r.xml", "r.xml"),
    ("echo '{\"testResults\": [' >r.xml", "invalid"),
    ("echo nothing >r.xml", "no test results"),
    (": >r.xml", "no test results"),
    ("echo '[[[[' >r.xml", "no test results"),
    ("cp /bin/true r.xml", "no test results"),
    ("printf '<testsuite name=\"' >r.xml; head -c 60M /dev/zero | tr '\\0' x >>r.xml", "invalid"),
    (f"printf '{'<testsuite>' * 2000}' >r.xml", "nested deeper"),
])
def test_bad_reports(project, make, word):
    data = project.tests(command=make, report="r.xml")
    assert counts(data) == [0, 0, 1, 0], data
    assert data["tests"][0]["name"] == "(report)" and word in data["tests"][0]["message"]


def test_what_was_read_before_a_report_broke_counts(project):
    project.write({"run.sh": "echo '<testsuite><testcase name=\"a\"/><testcase name=\"b\"><fail' >r.xml\n"})
    data = project.tests(command="sh run.sh", report="r.xml")
    assert counts(data) == [1, 0, 1, 0]


def test_missing_report(project):
    text, _ = project.fails(command="true", report="nothing.xml")
    assert "no report" in text


def test_many_tests_and_long_messages(project):
    project.write({"run.sh": "echo 1..100100; seq 1 100000 | sed 's/^/ok /'; i=100001; while [ $i -le 100100 ];"
                             " do echo not ok $i - bad; i=$((i+1)); done; seq 1 20000 | sed 's/^/# /'\n"})
    result = project.call(command="sh run.sh")
    data = result["data"]
    assert counts(data) == [100000, 100, 0, 0] and data["truncated"]
    assert len(data["tests"]) <= 10000 and len(result["text"]) < 400000


def test_names_are_bytes_of_the_agent(project):
    project.write({"run.sh": "printf '1..1\\nnot ok 1 - a\\377\\033[31m\\302b\\n# m\\300\\001\\n'\n"})
    test = project.tests(command="sh run.sh")["tests"][0]
    assert test["name"] == "a\ufffd\ufffdb"
    assert test["message"].startswith("m\ufffd")


# Choosing


def test_several_frameworks(project):
    need("node", "make")
    project.write(PYTEST | {"Makefile": "test:\n\ttrue\n", "a.test.js": NODE})
    result = project.call()
    assert result["data"]["framework"] == "pytest"
    assert [a["framework"] for a in result["data"]["alternatives"]] == ["unittest", "node", "make"]
    assert "Also possible" in result["text"]
    assert project.tests(framework="make")["framework"] == "make"


def test_nothing_recognised(project):
    project.write({"README": ""})
    text, _ = project.fails()
    assert text.startswith("no tests were recognised")
    text, _ = project.fails(framework="cargo")
    assert "nothing here looks like cargo" in text


def test_unknown_framework(project):
    done = project.box.hutch("tool", "run_tests", "-w", project.box.workspace, '{"framework": "nunit"}')
    assert done.returncode != 0 and "framework" in done.stderr


@pytest.mark.parametrize("given, word", [
    ({"command": "true", "path": "x"}, "path"), ({"framework": "make", "filter": "x"}, "filter"),
    ({"cwd": "nowhere"}, "nowhere"), ({"command": "true", "cwd": "nowhere"}, "nowhere"),
    ({"command": "echo 'open"}, "no report"),
])
def test_bad_input(project, given, word):
    need("make")
    project.write({"Makefile": "test:\n"})
    text, _ = project.fails(**given)
    assert word in text


def test_in_a_folder(project):
    project.write({"sub/" + name: text for name, text in PYTEST.items()})
    data = project.tests(cwd="sub")
    assert counts(data) == [2, 2, 1, 1]
    assert by_name(data)["tests/test_calc.py::test_wrong"]["file"] == "sub/tests/test_calc.py"


# The run itself


def test_timeout(project):
    project.write({"test_a.py": "import time\ndef test_a(): time.sleep(60)\n"})
    text, data = project.fails(timeout=1)
    assert "in time" in text and data["timed_out"] and counts(data) == [0, 0, 0, 0]


def test_timeout_in_the_middle(project):
    text, data = project.fails(command="echo 1..2; echo ok 1; sleep 60", timeout=1)
    assert "only a part" in text and data["timed_out"] and data["passed"] == 1


def test_tests_that_kill_the_runner(project):
    project.write({"test_a.py": "import os, signal\ndef test_a(): os.kill(os.getpid(), signal.SIGKILL)\n"})
    text, data = project.fails()
    assert "no report" in text and data["exit_code"] == 137


def test_full_disk(project):
    project.write({"test_a.py": "def test_a(): pass\n"})
    text, _ = project.fails(["--disk", "16M"], command="head -c 1G /dev/zero >/workspace/fill; pytest -q")
    assert "no report" in text or "No space" in text


def test_output_is_bounded(project):
    text, data = project.fails(command="head -c 3M /dev/zero | tr '\\0' x")
    assert data["truncated"] and len(data["output"]) <= 16 << 10 and len(text) < 20 << 10


def test_a_pipe_hides_the_report(project):
    text, _ = project.fails(["--env", "PATH=/workspace/bin:/usr/bin:/bin"], command="cargo test | tail -1")
    assert "pipe" in text or "No tests" in text


def test_in_the_sessions_shell(project):
    """Where the shell of the session stands, and what it has set, holds for a given command, too."""
    project.write({"sub/test_a.py": "import os\ndef test_a(): assert os.environ['WANTED'] == 'yes'\n"})
    made = project.box.hutch("box", "new", "-w", project.box.workspace)
    assert made.returncode == 0, made
    box = made.stdout.strip()
    try:
        project.box.hutch("tool", "bash", "--box", box, '{"command": "cd sub; export WANTED=yes"}')
        data = project.tests(["--box", box], command="pytest -q; status=$?; cd /; export WANTED=no; (exit $status)")
        assert counts(data) == [1, 0, 0, 0] and data["tests"][0]["file"] == "sub/test_a.py"
        after = project.box.hutch("tool", "bash", "--box", box, '{"command": "pwd; echo $WANTED"}')
        assert after.stdout.split() == ["/workspace/sub", "yes"]
    finally:
        project.box.hutch("box", "rm", box)


def test_runner_that_only_the_host_has(project):
    if os.path.exists("/usr/bin/cargo"):
        pytest.skip("cargo is in /usr/bin, where a box has it too")
    bin = project.box.caller.folder(project.box.scratch, "bin")
    (bin / "cargo").write_text("#!/bin/sh\n")
    (bin / "cargo").chmod(0o755)
    project.box.caller.own(bin / "cargo")
    project.write({"Cargo.toml": "[package]\nname = 'x'\n"})
    done = project.box.hutch("tool", "run_tests", "-w", project.box.workspace, "{}",
                             env={"PATH": f"{bin}:/usr/bin:/bin"})
    assert done.returncode == 1 and f"--ro {bin}" in done.stderr, done


def test_nothing_stays(project):
    """Variables, folders and files of a run are gone after it, in a box that stays."""
    project.write({"test_a.py": "def test_a(): pass\n", "run.sh": ("#!/bin/sh\npytest -q\n", 0o755)})
    made = project.box.hutch("box", "new", "-w", project.box.workspace)
    assert made.returncode == 0, made
    box = made.stdout.strip()
    try:
        for command in ("pytest", "./run.sh", "export LEAK=1; cd /tmp; pytest /workspace"):
            assert counts(project.tests(["--box", box], command=command)) == [1, 0, 0, 0]
        left = project.box.hutch("box", "exec", box, "--", "sh", "-c", "ls -A /tmp/.hutch; env")
        assert "hutch-" not in left.stdout and "LEAK" not in left.stdout and "PYTEST" not in left.stdout
    finally:
        project.box.hutch("box", "rm", box)
