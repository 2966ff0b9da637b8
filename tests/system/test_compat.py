"""scripts/compat: report formats, and a project of which some tests differ between the host and a box."""
import importlib.machinery
import importlib.util
import subprocess
import time

import pytest

import harness

SCRIPT = harness.REPO / "scripts" / "compat"


@pytest.fixture(scope="module")
def compat():
    loader = importlib.machinery.SourceFileLoader("compat", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compat", loader))
    loader.exec_module(module)
    return module


REPORTS = [
    ("tap", "1..4\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no root\n### file\nnot ok 4 - a # TODO later\nok 5\n",
     {"a": "pass", "b": "fail", "c": "skip", "file: a": "expected failure", "file: 5": "pass"}),
    ("tap", "ok 1 - waits (12ms)\nok 2 - waits (9.5 s)\n", {"waits": "pass", "waits (2)": "pass"}),
    ("junit", "<?xml version='1.0'?><testsuites><testsuite><testcase classname='m' name='a'/><testcase classname='m' name='b'>"
     "<failure/></testcase></testsuite></testsuites>\n<?xml version='1.0'?><testsuite><testcase name='c'><skipped/></testcase></testsuite>",
     {"m.a": "pass", "m.b": "fail", "c": "skip"}),
    ("ctest", " 1/3 Test  #1: first ......   Passed    0.01 sec\n 2/3 Test #2: second ...***Failed    0.01 sec\n"
     " 3/3 Test #3: third ....***Not Run (Disabled)   0.00 sec\n", {"first": "pass", "second": "fail", "third": "skip"}),
    ("go", '{"Action":"run","Package":"p","Test":"T"}\nnoise\n{"Action":"pass","Package":"p","Test":"T"}\n{"Action":"fail","Package":"p"}\n',
     {"p.T": "pass", "p.(package)": "fail"}),
    ("cargo", "running 2 tests\ntest it::works ... ok\ntest it::fails ... FAILED\n", {"it::works": "pass", "it::fails": "fail"}),
    ("automake", "PASS: a.sh\nXFAIL: b.sh\nSKIP: c.sh\nFAIL: d.sh\n",
     {"a.sh": "pass", "b.sh": "expected failure", "c.sh": "skip", "d.sh": "fail"}),
]


@pytest.mark.parametrize("name, text, expected", REPORTS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(REPORTS)])
def test_report_gives_the_outcome_of_each_test(compat, name, text, expected):
    assert compat.report_parse({"report": name}, text) == expected


def test_erase_and_ignore_make_names_comparable(compat):
    row = {"report": "tap", "erase": "0x[0-9a-f]+", "ignore": "^speed"}
    text = "ok 1 - at 0x12af\nok 2 - speed 9\nnot ok 3 - at 0x9\n"
    assert compat.report_parse(row, text) == {"at *": "pass", "at * (2)": "fail"}


def run_compat(box, rows, *args, before=()):
    (box.workspace / "rows.toml").write_text(rows)
    command = [*box.caller.prefix, *before, "/usr/bin/python3", str(SCRIPT), "--projects", str(box.workspace), "--rows",
               str(box.workspace / "rows.toml"), "--hutch", str(box.program), "--out", str(box.workspace / "out"), *args]
    return subprocess.run(command, env=box.env, cwd="/", capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def user(make_box, scratch):
    """An ordinary user with a project whose second test passes only where a file outside of it is visible."""
    box = make_box("user")
    if subprocess.run([*box.caller.prefix, "test", "-r", str(SCRIPT)], check=False).returncode:
        pytest.skip("an ordinary user cannot read this checkout")
    marker = box.caller.own(box.caller.folder(scratch, "outside"))
    project = box.caller.own(box.workspace / "toy") if (box.workspace / "toy").mkdir() is None else None
    script = project / "run"
    script.write_text(f"test -e built && echo ok - builds\ntest -d {marker} && echo ok - sees || echo not ok - sees\n")
    box.caller.own(script)
    return box


ROW = """[[project]]
name = "toy"
build = "touch built"
test = "sh ./run"
report = "tap"
"""


def test_differing_test_is_printed_and_counted(user):
    done = run_compat(user, ROW)
    assert "toy: differs: sees: host pass, box fail\n" in done.stdout, done
    assert "builds" not in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("| toy |")][0].endswith("| 1 | 0 |")
    assert done.returncode == 1
    assert not (user.workspace / "toy" / "built").exists(), "a half changed the checkout"


