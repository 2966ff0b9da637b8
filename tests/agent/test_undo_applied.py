"""Undo after apply: the box goes back, and what was applied is pending in reverse."""
import os
import stat

from model_reply import Reply, call
from test_agent import Driver, drive, last_output, looks  # noqa: F401

# A turn that adds, modifies, deletes and renames files, changes modes, and replaces files, folders and links by each other.
CHANGES = """
set -e
echo new > added.txt; mkdir -p deep/er; echo deep > deep/er/new.txt; chmod 700 deep
echo changed > modified.txt; printf 'no newline' > src/inner.txt
rm deleted.txt; rm -r whole
mv renamed.txt moved.txt; mv folder folder2
chmod 755 mode.sh; ln -s added.txt link_new; ln -sfn modified.txt link_changed; rm link_gone
rm file_to_folder; mkdir file_to_folder; echo in > file_to_folder/in
rm -r folder_to_file; echo file > folder_to_file
head -c 300000 /dev/zero | tr '\\\\0' x > large.bin
"""


def fill(env):
    for name in ("modified.txt", "deleted.txt", "renamed.txt", "src/inner.txt", "whole/a", "whole/b/c", "folder/x", "folder/y/z", "file_to_folder",
                 "folder_to_file/a", "same.txt"):
        env.put(name, f"{name} as it was\n")
    env.put("mode.sh", "#!/bin/sh\n", 0o644)
    env.put("large.bin", "y" * 200000)
    for link, target in (("link_changed", "same.txt"), ("link_gone", "nowhere")):
        os.symlink(target, env.workspace / link)
        env.caller.own(env.workspace / link)


