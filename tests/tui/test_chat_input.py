"""The input of `hutch chat` on a real terminal: typing, pasting, history, completion, the editor, suspending."""
import harness
import pytest
from model_reply import Reply, call

SIZES = [(80, 24), (200, 50)]


def echo(request):
    """A model that says what it was told last."""
    return Reply(f"You said: {request.said[-1][:60]}.")


@pytest.fixture
def chat(user_env, model_server, open_chat):
    model_server.script(echo)
    return open_chat(user_env)


@pytest.mark.parametrize("width, height", SIZES)
def test_typing(user_env, model_server, open_chat, width, height):
    model_server.script(echo)
    chat = open_chat(user_env, width=width, height=height)
    chat.type("grüße 世界 ❤️")
    chat.keys("BSpace", "BSpace", "BSpace")
    chat.type("界!")
    chat.keys("Enter")
    chat.wait("You said: grüße 世界!.")
    assert chat.leave() == 0


def test_lines(chat, model_server):
    """Alt-Enter and Ctrl-J begin a line, Up and Down move between them, and Ctrl-A, -K, -Y edit one."""
    chat.type("one")
    chat.keys("M-Enter")
    chat.type("two")
    chat.keys("C-j")
    chat.type("three")
    chat.wait("› one", "  two", "  three")
    chat.keys("Up", "C-a", "C-k", "Up", "C-e", "C-y", "Down", "Down", "C-w")
    chat.type("end")
    chat.keys("Enter")
    chat.wait("You said:")
    assert model_server.requests[0].said[-1] == "onetwo\n\nend"
    assert chat.leave() == 0


def test_shift_enter_of_kitty_and_xterm(chat, model_server):
    for sequence in ("\033[13;2u", "\033[27;2;13~"):
        chat.type("x")
        chat.tmux("send-keys", "-H", *(f"{byte:02x}" for byte in sequence.encode()))
    chat.type("x")
    chat.keys("Enter")
    chat.wait("You said:")
    assert model_server.requests[0].said[-1] == "x\nx\nx"
    assert chat.leave() == 0


def test_paste_of_10000_lines(chat, model_server):
    """One input: shown in short, sent in full, and nothing in it is a key."""
    lines = "".join(f"{i}\n" for i in range(10000)) + "/quit\t\n"
    chat.type("look: ")
    chat.paste(lines)
    chat.wait_input("look: [pasted 10,001 lines]")
    chat.type(" ok?")
    chat.wait_input("look: [pasted 10,001 lines] ok?")
    assert not model_server.requests
    chat.keys("Enter")
    chat.wait("You said: look: 0")
    assert model_server.requests[0].said[-1] == f"look: {lines} ok?"
    chat.keys("Up")
    chat.wait_input("look: [pasted 10,001 lines] ok?")
    chat.keys("C-u")
    assert chat.leave() == 0


def test_short_paste_can_be_edited(chat, model_server):
    chat.paste("alpha\nbeta")
    chat.wait("› alpha", "  beta")
    chat.keys("BSpace")
    chat.type("A")
    chat.keys("Enter")
    chat.wait("You said:")
    assert model_server.requests[0].said[-1] == "alpha\nbetA"
    assert chat.leave() == 0


def test_history_and_its_search(user_env, model_server, open_chat):
    model_server.script(echo)
    first = open_chat(user_env)
    for words in ("fix the parser", "run the tests", "fix the lexer"):
        first.say(words)
        first.wait(f"You said: {words}.")
    assert first.leave() == 0
    chat = open_chat(user_env)  # another program, later
    chat.keys("Up")
    chat.wait_input("/quit")
    chat.keys("Up")
    chat.wait_input("fix the lexer")
    chat.keys("Down", "Down")
    chat.wait("Describe a task")
    chat.type("draft")
    chat.keys("Up", "Up", "Down", "Down")
    chat.wait_input("draft")
    chat.keys("C-u", "C-r")
    chat.type("fix")
    chat.wait("search: fix", "‹ fix the lexer")
    chat.keys("C-r")
    chat.wait("‹ fix the parser")
    chat.keys("Enter")
    chat.wait_input("fix the parser")
    chat.keys("C-r")
    chat.type("nowhere")
    chat.wait("search: nowhere (not found)")
    chat.keys("Escape")
    chat.wait_input("fix the parser")
    chat.keys("C-u")
    assert chat.leave() == 0
    path = user_env.data / "hutch" / "input_history"
    assert path.stat().st_mode & 0o777 == 0o600


