"""hutch in containers of podman: where boxes start, how strong they are, and what is said where they do not."""
import json
import os

import pytest

import harness

UNMASK = ["--security-opt", "unmask=ALL"]
NO_FILTER = ["--security-opt", "seccomp=unconfined"]
ADMIN = ["--cap-add", "SYS_ADMIN"]
USER = ["--user", "1234:1234"]
BARE = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]

WRITE = ["run", "--json", "--", "sh", "-c", "id -u; echo text >new && cat new"]


def box_result(done):
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def failed_with(done, *words):
    assert done.returncode == 125 and not done.stdout, done
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("hutch: "), done
    for word in words:
        assert word in lines[0], (word, done)


@pytest.mark.parametrize("overlay", [False, True], ids=["disk", "overlay"])
@pytest.mark.parametrize("opts", [
    UNMASK,
    ADMIN,
    ADMIN + NO_FILTER,
    ["--privileged"],
    USER + UNMASK,
    USER + UNMASK + BARE,
], ids=" ".join)
def test_boxes_start(podman, opts, overlay):
    result = box_result(podman.hutch(*WRITE, opts=opts, overlay=overlay))
    assert result["stdout"] == "1000\ntext\n"
    assert [change["path"] for change in result["changes"]] == ["new"]


@pytest.mark.parametrize("overlay", [False, True], ids=["disk", "overlay"])
@pytest.mark.parametrize("opts", [UNMASK, USER + UNMASK, ["--privileged"]], ids=" ".join)
def test_boxes_start_in_rootless_containers(rootless, opts, overlay):
    result = box_result(rootless.hutch(*WRITE, opts=opts, overlay=overlay))
    assert result["stdout"] == "1000\ntext\n"


@pytest.mark.parametrize("opts", [[], NO_FILTER, USER, USER + ADMIN], ids=lambda opts: " ".join(opts) or "default")
def test_masked_proc_is_named_with_the_option(podman, opts):
    failed_with(podman.hutch(*WRITE, opts=opts), "/proc", "masked", "unmask=ALL", "systempaths=unconfined", "procMount: Unmasked")


def test_root_without_any_capability_is_told_to_be_another_user(podman):
    failed_with(podman.hutch(*WRITE, opts=BARE + UNMASK), "CAP_SETFCAP", "--user 1000:1000")


def profile(folder, *rules):
    """A system call filter that allows all but the rules."""
    path = folder / "filter.json"
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "architectures": [], "syscalls": rules}))
    return ["--security-opt", f"seccomp={path}"]


