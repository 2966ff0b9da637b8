"""Shells of sessions, as docs/protocol.md has them: SHELL, over the wire."""

import contextlib
import os
import signal
import time

import pytest

from guest_kit import sleepers, wait_for
from shell_kit import Shell, shell_box
from wire import ENV, NUMBERS, ROOT

SAVED, LOST = NUMBERS["STATE_SAVED"], NUMBERS["STATE_LOST"]
ENOENT, EBUSY, EINVAL = 2, 16, 22
TIMEOUT = 1


@pytest.fixture
def box(tmp_path):
    yield from shell_box(tmp_path)


# What lasts


def test_folder_variables_and_functions_last(box):
    box.sh("cd /usr; export A=1 B='two words'; plain=3; f() { echo \"f $1\"; }; set -e; shopt -s nullglob; exit 3")
    assert box.out('pwd; echo "$A,$B,${plain-unset},$-"; f x; shopt -q nullglob || echo off') == (
        b"/usr\n1,two words,unset,hBc\nf x\noff\n")


@pytest.mark.parametrize("value", [
    b"line\nline\n", b"'\"$`\\!*?", b"\xff\xfe\x80 \xc3", b"\x01\x1b[31m", b"", b" lead and trail ", "ünï→".encode(),
    b"\ndeclare -x HOME=/gone\n", b"x" * 100_000], ids=lambda value: f"{len(value)}-{value[:6].hex()}")
def test_any_value_lasts(box, value):
    (box.folder / "value").write_bytes(value + b".")
    box.out(f"v=$(cat {ROOT}/value; printf .); v=${{v%.}}; export V=\"${{v%.}}\"")
    box.out("true")
    assert box.out('printf %s "$V"') == value
    assert box.out("printenv V") == value + b"\n"
    assert box.out("echo $HOME") == b"/tmp\n"


def test_readonly_and_odd_variables_last(box):
    box.out("readonly R=1; export R; export -n LANG; unset HOME; export SHELLOPTS BASHOPTS UID PPID; declare -ix N=4")
    result, output = box.sh('echo $R ${HOME-none}; N=2+3; echo $N; printenv LANG || echo no; R=2; echo not reached')
    assert output.startswith(b"1 none\n5\nno\n") and b"readonly" in output and b"not reached" not in output
    assert result["EXIT_CODE"] != 0
    assert box.out("echo $R") == b"1\n"


def test_path_that_is_broken_or_gone_stays_so(box):
    box.out("export PATH=")
    result, output = box.sh("ls")
    assert result["EXIT_CODE"] == 127 and b"ls" in output
    box.out("unset PATH; export PATH=/bin:/usr/bin")
    box.out("ls /")


def test_functions_that_stand_in_front_of_builtins(box):
    box.out("cd() { builtin cd /; }; exec() { echo mine; }; eval() { :; }; exit() { :; }; trap() { :; };"
            " export() { :; }; printf() { :; }; read() { :; }; builtin export -f cd")
    assert box.out("cd /usr; pwd; exec x; printf %s no; bash -c 'declare -F cd'") == b"/\nmine\ncd\n"
    box.out("unset -f cd exec eval exit trap export printf read; builtin cd /usr")
    assert box.out("pwd; declare -F") == b"/usr\n"


def test_logical_folder_and_dash_last(box):
    (box.folder / "real").mkdir()
    (box.folder / "link").symlink_to("real")
    box.out(f"cd {ROOT}/link")
    assert box.out("pwd; pwd -P; echo $PWD $OLDPWD; cd -") == (
        f"{ROOT}/link\n{ROOT}/real\n{ROOT}/link {ROOT}\n{ROOT}\n".encode())
    assert box.out("pwd") == ROOT.encode() + b"\n"


def test_folder_with_any_name(box):
    box.out("mkdir -p $'/tmp/a\\nb \\xff'; cd $'/tmp/a\\nb \\xff'")
    assert box.out("pwd; cd ..; pwd") == b"/tmp/a\nb \xff\n/tmp\n"


def test_sessions_are_apart(box):
    box.out("cd /usr; export A=main")
    box.out("cd /etc; export A=other", NAME="other")
    assert box.out("pwd; echo $A") == b"/usr\nmain\n"
    assert box.out("pwd; echo $A", NAME="other") == b"/etc\nother\n"


@pytest.mark.parametrize("name", ["", "a/b", "..", ".x", "x" * 65, "a b", "a\0b"])
def test_bad_names(box, name):
    code, text = box.refused("true", NAME=name)
    assert code == EINVAL and "name" in text


