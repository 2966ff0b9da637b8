"""hutch.Box: what is in docs/python.md about it, in programs of a few lines."""
import json
import os
import signal
import subprocess

import harness


def test_runs_a_command_and_tells_how_it_ended(python):
    said = python.run("""
        import hutch, json
        with hutch.Box(workspace=None) as box:
            r = box.exec("echo out; echo err >&2; exit 3")
            print(json.dumps([r.exit_code, r.stdout, r.stderr, r.raw_stdout.decode(), r.ok, r.timed_out, r.killed_by, r.signal]))
            r = box.exec(["sh", "-c", 'printf "\\\\377\\\\n$1"', "sh", "one two"])
            assert r.raw_stdout == b"\\xff\\none two" and r.stdout == "\\ufffd\\none two", r
            assert box.exec(["cat"], stdin=b"text").stdout == "text"
            assert box.exec("pwd", cwd="/tmp").stdout == "/tmp\\n"
            assert box.exec("echo $A", env={"A": "b"}).stdout == "b\\n"
            assert box.exec("kill -9 $$").signal == "SIGKILL"
    """)
    assert json.loads(said) == [3, "out\n", "err\n", "out\n", False, False, None, None]


def test_limits_are_those_of_the_box(python):
    python.run("""
        import hutch
        with hutch.Box(workspace=None, memory="64M", output=1000, timeout=300) as box:
            late = box.exec("sleep 60", timeout=0.2)
            assert late.timed_out and late.killed_by == "timeout" and late.exit_code == 124, late
            much = box.exec("head -c 5000 /dev/zero | tr '\\\\0' x")
            assert much.truncated and much.stdout_bytes == 5000 and len(much.raw_stdout) < 5000, much
            big = box.exec(["python3", "-c", "b = bytearray(200 << 20)"])
            assert not big.ok, big
    """)


def test_check_raises_what_a_command_said(python):
    python.run("""
        import hutch
        with hutch.Box(workspace=None) as box:
            assert box.exec("true", check=True).ok
            try:
                box.exec("echo no such luck >&2; exit 7", check=True)
            except hutch.CommandFailed as why:
                assert why.result.exit_code == 7 and "status 7: no such luck" in str(why), why
            else:
                raise AssertionError("no exception")
    """)


def test_changes_stay_in_the_box_until_applied(python):
    (python.folder / "old.txt").write_text("old\n")
    python.caller.own(python.folder / "old.txt")
    python.run("""
        import hutch, pathlib
        with hutch.Box() as box:
            box.exec("echo new > new.txt; echo changed > old.txt", check=True)
            assert box.changes() == [hutch.Change("new.txt", "added"), hutch.Change("old.txt", "modified")], box.changes()
            diff = box.diff()
            assert isinstance(diff, bytes) and b"+changed" in diff and b"+++ b/new.txt" in diff
            assert not pathlib.Path("new.txt").exists()
            report = box.apply()
            assert report.applied == 2 and report.conflicts == [] and report.refused == [], report
            assert pathlib.Path("new.txt").read_text() == "new\\n"
    """)
    assert (python.folder / "old.txt").read_text() == "changed\n"


def test_a_conflict_is_reported_and_left_alone(python):
    (python.folder / "a").write_text("1\n")
    python.caller.own(python.folder / "a")
    python.run("""
        import hutch, pathlib
        with hutch.Box() as box:
            box.exec("echo 2 > a", check=True)
            pathlib.Path("a").write_text("3\\n")
            report = box.apply()
            assert [one["path"] for one in report.conflicts] == ["a"] and report.applied == 0, report
        assert pathlib.Path("a").read_text() == "3\\n"
    """)


def test_forks_start_from_the_same_files_and_go_apart(python):
    python.run("""
        import hutch
        with hutch.Box(workspace=None) as box:
            box.exec("echo 1 > n", check=True)
            with box.snapshot() as shot:
                box.exec("echo 2 > n", check=True)
                with shot.fork() as one, shot.fork() as two, box.fork() as three:
                    one.exec("echo 9 > n", check=True)
                    assert [b.exec("cat n").stdout for b in (box, one, two, three)] == ["2\\n", "9\\n", "1\\n", "2\\n"]
                    assert type(three) is hutch.Box
    """)


