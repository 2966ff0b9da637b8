"""`hutch ask` and changes that an earlier turn left pending in the box."""
from model_reply import Reply, call


def leave_pending(env, server):
    """A first session that writes a file and does not apply it."""
    server.script([Reply(call("write_file", path="new.txt", content="new\n")), Reply("Written.")])
    first = env.ask("write it")
    assert not env.has("new.txt")
    return first


def test_ask_apply_resume_applies_what_an_earlier_turn_left(agent_env, model_server):
    first = leave_pending(agent_env, model_server)
    model_server.script([Reply("Nothing more to do.")])
    done = agent_env.ask("apply it", "--apply", "--resume", first.session)
    assert agent_env.get("new.txt") == "new\n"
    assert done.one("done")["applied"] and [c["path"] for c in done.one("changes")["changes"]] == ["new.txt"]
    assert agent_env.boxes() == [], "a box without pending changes is removed"


def test_ask_resume_names_what_is_pending_without_a_call(user_env, model_server):
    first = leave_pending(user_env, model_server)
    model_server.script([Reply("Nothing more to do.")])
    done = user_env.hutch("ask", "--model", user_env.speak("anthropic"), "-w", user_env.workspace, "--resume", first.session, "look")
    box = user_env.boxes()[0]
    assert done.returncode == 0 and "added    new.txt +1 -0" in done.stderr
    assert f"hutch box diff {box}" in done.stderr and f"hutch box apply {box}" in done.stderr


def test_ask_resume_names_what_is_pending_when_the_model_fails(user_env, model_server):
    first = leave_pending(user_env, model_server)
    model_server.strict = False
    model_server.script([Reply("no", status=400)])
    done = user_env.hutch("ask", "--model", user_env.speak("anthropic"), "-w", user_env.workspace, "--apply", "--resume", first.session, "look")
    assert done.returncode == 125 and not user_env.has("new.txt"), "a failed turn applies nothing"
    assert f"hutch box apply {user_env.boxes()[0]}" in done.stderr


def test_attempts_apply_resume_applies_what_an_earlier_turn_left(user_env, model_server):
    first = leave_pending(user_env, model_server)
    model_server.script([lambda request: Reply("Nothing more to do.")] * 2)
    user_env.ask("apply it", "--apply", "--resume", first.session, "--attempts", "2", "--test", "true")
    assert user_env.get("new.txt") == "new\n"