def test_host_half_does_not_inherit_an_ignored_interrupt(user):
    (user.workspace / "toy" / "run").write_text("grep -q 'SigIgn:.*[2367abef]$' /proc/self/status && echo not ok - SIGINT || echo ok - SIGINT\n")
    script = """trap '' INT; exec "$@" """
    done = run_compat(user, ROW, before=["sh", "-c", script, "sh"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_half_can_be_run_again(user):
    assert run_compat(user, ROW, "--only", "box").returncode == 2
    assert run_compat(user, ROW).returncode == 1
    again = run_compat(user, ROW.replace("sh ./run", "echo ok - builds; echo ok - sees"), "--only", "box")
    assert again.returncode == 0, again


def test_cpu_time_of_children_that_nobody_waits_for_is_counted(user):
    """The shell starts a child, becomes a program that never waits for it, and ends after it."""
    user.put("toy/spin", "import time\nwhile time.process_time() < 1: pass\nopen('spun', 'w').close()\n")
    user.put("toy/linger", "import os, time\nwhile not os.path.exists('spun'): time.sleep(0.02)\ntime.sleep(0.2)\nprint('ok - spun')\n")
    done = run_compat(user, ROW.replace("sh ./run", "python3 spin & exec python3 linger"))
    assert done.returncode == 0, done
    cells = [line for line in done.stdout.splitlines() if line.startswith("| toy |")][0].split("|")
    assert float(cells[8]) >= 1 and float(cells[9]) >= 1, cells


@pytest.mark.parametrize("row", [ROW.replace("touch built", "false"), ROW.replace("sh ./run", "true")], ids=["build", "empty"])
def test_half_without_outcomes_is_no_success(user, row):
    done = run_compat(user, row)
    assert done.returncode == 125 and "| broken |" in done.stdout, done


@pytest.mark.parametrize("rows, words", [
    (ROW.replace('"tap"', '"xyz"'), "report as one of"), (ROW + "color = 1\n", "unknown key 'color'"), ("[[project", "cannot read the rows"),
    (ROW.replace('"toy"', '"../toy"'), "a name of letters"), (ROW.replace('"toy"', '"absent"'), "put a checkout of absent there"),
    (ROW.replace('"tap"', '"lines"'), "needs a pattern")])
def test_wrong_rows_are_named(user, rows, words):
    done = run_compat(user, rows)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, done


@pytest.mark.parametrize("half", ["host", "box"])
def test_ended_script_leaves_nothing_running(user, half):
    """The fixture nothing_left_running fails the test otherwise."""
    wait = "touch began; exec sleep 1000" if half == "host" else "test -d /home/agent && { echo began >&2; exec sleep 1000; }; echo ok"
    (user.workspace / "rows.toml").write_text(ROW.replace("sh ./run", wait))
    command = [*user.caller.prefix, "/usr/bin/python3", str(SCRIPT), "--projects", str(user.workspace), "--rows",
               str(user.workspace / "rows.toml"), "--hutch", str(user.program), "--out", str(user.workspace / "out")]
    out = user.workspace / "out" / "toy"
    with subprocess.Popen(command, env=user.env, cwd="/") as process:
        began = (lambda: (out / "copy" / "began").exists()) if half == "host" else (lambda: "began" in read_if_there(out / "box-0.log"))
        while process.poll() is None and not began():
            time.sleep(0.02)
        process.terminate()
        assert process.wait(60) == 143


def read_if_there(path):
    return path.read_text() if path.exists() else ""