def test_every_tool_is_a_method_with_its_schema(python):
    said = python.run("""
        import hutch, inspect, json
        names = [tool.name for tool in hutch.tools()]
        for tool in hutch.tools():
            method = getattr(hutch.Box, tool.name)
            members = list(tool.input_schema.get("properties", {}))
            assert sorted(list(inspect.signature(method).parameters)[1:]) == sorted(members), tool.name
            assert tool.description and tool.description in method.__doc__
            for member, schema in tool.input_schema["properties"].items():
                assert schema.get("description", "") in method.__doc__, member
        with hutch.Box(workspace=None) as box:
            box.write_file("a.txt", content="one\\ntwo\\n")
            read = box.read_file("a.txt", line_numbers=False)
            assert "two" in read.text and not read.failed and isinstance(read.data, dict), read
            assert box.tool("read_file", path="a.txt").text == box.read_file(path="a.txt").text
            missing = box.read_file("b.txt")
            assert missing.failed and "b.txt" in missing.text
            try:
                box.read_file()
            except TypeError as why:
                assert "path" in str(why)
            else:
                raise AssertionError("no path, no error")
            try:
                box.tool("no_such_tool")
            except hutch.HutchError as why:
                assert why.errno == 2, why
            assert not hasattr(box, "no_such_tool")
        print(json.dumps(names))
    """)
    assert {"bash", "read_file", "write_file", "edit_file", "apply_diff", "run_tests"} <= set(json.loads(said))


def test_errors_say_what_is_wrong(python):
    python.run("""
        import hutch, errno
        def fails(code, part, work):
            try:
                work()
            except hutch.HutchError as why:
                assert why.errno == code and part in str(why), (why.errno, str(why))
            else:
                raise AssertionError(part)
        fails(errno.EINVAL, "mode", lambda: hutch.Box(mode="sideways"))
        fails(errno.EINVAL, "memory", lambda: hutch.Box(memory="much"))
        fails(errno.ENOENT, "/no/such", lambda: hutch.Box(workspace="/no/such"))
        box = hutch.Box(workspace=None)
        fails(errno.EINVAL, "cwd", lambda: box.exec("true", cwd="relative"))
        box.close()
        box.close()
        fails(errno.EBADF, "closed", lambda: box.exec("true"))
        fails(errno.EBADF, "closed", lambda: box.fork())
    """)


def test_boxes_are_not_pickled_or_copied(python):
    python.run("""
        import copy, pickle, hutch
        with hutch.Box(workspace=None) as box, box.snapshot() as shot:
            for what in (box, shot):
                for way in (pickle.dumps, copy.copy, copy.deepcopy):
                    try:
                        way(what)
                    except TypeError as why:
                        assert "cannot be pickled or copied" in str(why)
                    else:
                        raise AssertionError(way)
    """)


def test_the_interpreter_goes_on_while_a_call_runs(python):
    """Each command ends only when the other one has begun: with the lock held, the first would wait for its time limit."""
    python.run("""
        import hutch, threading
        with hutch.Box(workspace=None) as box:
            done = {}
            def meet(mine, other):
                done[mine] = box.exec(f"touch {mine}; while [ ! -e {other} ]; do :; done", timeout=30)
            threads = [threading.Thread(target=meet, args=names) for names in (("a", "b"), ("b", "a"))]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert done["a"].ok and done["b"].ok, done
    """)


def test_many_threads_share_a_box(python):
    python.run("""
        import hutch
        from concurrent.futures import ThreadPoolExecutor
        with hutch.Box(workspace=None) as box, ThreadPoolExecutor(8) as threads:
            said = list(threads.map(lambda n: box.exec(["echo", str(n)]).stdout, range(40)))
            assert said == [f"{n}\\n" for n in range(40)]
            list(threads.map(lambda n: box.write_file(f"f{n}", content=str(n)), range(20)))
            assert len(box.changes()) == 20
    """)


def test_closing_while_another_thread_runs_something(python):
    python.run("""
        import hutch, threading
        box = hutch.Box(workspace=None)
        ended = []
        def work():
            try:
                ended.append(box.exec("touch here; sleep 600", timeout=600).signal)
            except hutch.HutchError as why:
                ended.append(why.errno)
        thread = threading.Thread(target=work)
        thread.start()
        while not box.exec("test -e here").ok:
            pass
        box.close()
        thread.join(30)
        assert not thread.is_alive() and ended, ended
    """)


def test_a_forked_process_has_no_part_in_the_boxes(python):
    python.run("""
        import errno, hutch, os, sys
        box = hutch.Box(workspace=None)
        box.exec("echo mine > a", check=True)
        child = os.fork()
        if child == 0:
            try:
                box.exec("echo theirs > a")
            except hutch.HutchError as why:
                assert why.errno == errno.ECHILD and "forked" in str(why), why
                box.close()
                with hutch.Box(workspace=None) as own:
                    assert own.exec("echo own").stdout == "own\\n"
                sys.exit(0)  # an end with all its clean-up
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert box.exec("cat a").stdout == "mine\\n"
    """)