def test_many_sessions_go_on_from_the_box(box):
    for i in range(12):
        box.out(f"export I={i}; cd /usr", NAME=f"s{i}")
    assert len(box.ready()) <= 2 * 8
    assert [box.out("echo $I; pwd", NAME=f"s{i}") for i in range(12)] == [b"%d\n/usr\n" % i for i in range(12)]


def test_environment_of_the_request(box):
    env = [*ENV, "X=1", "Y=1", "odd-name=2", "BASH_ENV=/mnt/never", "SHELLOPTS=errexit:nounset", "PS4=$(touch /mnt/no)"]
    (box.folder / "never").write_text("echo sourced; exit 9\n")
    assert box.out("echo $X; printenv odd-name BASH_ENV; false; echo on", ENV=env, NAME="e") == b"1\n2\n/mnt/never\non\n"
    box.out("export Y=mine", ENV=env, NAME="e")
    assert box.out("echo $X $Y", ENV=env, NAME="e") == b"1 mine\n"
    changed = [x.replace("X=1", "X=2") for x in env]
    assert box.out("echo $X $Y", ENV=changed, NAME="e") == b"2 mine\n"
    assert box.out("echo $X $Y", ENV=changed, NAME="e") == b"2 mine\n"
    assert not (box.folder / "no").exists()


def test_state_that_is_too_large_is_not_taken(box):
    box.out("export A=1")
    result, _ = box.sh("export A=2; for i in 1 2 3; do printf -v B$i '%0100000d' 0; export B$i; done")
    assert (result["EXIT_CODE"], result["STATE"]) == (0, LOST) and b"before" in result["NOTE"]
    assert box.out("echo $A ${B1-none}") == b"1 none\n"


# What does not harm


@pytest.mark.parametrize("script, code, state", [
    ("exit 3", 3, SAVED), ("set -e; false; echo no", 1, SAVED), ("set -u; echo $nope", 127, SAVED),
    ("echo ${x:?}", 127, SAVED), ("exec true", 0, LOST), ("exec /bin/sh -c 'exit 5'", 5, LOST),
    ("trap 'echo bye' EXIT; exit 4", 4, LOST), ("trap 'echo bye' EXIT", 0, SAVED), ("set -n", 0, None),
    ("set -x; true", 0, SAVED), ("set -o posix; exit 2", 2, SAVED), ("(exit 6)", 6, SAVED), ("return 3", 2, SAVED),
    ("f() { exit 8; }; f", 8, SAVED), ("exec 2>&1 >/dev/null; exit 1", 1, SAVED), ("set -C; exit 0", 0, SAVED),
    ("exec 3>&- 4>&- 5>&- 6>&- 9>&- 59>&-; exit 7", 7, SAVED), ("eval 'exit 9'", 9, SAVED)])
def test_ends_of_a_script(box, script, code, state):
    box.out("export KEPT=1")
    result, _ = box.sh(script)
    assert result["EXIT_CODE"] == code
    if state:
        assert result["STATE"] == state and (state == SAVED) == ("NOTE" not in result)
    assert box.out("echo $KEPT; pwd") == f"1\n{ROOT}\n".encode()


@pytest.mark.parametrize("script", ["echo 'open", 'echo "open', "if true; then", "echo )", "for", "a() {", "\\"])
def test_syntax_errors(box, script):
    result, output = box.sh("cd /usr\n" + script)
    assert result["EXIT_CODE"] in (0, 1, 2, 127) and result["STATE"] == SAVED
    assert script == "\\" or b"line 2" in output or b"line 3" in output, output
    assert box.out("pwd") in (b"/usr\n", ROOT.encode() + b"\n")


def test_heredoc_without_end(box):
    assert box.out("cat <<X\nabc").endswith(b"abc\n")


def test_killed_by_itself(box):
    result, _ = box.sh("cd /usr; export A=1; kill -9 $$; echo no")
    assert (result["TERM_SIGNAL"], result["STATE"]) == (signal.SIGKILL, LOST)
    assert b"are as before" in result["NOTE"]
    assert box.out("echo ${A-none}; pwd") == f"none\n{ROOT}\n".encode()


def test_messages_have_the_lines_of_the_script(box):
    result, output = box.sh("echo $LINENO\n\nnosuch-command\ncd /nowhere")
    assert output == (b"1\nbash: line 3: nosuch-command: command not found\n"
                      b"bash: line 4: cd: /nowhere: No such file or directory\n")


def test_trace_shows_only_the_script(box):
    output = box.out("set -x; true")
    assert output.replace(b"+", b"") == b" true\n"