NEWUSER = 0x10000000
NO_NAMESPACES = [
    {"names": ["unshare"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
    {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args": [{"index": 0, "value": NEWUSER, "valueTwo": NEWUSER, "op": "SCMP_CMP_MASKED_EQ"}]},
    {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
]


@pytest.mark.parametrize("user", [[], USER], ids=["root", "user"])
def test_a_filter_without_user_namespaces_is_named(podman, tmp_path, user):
    """As Docker's is."""
    opts = [*user, *UNMASK, *profile(tmp_path, *NO_NAMESPACES)]
    failed_with(podman.hutch(*WRITE, opts=opts), "user namespace", "seccomp", "seccomp=unconfined", "seccompProfile")
    status, probes = podman.doctor(opts=opts)
    assert status == 1 and probes["user namespaces"]["state"] == "no" and "seccomp" in json.dumps(probes["user namespaces"])
    tried = {name for name, probe in probes.items() if probe["state"] != "not tried"}
    assert tried == {"user namespaces", "control groups", "disk limit"}


def test_a_filter_without_mounts_is_named(podman, tmp_path):
    rule = {"names": ["fsopen", "open_tree", "move_mount"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    failed_with(podman.hutch(*WRITE, opts=[*USER, *UNMASK, *profile(tmp_path, rule)]), "seccomp=unconfined")


def assert_root_is_not_told_to_become_root(probes):
    for probe in probes.values():
        assert "root" not in (probe["remedy"] or ""), probe


def test_doctor_names_the_missing_right_and_tries_no_more_than_can_work(podman):
    status, probes = podman.doctor()
    assert status == 1
    assert probes["id-mapped mounts"]["state"] == "degraded" and "CAP_SYS_ADMIN" in probes["id-mapped mounts"]["detail"]
    assert probes["proc"]["state"] == "no" and "unmask=ALL" in probes["proc"]["remedy"]
    for name in ("privileges", "seccomp", "landlock", "a whole box"):
        assert probes[name]["state"] == "not tried" and not probes[name]["remedy"], name
    assert_root_is_not_told_to_become_root(probes)


def test_doctor_shows_root_without_its_rights_as_degraded(podman):
    status, probes = podman.doctor(opts=UNMASK)
    assert status == 0 and probes["a whole box"]["state"] == "yes"
    assert probes["id-mapped mounts"]["state"] == "degraded"
    assert_root_is_not_told_to_become_root(probes)


def test_doctor_shows_a_filesystem_without_id_mapped_mounts_as_degraded(podman):
    status, probes = podman.doctor(opts=["--privileged"], overlay=True)
    assert status == 0 and probes["id-mapped mounts"]["state"] == "degraded"
    assert "volume" in probes["id-mapped mounts"]["remedy"]


@pytest.mark.parametrize("opts", [ADMIN, UNMASK, ["--privileged"]], ids=" ".join)
def test_a_box_sees_no_process_of_the_container(podman, opts):
    """Also where its /proc was mounted from outside."""
    look = 'cat /proc/[0-9]*/cmdline | tr "\\0" " "; ls -d /proc/[0-9]* | wc -l; grep -c " /proc/sys " /proc/self/mountinfo'
    done = podman.run("sh", "-c", 'sleep 9876 & /hutch/hutch run -- sh -c "$1"; kill $!', "sh", look, opts=opts)
    assert "hutch-guest" in done.stdout and "9876" not in done.stdout, done


@pytest.mark.parametrize("opts, overlay", [(UNMASK, False), (ADMIN, True), (["--privileged"], True)],
                         ids=["unmask=ALL", "SYS_ADMIN on an overlay", "privileged on an overlay"])
def test_a_box_with_roots_id_has_no_right_of_roots(podman, opts, overlay):
    attack = """
grep -h Cap /proc/self/status | grep -v 0000000000000000
cat /etc/shadow /etc/private.conf /etc/app/private.conf /etc/app/deep/private.conf /proc/slabinfo /proc/kpagecount /proc/vmallocinfo 2>/dev/null | head -c 100
for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/pid_max /usr/x /etc/x /proc/mtrr; do
    (echo 1 >$f) 2>/dev/null && test -s $f && echo "wrote $f"
done
echo over"""
    done = podman.hutch("run", "--", "sh", "-c", attack, opts=opts, overlay=overlay)
    assert done.stdout == "over\n", f"BREACH {done!r}"


def own_pid_max():
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 14)


@pytest.mark.skipif(not own_pid_max(), reason="before Linux 6.14 nothing but the container limits the processes of root")
def test_a_fork_bomb_with_roots_id_meets_its_limit(podman):
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    opts = ["run", "--json", "--pids", "32", "--memory", "4G", "--timeout", "60s", "--", "python3", "-c", bomb]
    done = podman.hutch(*opts, opts=UNMASK)
    assert json.loads(done.stdout)["killed_by"] == "pids", done
    done = podman.hutch("run", "--pids", "32", "--", "cat", "/proc/sys/kernel/pid_max", opts=UNMASK)
    assert int(done.stdout) < 500, done
    assert int(open("/proc/sys/kernel/pid_max").read()) > 500, "BREACH the host's own limit was changed"


@pytest.mark.parametrize("opts", [UNMASK, ADMIN, ["--privileged"]], ids=" ".join)
def test_what_a_box_writes_belongs_to_the_owner_of_the_folder(podman, tmp_path, opts):
    """Started by root, whatever its rights are: the folder's owner is the box's user."""
    os.chmod(tmp_path, 0o755)
    os.chown(tmp_path, 4321, 4321)
    done = podman.hutch("run", "--mode", "direct", "-w", "/work", "--", "touch", "file", opts=[*opts, "-v", f"{tmp_path}:/work"])
    assert done.returncode == 0, done
    st = os.stat(tmp_path / "file")
    assert (st.st_uid, st.st_gid) == (4321, 4321)


@pytest.mark.parametrize("opts", [UNMASK, ADMIN], ids=" ".join)
def test_boxes_fork_and_apply(podman, tmp_path, opts):
    script = """set -e
export HOME=/tmp XDG_RUNTIME_DIR=/tmp
box=$(/hutch/hutch box new)
/hutch/hutch box exec $box -- sh -c 'echo one >f'
fork=$(/hutch/hutch box fork $box)
/hutch/hutch box exec $fork -- sh -c 'cat f; echo two >>f; ls -d /proc/1'
/hutch/hutch box apply $fork >&2
/hutch/hutch box rm $box $fork >&2
cat f"""
    done = podman.run("sh", "-c", script, opts=[*opts, "-v", f"{tmp_path}:/work"])
    assert (done.returncode, done.stdout) == (0, "one\n/proc/1\none\ntwo\n"), done


@pytest.fixture
def small(podman):
    """Options of a container with 300 MB, where control groups can be had."""
    opts = ["-m", "300m", "--memory-swap", "300m", *USER, *UNMASK]
    done = podman.run("true", opts=opts, cgroups=True)
    if done.returncode != 0:
        pytest.skip(f"podman limits no memory here: {done.stderr.strip().splitlines()[-1:]}")
    return {"opts": opts, "cgroups": True}


def test_a_box_cannot_use_up_the_memory_of_its_container(podman, small):
    script = "/hutch/hutch run -- sh -c 'head -c 600M /dev/zero >big; wc -c <big'; echo alive"
    done = podman.run("sh", "-c", script, **small)
    assert done.returncode == 0 and done.stdout.endswith("alive\n"), done
    assert 50 << 20 < int(done.stdout.split()[0]) <= 150 << 20 and "No space left" in done.stderr, done


@pytest.mark.parametrize("asked, cap", [(["--memory", "400M"], "300M"), (["--disk", "200M"], "150M"), (["--memory", "200M", "--disk", "100M"], "225M")],
                         ids=["memory", "disk", "both"])
def test_limits_beyond_the_container_are_refused_with_the_cap(podman, small, asked, cap):
    failed_with(podman.hutch("run", *asked, "true", **small), *[word for word in asked if word.startswith("--")], cap)


@pytest.mark.parametrize("asked, disk", [(["--memory", "150M", "--disk", "50M"], 50), (["--memory", "200M"], 25), (["--disk", "100M"], 100)],
                         ids=["both", "memory", "disk"])
def test_limits_within_the_container_are_taken_and_defaults_give_way(podman, small, asked, disk):
    done = podman.hutch("run", *asked, "--", "df", "--output=size", "-BM", "/workspace", **small)
    assert done.stdout.split()[-1] == f"{disk}M", done


def test_an_agent_starts_in_a_small_container(podman, small):
    """Its box is larger than others by default, and still no larger than the container allows."""
    script = "mkdir -p /tmp/h /tmp/w && cp -r /share/sample/. /tmp/w && HOME=/tmp/h /hutch/hutch ask --no-apply -w /tmp/w --model replay//share/sample.replay goal"
    opts = [*small["opts"], "-v", f"{harness.REPO / 'share'}:/share:ro"]
    done = podman.run("sh", "-c", script, opts=opts, cgroups=True)
    assert "--memory" not in done.stderr, done
    assert done.stdout, done
