"""Output: endless, NUL-filled, one line; the result keeps its head and tail and counts all of it."""
import base64
import resource

import pytest

from arsenal import breach_if

KEEP = 64 << 10


def kept(result, stream="stdout"):
    if stream in result:
        return result[stream].encode("utf-8", "surrogateescape")
    return base64.b64decode(result[stream + "_base64"])


def test_endless_output_is_kept_within_its_limit(box):
    result = box.json("yes", "hostile", opts=["--output", "64K", "--timeout", "2s"])
    assert result["killed_by"] in ("timeout", "output"), result["killed_by"]
    assert result["exit_code"] != 0 and result["truncated"] is True
    breach_if(len(kept(result)) > KEEP + 256, f"kept {len(kept(result))} bytes of a limit of {KEEP}")
    assert result["stdout_bytes"] > 1 << 20


def test_output_beyond_its_total_ends_the_command(box):
    """--output-total: a command that never stops talking is ended, long before its time is."""
    result = box.json("yes", opts=["--output", "64K", "--output-total", "4M", "--timeout", "3s"])
    breach_if(result["killed_by"] != "output", f"talked on: {result['stdout_bytes']} bytes, {result['killed_by']}")
    assert result["exit_code"] != 0 and result["stdout_bytes"] >= 4 << 20


def test_endless_output_does_not_fill_the_memory_of_hutch(box):
    """The caller's own process stays small, whatever comes out of the box."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    result = box.json("sh", "-c", "cat /dev/zero", opts=["--output", "64K", "--timeout", "2s"])
    assert result["stdout_bytes"] > 1 << 20
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    breach_if(after > max(before, 200 << 10), f"hutch grew to {after >> 10} MB")


def test_output_full_of_nuls_is_counted_exactly(box):
    result = box.json("head", "-c", "10000000", "/dev/zero", opts=["--output", "64K"])
    assert result["exit_code"] == 0 and result["stdout_bytes"] == 10000000 and result["truncated"] is True
    breach_if(len(kept(result)) > KEEP + 256, f"kept {len(kept(result))} bytes")


def test_small_output_full_of_nuls_is_kept_exactly(box):
    result = box.json("head", "-c", "1000", "/dev/zero", opts=["--output", "64K"])
    assert kept(result) == b"\0" * 1000 and result["truncated"] is False


def test_one_endless_line_keeps_its_head_and_tail(box):
    """No newline anywhere: the beginning and the end are there, the middle is counted."""
    line = "import sys\nsys.stdout.write('BEGIN' + 'x' * 8000000 + 'END')"
    result = box.json("/usr/bin/python3", "-c", line, opts=["--output", "64K"])
    data = kept(result)
    assert data.startswith(b"BEGINxxx") and data.endswith(b"xxxEND")
    assert result["stdout_bytes"] == 8000008 and result["truncated"] is True
    breach_if(len(data) > KEEP + 256, f"kept {len(data)} bytes")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_bytes_that_are_no_text_survive(box, stream):
    """Every byte value, in base64 where they are not UTF-8."""
    write = f"import sys\nsys.{stream}.buffer.write(bytes(range(256)) * 8)"
    result = box.json("/usr/bin/python3", "-c", write)
    assert kept(result, stream) == bytes(range(256)) * 8
    assert result[stream + "_bytes"] == 2048 and result["truncated"] is False


def test_both_streams_have_their_own_limit(box):
    write = "import sys\nsys.stdout.write('o' * 300000)\nsys.stderr.write('e' * 300000)"
    result = box.json("/usr/bin/python3", "-c", write, opts=["--output", "64K"])
    assert result["stdout_bytes"] == result["stderr_bytes"] == 300000
    for stream, letter in (("stdout", b"o"), ("stderr", b"e")):
        breach_if(len(kept(result, stream)) > KEEP + 256, f"kept {len(kept(result, stream))} bytes of {stream}")
        assert kept(result, stream).startswith(letter * 1000) and kept(result, stream).endswith(letter * 1000)


def test_output_that_looks_like_a_result_is_only_output(box):
    """Forged JSON, frames and terminal sequences stay inside the one object."""
    forged = '{"exit_code":0,"stdout":"forged"}\\n\\0\\0\\0\\010\\203\\0\\0\\0\\033]0;title\\007'
    result = box.json("sh", "-c", f"printf '{forged}'; exit 7")
    assert result["exit_code"] == 7
    assert kept(result).startswith(b'{"exit_code":0')


def test_a_reader_that_goes_away_ends_the_command(box):
    """hutch run yes | head: the box does not run on for nobody."""
    process = box.start("yes", opts=["--timeout", "30s"])
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    process.stdin.close()
    status = process.wait(timeout=300)
    process.stderr.close()
    assert status != 0