def test_a_script_sees_only_its_own(box):
    assert box.out("ls /proc/self/fd") == b"0\n1\n2\n3\n"
    assert box.out("python3 -c 'import os; print(sorted(os.listdir(\"/proc/self/fd\")))'") == b"['0', '1', '2', '3']\n"
    assert box.out("echo $# $0 $SECONDS $? ${BASH_EXECUTION_STRING-none}; readlink /proc/self/fd/0") == (
        b"0 bash 0 0 none\n/dev/null\n")
    assert b"mapfile" not in box.out("set; declare -p; declare -f; trap -p | grep -v hutch; true")
    assert box.out("exec 10>/tmp/ten 20>/tmp/twenty; echo a >&10; echo b >&20; cat /tmp/ten /tmp/twenty") == b"a\nb\n"


def test_streams_come_as_one_in_order(box):
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; echo e$i >&2; done"
    assert box.out(script) == b"".join(b"%d\ne%d\n" % (i, i) for i in range(1, 10))


def test_input(box):
    assert box.out("cat; read x || echo end") == b"end\n"
    assert box.out("cat", DATA="hello") == b"hello"
    assert box.out("wc -c", DATA=os.urandom(900_000)) == b"900000\n"
    assert box.out("cat; echo end", DATA="") == b"end\n"
    assert box.out("read a; read b; echo $b $a", DATA="1\n2\n") == b"2 1\n"


def test_script_of_many_bytes(box):
    script = "x=1\n" * 220_000 + "echo $x"
    assert box.out(script) == b"1\n"


def test_nul_and_nothing(box):
    assert box.refused(b"echo \0 x")[0] == EINVAL
    kind, result, _, _ = box.call("SHELL", ENV=ENV)
    assert (kind, result["CODE"]) == ("ERROR", EINVAL)
    assert box.out("") == b""


# Where it runs


def test_folder_of_one_call(box):
    box.out("cd /usr")
    assert box.out("pwd; cd /etc; export A=1", CWD="/tmp") == b"/tmp\n"
    assert box.out("pwd; echo $A $PWD") == b"/usr\n1 /usr\n"
    assert box.out("pwd", CWD="lib/..") == b"/usr\n"


@pytest.mark.parametrize("cwd, word", [("/nowhere", "No such file"), ("/etc/passwd", "Not a directory")])
def test_folder_that_cannot_be_entered(box, cwd, word):
    code, text = box.refused("echo ran >/tmp/ran", CWD=cwd)
    assert code == ENOENT and cwd in text and word in text
    assert box.out("ls /tmp/ran 2>/dev/null || pwd") == ROOT.encode() + b"\n"


def test_script_that_looks_like_a_folder_that_cannot_be_entered(box):
    result, _ = box.sh("exit 126", CWD="/tmp")
    assert result["EXIT_CODE"] == 126


def test_folder_that_is_gone(box):
    box.out("mkdir /tmp/a; cd /tmp/a")
    box.wait_ready()
    box.run("rmdir /tmp/a")
    result, output = box.sh("pwd; echo $PWD")
    assert output == b"/\n/\n" and b"/tmp/a" in result["NOTE"]  # there is no /workspace here
    box.out("mkdir /tmp/b; cd /tmp/b")
    box.run("rmdir /tmp/b; mkdir /tmp/b")
    result, output = box.sh("pwd; touch here; ls /tmp/b")
    assert output == b"/tmp/b\nhere\n" and "NOTE" not in result


# The shell that stands ready


def test_calls_are_answered_by_the_ready_shell(box):
    for _ in range(3):
        assert box.wait_ready()
        ready = box.ready()
        assert int(box.out("echo $$")) in ready


def test_ready_shell_that_was_killed(box):
    box.all_ready("KILL")
    assert wait_for(lambda: not box.ready())
    result, output = box.sh("pwd")
    assert output == ROOT.encode() + b"\n" and "NOTE" not in result
    box.wait_ready()


def test_ready_shell_that_was_stopped_is_replaced(box):
    box.out("export A=1")
    stopped = box.all_ready("STOP")
    result, output = box.sh("echo $A $$; echo once >>/tmp/once")
    assert output.split()[0] == b"1" and int(output.split()[1]) not in stopped
    assert b"replaced" in result["NOTE"] and result["STATE"] == SAVED
    assert box.out("cat /tmp/once; echo $A") == b"once\n1\n"
    assert not set(stopped) & set(box.ready())


def test_cancel_of_a_call_that_a_stopped_shell_does_not_take(box):
    box.all_ready("STOP")
    c = box.ask("touch /tmp/ran")
    c.send("KILL", SIGNAL=signal.SIGKILL)
    kind, result, _, _ = c.result()
    assert (kind, result["TERM_SIGNAL"]) == ("RESULT", signal.SIGKILL)
    assert box.out("ls /tmp/ran 2>/dev/null; pwd") == ROOT.encode() + b"\n"


