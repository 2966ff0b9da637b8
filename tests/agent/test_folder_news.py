"""What the person does in the folder between turns: the model learns of it, and the box gets it."""
import os
import shutil

import pytest

from model_reply import Reply, call
from test_agent import Driver, drive, last_output, looks, said  # noqa: F401


def news(server):
    """What the last request says about the person's changes, or None."""
    found = [t for t in said(server) if "changed files in the folder" in t]
    return found[-1] if found else None


def second_turn(a, server, reply="Seen."):
    server.script([Reply(reply)])
    return a("turn second")


def test_model_learns_which_files_the_person_changed(drive, agent_env, model_server):
    agent_env.put("edited.txt", "old\n")
    agent_env.put("removed.txt", "old\n")
    agent_env.put("src/same.txt", "same\n")
    a = drive()
    model_server.script([Reply("Hello.")])
    a("turn first")
    assert news(model_server) is None
    agent_env.put("edited.txt", "new and longer\n")
    agent_env.put("src/added.txt", "new\n")
    (agent_env.workspace / "removed.txt").unlink()
    answer = second_turn(a, model_server)
    assert "changed: edited.txt; added: src/added.txt; deleted: removed.txt" in news(model_server)
    assert [n for n in answer["notes"] if "edited.txt" in n and "src/added.txt" in n and "removed.txt" in n]
    assert "same.txt" not in news(model_server)
    model_server.script([Reply("Again.")])
    a("turn third")
    assert sum("edited.txt" in t for t in said(model_server)) == 1, "it is told once"
    a.end()


def test_what_apply_wrote_is_no_change_of_the_person(drive, agent_env, model_server):
    agent_env.put("gone.txt", "x\n")
    agent_env.put("mod.txt", "x\n")
    a = drive()
    model_server.script([Reply(call("bash", command="rm gone.txt; echo y > mod.txt; echo z > new.txt")), Reply("Done.")])
    a("turn first")
    a("apply")
    assert agent_env.files() == ["mod.txt", "new.txt"]
    second_turn(a, model_server)
    assert news(model_server) is None
    agent_env.put("new.txt", "by the person\n")
    model_server.script([Reply("Seen.")])
    a("turn third")
    assert "changed: new.txt]" in news(model_server)
    a.end()


def test_names_are_limited_and_the_rest_is_counted(drive, agent_env, model_server):
    a = drive()
    model_server.script([Reply("Hello.")])
    a("turn first")
    for i in range(60):
        agent_env.put(f"f{i:02}.txt", "x")
    answer = second_turn(a, model_server)
    assert "f49.txt and 10 more" in news(model_server) and "f50.txt" not in news(model_server)
    assert [n for n in answer["notes"] if "f02.txt and 57 more" in n]
    a.end()


def test_changes_beneath_git_and_node_modules_are_not_told(drive, agent_env, model_server):
    agent_env.put(".git/index", "x")
    agent_env.put("node_modules/m/index.js", "x")
    a = drive()
    model_server.script([Reply("Hello.")])
    a("turn first")
    agent_env.put(".git/index", "changed")
    agent_env.put("node_modules/m/index.js", "changed")
    second_turn(a, model_server)
    assert news(model_server) is None
    a.end()


def test_model_learns_in_a_fork_what_changed_before_it(drive, agent_env, model_server):
    a = drive()
    model_server.script(edits("echo new > a.txt"))
    a("turn first")
    a("apply")
    agent_env.put("b.txt", "the person's\n")
    a("fork 0")
    second_turn(a, model_server)
    assert "b.txt" in news(model_server) and "a.txt" not in news(model_server)
    a.end()


def test_model_learns_after_a_resume_what_changed_meanwhile(agent_env, model_server):
    agent_env.put("edited.txt", "old\n")
    agent_env.put("same.txt", "same\n")
    model_server.script([Reply("Hello.")])
    first = agent_env.ask("hello")
    agent_env.put("edited.txt", "new\n")
    model_server.script([Reply("Seen.")])
    done = agent_env.ask("go on", "--resume", first.session)
    assert "edited.txt" in news(model_server) and "same.txt" not in news(model_server)
    assert "changed: edited.txt" in done.stderr