def test_commands_are_completed(chat):
    chat.type("/un")
    chat.wait("undo", "undo the last turn")
    chat.keys("Tab")
    chat.wait_input("/undo")
    chat.keys("C-u")
    chat.type("/cos")
    chat.keys("Enter")  # what is chosen is entered
    chat.wait("output", "0 tokens")
    chat.say("/unod")
    chat.wait("did you mean /undo?")
    chat.wait_input("/unod")  # it stays, to be put right
    chat.keys("C-u")
    assert chat.leave() == 0


def test_files_are_completed(user_env, model_server, open_chat):
    user_env.put(".gitignore", "build/\n")
    user_env.put("src/lexer/token.c")
    user_env.put("src/parser.c")
    user_env.put("build/parser.o")
    model_server.script(echo)
    chat = open_chat(user_env)
    chat.type("see @pars")
    chat.wait("▸ src/parser.c")
    assert "parser.o" not in chat.screen()
    chat.keys("Tab")
    chat.type("and src/lex")
    chat.keys("Tab")
    chat.wait("src/lexer/")
    chat.keys("Down", "Enter")
    harness.wait_until(lambda: "token.c" in chat.input(), what="the second is taken")
    chat.keys("Enter")
    chat.wait("You said: see @src/parser.c and src/lexer/token.c")
    assert chat.leave() == 0


def test_external_editor(user_env, model_server, open_chat):
    model_server.script(echo)
    # Each time it makes a difference that can be seen: what is on the screen already says nothing about the editor's end.
    editor = user_env.put("editor", '#!/bin/sh\n(tr a-z A-Z < "$1"; echo !) | tr -d "\\n" > "$1.new" && mv "$1.new" "$1"\n', 0o755)
    chat = open_chat(user_env, more_env={"EDITOR": str(editor)})
    chat.type("make it loud")
    chat.keys("C-g")
    chat.wait_input("MAKE IT LOUD!")
    chat.keys("C-x", "C-e")
    chat.wait_input("MAKE IT LOUD!!")
    chat.keys("Enter")
    chat.wait("You said: MAKE IT LOUD!!.")
    assert chat.leave() == 0


def test_suspending(user_env, model_server, open_chat):
    """Ctrl-Z gives the terminal back to the shell, and fg brings the chat again, with what was typed."""
    model_server.script(echo)
    chat = open_chat(user_env)
    command = f"{user_env.box.program} chat --model anthropic/scripted-1 -w {user_env.workspace}"
    variables = [f"{k}={v}" for k, v in user_env.env.items()]
    chat.tmux("respawn-pane", "-k", "env", *variables, "PS1=shell>", "bash", "--norc", "-i")
    chat.wait("shell>")
    chat.say(command)
    chat.wait("Describe a task")
    chat.type("half a thought")
    chat.keys("C-z")
    chat.wait("Stopped", "shell>")
    chat.say("fg")
    chat.wait_input("half a thought")
    chat.type(" more")
    chat.keys("Enter")
    chat.wait("You said: half a thought more.")
    chat.say("/quit")
    chat.wait("hutch --resume", "shell>")
    chat.say("exit")
    chat.wait_end()


def test_leaving(user_env, model_server, open_chat):
    """Ctrl-C at an empty input says how to leave, and the second one does; Ctrl-D at once. Neither takes what is typed."""
    model_server.script(echo)
    chat = open_chat(user_env)
    chat.type("abc")
    chat.keys("C-c")
    chat.wait("Describe a task")
    chat.keys("C-c")
    chat.wait("Press Ctrl-C again to quit")
    chat.keys("C-c")
    assert chat.wait_end() == 0
    chat = open_chat(user_env)
    chat.type("ab")
    chat.keys("Home", "C-d")
    chat.wait_input("b")
    chat.keys("C-d", "C-d")
    assert chat.wait_end() == 0


def test_shell_command_of_the_person(user_env, model_server, open_chat):
    model_server.script([Reply("I know.")])
    chat = open_chat(user_env)
    chat.say("!echo from the $((40 + 2))")
    chat.wait("from the 42")
    chat.say("what did it say?")
    chat.wait("I know.")
    said = "\n".join(model_server.requests[0].said)
    assert "from the 42" in said and "echo from the" in said
    assert chat.leave() == 0


def test_model_and_tools(user_env, model_server, open_chat):
    model_server.script([Reply(call("plan", items=[{"text": "think", "state": "active"}])), Reply("Planned.")])
    chat = open_chat(user_env, height=50)
    chat.say("/model openai/other")
    chat.wait("Now using openai/other")
    chat.say("/model anthropic/scripted-1")
    chat.wait("Now using anthropic/scripted-1")
    chat.say("/model nobody/x")
    chat.wait("nobody")
    chat.say("plan it")
    chat.wait("Planned.")
    chat.say("/plan")
    chat.wait("▸ think")
    chat.say("/tools")
    chat.wait("read_file", "bash")
    assert chat.leave() == 0