def tree(folder):
    """Every path with its type, permissions and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name, st = str(path.relative_to(folder)), path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[name] = (stat.S_IFMT(st.st_mode), None if path.is_symlink() else stat.S_IMODE(st.st_mode), content)
    return found


def changes_everything(server, *more):
    server.script([Reply(call("bash", command=CHANGES)), Reply("Done."), *more])


def test_undo_after_apply_is_pending_and_applies(drive, agent_env, model_server):
    fill(agent_env)
    before = tree(agent_env.workspace)
    a = drive()
    changes_everything(model_server)
    changed = set(a("turn go")["changes"])
    assert a("apply")["result"] == 0 and a("changes")["changes"] == {}
    applied = tree(agent_env.workspace)
    assert applied != before
    undone = a("undo 1")
    assert tree(agent_env.workspace) == applied, "an undo does not write to the folder"
    assert set(undone["changes"]) == changed, "what was applied is pending in reverse"
    n = len(changed)
    assert undone["notes"] == [f"Undid turn 1: restored {n} files in the box and removed it from the conversation. {n} files of it were applied "
                               "to your folder: the pending diff reverts them; /apply to do so.\n"]
    model_server.script(looks("cat modified.txt; ls deleted.txt link_gone deep added.txt 2>&1; stat -c %a mode.sh; readlink link_changed"))
    a("turn look")
    output = last_output(model_server)
    assert "modified.txt as it was" in output and "deep" in output and "644\nsame.txt" in output
    assert output.count("No such file") == 2, "added files are gone, the link that was deleted is there again"
    assert a("apply")["result"] == 0
    assert tree(agent_env.workspace) == before, "byte for byte"
    assert a("changes")["changes"] == {}
    a.end()


def test_undo_in_a_fork_after_apply(drive, agent_env, model_server):
    fill(agent_env)
    before = tree(agent_env.workspace)
    a = drive()
    changes_everything(model_server, Reply(call("bash", command="echo fork > forked.txt; rm same.txt")), Reply("Done."))
    changed = set(a("turn go")["changes"])
    a("apply")
    a("fork 0")
    a("turn in the fork")
    assert a("apply")["result"] == 0 and agent_env.has("forked.txt")
    undone = a("undo 2")
    assert set(undone["changes"]) == changed | {"forked.txt", "same.txt"}
    assert undone["notes"][0].startswith(f"Undid turns 1 to 2: restored {len(changed) + 2} files in the box")
    assert a("apply")["result"] == 0 and tree(agent_env.workspace) == before
    a.end()


def test_fork_from_a_turn_before_an_apply_has_its_files(drive, agent_env, model_server):
    agent_env.put("a.txt", "0\n")
    a = drive()
    model_server.script([Reply(call("bash", command="echo 1 > a.txt")), Reply("Done."),
                         Reply(call("bash", command="echo 2 > a.txt; echo 2 > b.txt")), Reply("Done.")])
    a("turn first")
    a("turn second")
    a("apply")
    forked = a("fork 1")
    assert set(forked["changes"]) == {"a.txt", "b.txt"}, "a.txt as after turn 1, b.txt not there"
    model_server.script(looks("cat a.txt; ls b.txt 2>&1"))
    a("turn look")
    assert last_output(model_server).startswith("1\n") and "No such file" in last_output(model_server)
    model_server.script([Reply(call("bash", command="echo 3 > a.txt; echo 3 > b.txt; echo 3 > c.txt")), Reply("Done.")])
    a("turn change")
    a("apply")
    undone = a("undo 2")
    assert set(undone["changes"]) == {"a.txt", "b.txt", "c.txt"}, "the fork goes back to how it began"
    a("apply")
    assert agent_env.files() == ["a.txt"] and agent_env.get("a.txt") == "1\n"
    a.end()


def test_two_applies_with_an_undo_between(drive, agent_env, model_server):
    agent_env.put("a.txt", "0\n")
    before = tree(agent_env.workspace)
    a = drive()
    for _ in range(2):
        model_server.script([Reply(call("bash", command="echo 1 > a.txt; echo 1 > b.txt")), Reply("Done.")])
        a("turn change")
        assert a("apply")["result"] == 0 and agent_env.get("b.txt") == "1\n"
        assert set(a("undo 1")["changes"]) == {"a.txt", "b.txt"}
        assert a("apply")["result"] == 0 and tree(agent_env.workspace) == before
    a.end()


def test_undo_of_one_of_two_applied_turns_leaves_the_first(drive, agent_env, model_server):
    agent_env.put("a.txt", "0\n")
    a = drive()
    for text in "12":
        model_server.script([Reply(call("bash", command=f"echo {text} > a.txt; echo {text} > {text}.txt")), Reply("Done.")])
        a(f"turn {text}")
        a("apply")
    undone = a("undo 1")
    assert set(undone["changes"]) == {"a.txt", "2.txt"}
    a("apply")
    assert agent_env.get("a.txt") == "1\n" and agent_env.files() == ["1.txt", "a.txt"]
    undone = a("undo 1")
    assert set(undone["changes"]) == {"a.txt", "1.txt"}
    a("apply")
    assert agent_env.get("a.txt") == "0\n" and agent_env.files() == ["a.txt"]
    a.end()


def test_undo_of_a_turn_that_only_applied_earlier_changes_keeps_them_in_the_box(drive, agent_env, model_server):
    """The state of turn 2 had a.txt changed and b.txt deleted in the box: that is what the undo goes back to."""
    agent_env.put("a.txt", "0\n")
    agent_env.put("b.txt", "0\n")
    a = drive()
    model_server.script([Reply(call("bash", command="echo 1 > a.txt; rm b.txt")), Reply("Done."), Reply(call("bash", command="echo 2 > c.txt")), Reply("Done.")])
    a("turn first")
    a("turn second")
    a("apply")
    undone = a("undo 1")
    assert set(undone["changes"]) == {"c.txt"}, "a.txt and b.txt are in the box as they are in the folder"
    model_server.script(looks("cat a.txt; ls b.txt c.txt 2>&1"))
    a("turn look")
    assert last_output(model_server).startswith("1\n") and last_output(model_server).count("No such file") == 2
    a.end()


def test_undo_after_the_person_edited_an_applied_file(drive, agent_env, model_server):
    """What the person wrote is merged or a conflict, and never lost."""
    agent_env.put("merge.txt", "".join(f"line {i}\n" for i in range(20)))
    agent_env.put("conflict.txt", "old\n")
    a = drive()
    model_server.script([Reply(call("bash", command="sed -i 's/^line 2$/LINE 2/' merge.txt; echo agent > conflict.txt; echo added > added.txt")), Reply("Done.")])
    a("turn go")
    a("apply")
    agent_env.put("merge.txt", agent_env.get("merge.txt").replace("line 15\n", "the person's\n"))
    agent_env.put("conflict.txt", "the person's\n")
    agent_env.put("added.txt", "added, and the person's\n")
    assert set(a("undo 1")["changes"]) == {"merge.txt", "conflict.txt", "added.txt"}
    left = a("apply")["result"]
    assert agent_env.get("conflict.txt") == "the person's\n" and agent_env.get("added.txt") == "added, and the person's\n"
    assert "the person's\n" in agent_env.get("merge.txt")
    assert left == 2 and agent_env.get("merge.txt").startswith("line 0\nline 1\nline 2\n"), "what does not overlap is merged"
    a.end()


def test_undo_after_apply_and_a_crash(drive, agent_env, model_server):
    agent_env.put("a.txt", "0\n")
    a = drive()
    model_server.script([Reply(call("bash", command="echo 1 > a.txt; echo 1 > b.txt")), Reply("Done.")])
    a("turn go")
    session = a("apply")["state"]["session"]
    a.kill()
    b = drive(session)
    assert set(b("undo 1")["changes"]) == {"a.txt", "b.txt"}
    b("apply")
    assert agent_env.files() == ["a.txt"] and agent_env.get("a.txt") == "0\n"
    b.end()