LINES = "".join(f"line {i}\n" for i in range(20))


def edits(*commands):
    return [Reply(call("bash", command="; ".join(commands))), Reply("Done.")]


def test_changes_of_both_are_merged_in_the_box_when_a_turn_begins(drive, agent_env, model_server):
    agent_env.put("both.txt", LINES)
    agent_env.put("mine.txt", "old\n")
    a = drive()
    model_server.script(edits("sed -i 's/^line 2$/AGENT/' both.txt"))
    a("turn first")
    agent_env.put("both.txt", LINES.replace("line 15\n", "PERSON\n"))
    agent_env.put("mine.txt", "new\n")
    model_server.script(looks("cat both.txt mine.txt"))
    answer = a("turn second")
    assert "AGENT\n" in last_output(model_server) and "PERSON\nline 16" in last_output(model_server)
    assert last_output(model_server).count("\nnew") == 1, "what the box did not touch shows through"
    assert "merged with your changes in the box: both.txt" in news(model_server)
    assert [n for n in answer["notes"] if "merged with the box's changes: both.txt" in n]
    assert a("apply")["result"] == 0
    assert agent_env.get("both.txt") == LINES.replace("line 15\n", "PERSON\n").replace("line 2\n", "AGENT\n")
    a.end()


def test_conflict_stays_in_the_box_and_is_told(drive, agent_env, model_server):
    agent_env.put("both.txt", "old\n")
    a = drive()
    model_server.script(edits("echo agent > both.txt"))
    a("turn first")
    agent_env.put("both.txt", "person\n")
    model_server.script(looks("cat both.txt"))
    answer = a("turn second")
    assert last_output(model_server).startswith("agent")
    assert "in conflict with your changes" in news(model_server) and "both.txt" in news(model_server)
    assert [n for n in answer["notes"] if "conflict" in n and "both.txt" in n]
    assert a("apply")["result"] == 1 and agent_env.get("both.txt") == "person\n"
    a.end()


def replace_folder(env):
    """The folder goes, and another one has its name."""
    old = env.workspace.with_name("old")
    env.workspace.rename(old)
    shutil.rmtree(old)
    env.workspace.mkdir()
    env.caller.own(env.workspace)
    env.put("other.txt", "another project\n")


@pytest.mark.parametrize("box", ["kept", "gone"])
def test_changes_are_not_applied_to_a_folder_that_was_replaced(agent_env, model_server, box):
    agent_env.put("a.txt", "old\n")
    model_server.script([Reply(call("bash", command="echo new > a.txt; echo more > b.txt")), Reply("Done.")])
    first = agent_env.ask("change it")
    replace_folder(agent_env)
    if box == "gone":
        agent_env.hutch("box", "rm", *agent_env.boxes())
    model_server.script([Reply("Seen.")])
    done = agent_env.ask("go on", "--apply", "--resume", first.session, status=125, cwd="/")
    assert agent_env.files() == ["other.txt"], "the new folder is as it was"
    assert "was replaced by another folder since the session began" in done.stderr and "nothing was applied" in done.stderr
    patch = agent_env.hutch("box", "diff", *agent_env.boxes(), cwd="/").stdout
    assert "+more" in patch and (box == "gone" or "+new" in patch), "the changes can still be had"


def test_replaced_folder_is_told_between_turns(drive, agent_env, model_server):
    a = drive()
    model_server.script([Reply(call("bash", command="echo new > a.txt")), Reply("Done.")])
    a("turn first")
    replace_folder(agent_env)
    answer = second_turn(a, model_server)
    assert [n for n in answer["notes"] if "was replaced by another folder" in n and "hutch box diff" in n]
    assert "a.txt" in answer["changes"] and [t for t in said(model_server) if "folder was replaced" in t]
    assert "was removed or replaced" in a("apply", fails=True)["error"]
    assert agent_env.files() == ["other.txt"]
    a.end()