def test_time_limit_of_a_call_that_a_stopped_shell_does_not_take(box):
    box.all_ready("STOP")
    result, _ = box.sh("true", TIMEOUT_MS=300)
    assert result["LIMIT"] == TIMEOUT


def test_nobody_hides_behind_the_tag_of_a_ready_shell(box):
    """A process may lower its tag to that of an older command: here to an idle shell's of another session."""
    box.out("true", NAME="idle")
    box.wait_ready()
    code = ("import os, resource, glob\n"
            "if os.fork() == 0:\n"
            "    own = resource.getrlimit(resource.RLIMIT_RTTIME)[1]\n"
            "    for tag in range(own - 1, own - 8, -1):\n"
            "        if os.fork() == 0:\n"
            "            resource.setrlimit(resource.RLIMIT_RTTIME, (tag, tag)); os.setsid()\n"
            "            os.execvp('sleep', ['sleep', '1234'])\n")
    box.run(["python3", "-c", code])
    assert wait_for(lambda: not sleepers(box, "1234"))
    assert box.out("echo ok", NAME="idle") == b"ok\n"


def test_tree_dies_with_the_call(box):
    box.out("sleep 777 & setsid sleep 777 & (setsid sh -c 'sleep 777 & exec sleep 777' &) ; disown -a; true")
    assert not sleepers(box, "777")


def test_child_that_holds_the_output(box):
    began = time.monotonic()
    assert box.out("sleep 100 & echo done") == b"done\n"
    assert time.monotonic() - began < 50


def test_time_limit_ends_the_tree_and_keeps_the_state(box):
    box.out("export A=1; cd /usr")
    result, output = box.sh("cd /etc; export A=2; echo begun; sleep 888 & sleep 888", TIMEOUT_MS=300)
    assert (result["LIMIT"], result["STATE"], output) == (TIMEOUT, LOST, b"begun\n")
    assert not sleepers(box, "888")
    assert box.out("echo $A; pwd") == b"1\n/usr\n"


def test_hang_up_cancels(box):
    c = box.ask("echo begun; sleep 999")
    assert c.frame()[1]["DATA"] == b"begun\n"
    c.close()
    assert wait_for(lambda: not sleepers(box, "999"))
    assert box.out("pwd") == ROOT.encode() + b"\n"


def test_several_calls_of_a_session_at_once(box):
    calls = [box.ask(f"echo {i} >>/tmp/all; until [ $(wc -l </tmp/all) -ge 5 ]; do sleep 0.01; done; export N={i}")
             for i in range(5)]
    for c in calls:
        kind, result, _, _ = c.result()
        assert (kind, result["EXIT_CODE"]) == ("RESULT", 0)
        c.close()
    assert int(box.out("echo $N")) in range(5)


def test_limits_of_a_call(box):
    assert box.sh("while :; do :; done", CPU_MS=200)[0]["LIMIT"] == 2
    assert box.sh("ulimit -n", FILES=64)[1] == b"64\n"
    assert box.sh("ulimit -n; exec 10>/tmp/x; echo a >&10", FILES=200)[1] == b"200\n"
    assert box.sh("ulimit -n; cd /usr", FILES=20)[0]["STATE"] == SAVED
    assert box.out("pwd") == b"/usr\n"
    assert box.sh("python3 -c 'x = bytearray(200 << 20); import time; time.sleep(20)'", MEMORY=64 << 20)[0]["LIMIT"] == 3


def test_freeze_with_a_ready_shell(box):
    box.wait_ready()
    c = box.request("FREEZE")
    assert c.frame()[1]["COUNT"] >= 1
    assert box.refused("true")[0] == EBUSY
    c.close()
    assert wait_for(lambda: box.call("SHELL", TEXT="pwd", ENV=ENV)[0] == "RESULT")  # it thaws when it hears of it
    assert box.out("pwd") == ROOT.encode() + b"\n"


def test_freeze_while_a_script_runs(box):
    c = box.ask("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done")
    assert c.frame()[1]["DATA"] == b"1\n"
    z = box.request("FREEZE")
    assert z.frame()[0] == "RESULT"
    z.close()
    assert c.result()[2][1].endswith(b"8\n")


def test_much_output(box):
    result, output = box.sh("head -c 9000000 /dev/zero | tr '\\0' x")
    assert len(output) == 9_000_000 and result["STATE"] == SAVED


def test_end_of_the_control_socket_ends_ready_shells(tmp_path):
    tmp_path.chmod(0o755)
    guest = Shell(tmp_path)
    guest.out("true")
    guest.wait_ready()
    with contextlib.closing(guest.ask("sleep 100")):
        assert guest.end() == 0