def test_nothing_is_left_of_two_hundred_boxes(python):
    """Descriptors and processes are as at first, however the boxes ended: closed, or forgotten."""
    python.run("""
        import gc, hutch, os, time
        def children():
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                return f.read().split()
        def threads():
            return len(os.listdir("/proc/self/task"))
        with hutch.Box(workspace=None) as box:
            box.exec("true")
        def counts():
            gc.collect()
            deadline = time.monotonic() + 10
            while children() and time.monotonic() < deadline:
                time.sleep(0.01)
            return len(os.listdir("/proc/self/fd")), len(children()), threads()
        before = counts()
        for n in range(200):
            box = hutch.Box(workspace=None)
            if n % 10 == 0:
                box.exec("true", check=True)
                shot = box.snapshot()
                fork = shot.fork()
            if n % 2:
                box.close()
        del box, shot, fork
        assert counts() == before, (before, counts())
    """, timeout=300)


def test_the_end_of_the_program_ends_its_boxes(python):
    """`nothing_left_running` looks for what it left."""
    python.run("""
        import hutch
        box = hutch.Box(workspace=None)
        box.exec("sleep 600 >/dev/null 2>&1 &", check=True)
    """)


def interrupted(python, program):
    """Starts it, waits until it says `ready`, sends SIGINT as Ctrl-C does, and returns how it ended."""
    process = python.start(program)  # as a user by setpriv, which becomes the interpreter
    try:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    return process.returncode, out, err


def test_ctrl_c_ends_a_long_command_and_not_the_box(python):
    status, out, err = interrupted(python, """
        import hutch, threading, time
        box = hutch.Box(workspace=None)
        def tell():
            while not box.exec("test -e here").ok:
                pass
            print("ready", flush=True)
        threading.Thread(target=tell, daemon=True).start()
        began = time.monotonic()
        try:
            box.exec("touch here; sleep 600", timeout=600)
        except KeyboardInterrupt:
            left = box.exec("pgrep -c sleep || true").stdout.strip()
            print("interrupted", left, time.monotonic() - began < 300)
        box.close()
    """)
    assert (status, out) == (0, "interrupted 0 True\n"), err


def test_an_uncaught_ctrl_c_leaves_nothing(python):
    status, _, err = interrupted(python, """
        import hutch, threading
        box = hutch.Box(workspace=None)
        def tell():
            while not box.exec("test -e here").ok:
                pass
            print("ready", flush=True)
        threading.Thread(target=tell, daemon=True).start()
        box.bash("touch here; sleep 600", timeout=600)
    """)
    assert status in (-signal.SIGINT, 130) and "KeyboardInterrupt" in err, (status, err)


def test_the_library_is_asked_for_where_it_is_missing(python):
    said = python.run("""
        import hutch, hutch.gym
        try:
            hutch.Box()
        except hutch.HutchError as why:
            print(why)
    """, env={"HUTCH_LIBRARY": "/no/such/libhutch.so"})
    assert "libhutch.so was not found" in said and "$HUTCH_LIBRARY" in said and "/no/such/libhutch.so" in said


def test_the_structures_are_those_of_the_header(python, tmp_path):
    """Sizes and offsets, from the compiler and from ctypes."""
    fields = {"CError": ("hutch_error", ["code", "text"]),
              "CStep": ("hutch_step", ["env", "number", "reward", "pass_rate", "seconds", "episode_return", "terminated", "truncated",
                                       "code", "reset", "observation", "info", "features", "n_features"]),
              "CAction": ("hutch_action", ["env", "reset", "seed", "action", "tool", "input"])}
    lines = []
    for name, (struct, members) in fields.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {struct}));')
        lines += [f'printf("{name}.{member} %zu\\n", offsetof(struct {struct}, {member}));' for member in members]
    source = tmp_path / "sizes.c"
    source.write_text("#include <stdio.h>\n#include <hutch.h>\nint main(void) {" + "\n".join(lines) + "}")
    subprocess.run(["cc", "-I", str(harness.REPO / "include"), "-o", str(tmp_path / "sizes"), str(source)], check=True)
    by_compiler = subprocess.run([str(tmp_path / "sizes")], check=True, capture_output=True, text=True).stdout
    by_ctypes = python.run("""
        import ctypes
        from hutch import _library as lib
        for struct in (lib.CError, lib.CStep, lib.CAction):
            print(struct.__name__, ctypes.sizeof(struct))
            for name, *_ in struct._fields_:
                print(f"{struct.__name__}.{name}", getattr(struct, name).offset)
    """)
    assert by_ctypes == by_compiler
