"""The agent with a scripted model: branch, commit, push and pull request, end to end, asked for and not asked for."""
import json
import sys

import pytest

import harness
from forge_person import TOKEN

sys.path.insert(0, str(harness.REPO / "tests" / "agent"))

from agent_env import AgentEnv  # noqa: E402
from model_reply import Reply, call  # noqa: E402
from model_server import ModelServer, by_answers  # noqa: E402
from terminal import Terminal as AnyTerminal  # noqa: E402

COMMIT = ("git config user.name Agent; git config user.email agent@example.org; git config --global --add safe.directory '*';"
          "git switch -q -c hutch/fix; echo fixed >fix.txt; git add fix.txt; git commit -q -m 'Fix it'")


class Terminal(AnyTerminal):
    """With patience for a busy machine."""

    def wait(self, *texts, seconds=90):
        return super().wait(*texts, seconds=seconds)

    def wait_gone(self, text, seconds=90):
        super().wait_gone(text, seconds=seconds)


@pytest.fixture
def model_server():
    with ModelServer() as server:
        yield server


@pytest.fixture
def work(person, model_server):
    """The person's surroundings with a model, a remote and a forge."""
    env = AgentEnv(person.box, model_server)
    server = person.over_http()
    api = person.api("github", token=TOKEN)
    env.configure(forges={server.authority: {"kind": "github", "api": api.api, "token": "${MY_TOKEN}"}})
    env.env["MY_TOKEN"] = TOKEN
    env.person, env.git, env.api = person, server, api
    yield env
    env.close()


def script(server, *calls):
    server.script([Reply(call("bash", command=COMMIT)), *[Reply(c) for c in calls], Reply("All is done.")])


PR = call("create_pr", title="Fix it", body="Because it was broken.")


def test_ask_with_allow_push_opens_a_pull_request(work, model_server):
    script(model_server, call("git_push"), PR)
    done = work.ask("fix it", "--allow-push")
    results = {e["name"]: e for e in done.events("tool_result")}
    assert not results["git_push"]["failed"] and not results["create_pr"]["failed"], done
    assert results["create_pr"]["data"]["number"] == 1 and "refs/heads/hutch/fix" in work.person.remote_branches()
    assert work.api.created()[0]["title"] == "Fix it"
    work.api.check()
    everything = done.stdout + done.stderr + json.dumps(work.histories()) + json.dumps([r.body for r in model_server.requests])
    assert TOKEN not in everything, "BREACH the token is in the conversation"


def test_ask_without_allow_push_sends_nothing_and_says_why(work, model_server):
    script(model_server, call("git_push"), PR)
    done = work.ask("fix it")
    failed = [e for e in done.events("tool_result") if e["name"] in ("git_push", "create_pr")]
    assert len(failed) == 2 and all(e["failed"] and "--allow-push" in e["text"] for e in failed), done
    assert set(work.person.remote_branches()) == {"refs/heads/main"} and not work.api.requests


def test_chat_line_by_line_shows_the_commits_and_asks_once(work, model_server):
    script(model_server, PR, PR)
    terminal = Terminal(work, "chat", "--plain", "--model", work.speak("anthropic"), "-w", work.workspace, width=120, height=60)
    try:
        terminal.wait("›")
        terminal.say("fix it")
        screen = terminal.wait("Push these commits and open this pull request?", "[y/N]")
        assert "Fix it" in screen and "Agent <agent@example.org>" in screen and "fix.txt" in screen and "Because it was" in screen
        assert set(work.person.remote_branches()) == {"refs/heads/main"} and not work.api.requests
        terminal.say("y")
        # The second call changes what is shown (the branch is there now), so it is asked again; no is an answer, too.
        terminal.wait("Open this pull request?")
        assert len(work.api.created()) == 1
        terminal.say("n")
        terminal.wait("All is done.")
        assert len(work.api.requests) == 2
    finally:
        terminal.close()


def test_chat_on_a_screen_asks_and_a_no_sends_nothing(work, model_server):
    script(model_server, call("git_push"), call("git_push"))
    terminal = Terminal(work, "chat", "--model", work.speak("anthropic"), "-w", work.workspace, width=110, height=50)
    try:
        terminal.wait("›")
        terminal.say("fix it")
        terminal.wait("Push these commits?", "Agent <agent@example.org>", "waiting for your answer")
        terminal.say("perhaps")
        terminal.wait("Type y or n and press Enter; Esc stops")
        terminal.keys("C-u")
        terminal.say("n")
        harness.wait_until(lambda: len(model_server.requests) >= 3, seconds=90, what="the model hears of the refusal")
        assert set(work.person.remote_branches()) == {"refs/heads/main"}
        harness.wait_until(lambda: terminal.screen().count("Push these commits?") >= 2, seconds=90, what="asked again")
        terminal.say("y")
        terminal.wait("All is done.")
        assert "refs/heads/hutch/fix" in work.person.remote_branches()
    finally:
        terminal.close()


def test_yes_is_remembered_for_the_same_content_only(work, model_server):
    hook = work.person.remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    script(model_server, call("git_push"), call("git_push"), call("bash", command="git commit -q --amend -m 'Another'"), call("git_push"))
    terminal = Terminal(work, "chat", "--plain", "--model", work.speak("anthropic"), "-w", work.workspace, width=110, height=100)
    try:
        terminal.wait("›")
        terminal.say("fix it")
        terminal.wait("Push these commits?", "[y/N]")
        terminal.say("y")
        harness.wait_until(lambda: terminal.screen().count("Push these commits?") == 2, seconds=90, what="asked about the other commit")
        terminal.say("n")
        terminal.wait("All is done.")
        sent = [path for method, path, *_ in work.git.requests if method == "POST" and "receive-pack" in path]
        assert len(sent) >= 2 and terminal.screen().count("Push these commits?") == 2
        assert "rejected" in terminal.screen()
    finally:
        terminal.close()


def test_tool_on_a_terminal_asks(work):
    person = work.person
    person.tools.env.update(work.env)
    person.box_commits()
    terminal = Terminal(work, "tool", "--box", person.tools.id, "git_push", width=110, height=30)
    try:
        terminal.wait("Push these commits? [y/N]", "Fix it")
        terminal.say("y")
        terminal.wait("Pushed 1 commit")
        assert "refs/heads/hutch/fix" in person.remote_branches()
    finally:
        terminal.close()


def test_question_ends_with_the_turn(work, model_server):
    script(model_server, call("git_push"))
    terminal = Terminal(work, "chat", "--model", work.speak("anthropic"), "-w", work.workspace, width=110, height=50)
    try:
        terminal.wait("›")
        terminal.say("fix it")
        terminal.wait("Push these commits?", "waiting for your answer")
        terminal.keys("Escape")
        terminal.wait_gone("waiting for your answer")
        model_server.script([Reply("Good.")])
        terminal.say("y")
        terminal.wait("Good.")
        assert set(work.person.remote_branches()) == {"refs/heads/main"}
    finally:
        terminal.close()


def test_attempts_side_by_side_push_nothing(user_person, model_server):
    env = AgentEnv(user_person.box, model_server)
    user_person.over_http(token=None)
    model_server.script(by_answers([Reply(call("bash", command=COMMIT)), Reply(call("git_push")), Reply("Done.")]))
    env.hutch("ask", "--model", env.speak("anthropic"), "-w", env.workspace, "--attempts", "2", "--test", "true", "--allow-push", "fix it")
    said = json.dumps([r.body for r in model_server.requests])
    assert "one of several parallel attempts" in said
    assert set(user_person.remote_branches()) == {"refs/heads/main"}
    env.close()
