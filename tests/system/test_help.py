"""Every command and option of `hutch help --json` (the table itself) is in --help, and in the manual pages and the
completions that scripts/generate-cli makes of it, with the same argument and default; and nothing else is."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import harness

BUILD = Path(os.environ.get("HUTCH") or harness.REPO / "build" / "hutch").parent
MAN = BUILD / "man"
COMPLETIONS = BUILD / "completions"
PAGES = sorted(path.name.removesuffix(".in") for path in (harness.REPO / "man").glob("*.[15]*"))


@pytest.fixture
def box(make_box):
    """Help is the same for everybody."""
    return make_box("user")


@pytest.fixture
def table(box):
    done = box.hutch("help", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["commands"]


def commands(table):
    """All commands as (words, command), groups included."""
    for command in table:
        yield (command["name"],), command
        for inner in command["commands"]:
            yield (command["name"], inner["name"]), inner


def heading(option):
    """`-w, --workspace DIR`"""
    short = f"-{option['short']}, " if option["short"] else ""
    return f"{short}--{option['name']}" + (f" {option['arg']}" if option["arg"] else "")


HELP = {"name": "help", "short": "h", "arg": None, "help": "print this text", "default": None}


def test_table_is_plausible(table):
    names = [words for words, _ in commands(table)]
    assert len(names) == len(set(names))
    for words in [("run",), ("box", "new"), ("box", "exec"), ("box", "fork"), ("box", "snapshot"), ("box", "restore"),
                  ("box", "diff"), ("box", "apply"), ("box", "ls"), ("box", "rm"), ("doctor",)]:
        assert words in names
    run = {option["name"]: option for words, c in commands(table) if words == ("run",) for option in c["options"]}
    for name, default in [("mode", "cow"), ("backend", "ns"), ("net", "off"), ("timeout", "10m"), ("cpu-time", "none"),
                          ("memory", "512M"), ("pids", "256"), ("files", "1024"), ("disk", "1G"), ("cpus", "all"),
                          ("output", "1M"), ("output-total", "64G")]:
        assert run[name]["default"] == default
    assert {"workspace", "apply", "image", "ro", "rw", "env", "tty", "json"} < set(run)


def test_help_of_each_command(box, table):
    for words, command in commands(table):
        done = box.hutch(*words, "--help")
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout.startswith(f"usage: hutch {' '.join(words)} {command['usage']}".rstrip())
        assert command["summary"] in done.stdout
        text = re.sub(r"\s+", " ", done.stdout)
        for option in command["options"]:
            repeats = "; may be repeated" if option["repeats"] else ""
            default = f" (default: {option['default']})" if option["default"] else ""
            assert f"{heading(option)} {option['help']}{repeats}{default}" in text, words
        shown = set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", done.stdout, re.M))
        assert shown == {option["name"] for option in command["options"]} | {"help"}
        assert box.hutch("help", *words).stdout == done.stdout
        assert box.hutch(*words, "-h").stdout == done.stdout


def test_overview(box, table):
    texts = {box.hutch(*args).stdout for args in (["--help"], ["-h"], ["help"])}
    assert len(texts) == 1
    text = texts.pop()
    for command in table:
        assert re.search(rf"^  {command['name']} +{re.escape(command['summary'])}$", text, re.M)


def test_without_a_command_it_is_the_chat(box):
    """Without a key it says how to give one, in lines for people, whatever else is on the command line."""
    for args in ([], ["--resume", "last"], ["chat"]):
        done = box.hutch(*args, input="", cwd=box.workspace)
        assert (done.returncode, done.stdout) == (125, "")
        lines = done.stderr.splitlines()
        assert len(lines) >= 3 and all(line.startswith("hutch: ") for line in lines)
        assert "ANTHROPIC_API_KEY" in done.stderr
    assert "unknown option '--bogus'" in box.hutch("--bogus").stderr


def test_version(box):
    done = box.hutch("--version")
    assert re.fullmatch(r"hutch \d+\.\d+\.\d+\n", done.stdout) and done.returncode == 0
    assert box.hutch("version").stdout == done.stdout


def test_no_colours_without_a_terminal(box):
    for env in ({}, {"TERM": "xterm-256color"}):
        for args in (["help"], ["run", "--help"], ["doctor"]):
            assert "\033" not in box.hutch(*args, env=env).stdout


# The manual.


def manual(name):
    """A page as plain text with one macro or sentence per line."""
    text = (MAN / f"{name}.1").read_text()
    return re.sub(r"\\f[BIR]", "", text).replace(r"\-", "-")


def sections(text):
    """{heading: text} by .SH and .SS."""
    parts = re.split(r"^\.S[HS] (.*)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def tagged(text):
    """{tag: text} of the tagged paragraphs."""
    return {m[1]: m[2] for m in re.finditer(r"^\.TP\n(.*)\n((?:(?!\.TP|\.S[HS] ).*\n?)*)", text, re.M)}


GROUPS = ("box", "history", "job", "gym", "key")  # commands that have commands of their own


def man_options(words):
    if words[0] in GROUPS:
        return tagged(sections(manual(f"hutch-{words[0]}"))[words[1]])
    return tagged(sections(manual(f"hutch-{words[0]}"))["OPTIONS"])


MAKERS = [("box", "new"), ("tool",), ("mcp",), ("chat",), ("ask",)]  # they refer to hutch-run(1) for what they share with it


def own_options(table, words):
    """The options of a command that its manual page has to explain itself: those that run does not have as they are."""
    by = {w: {o["name"]: o for o in c["options"]} for w, c in commands(table)}
    return [o for o in by[words].values() if words not in MAKERS or by["run",].get(o["name"]) != o]


def test_manual_has_each_option(table):
    for words, command in commands(table):
        if words[0] in ("help", "version") or (len(words) == 1 and words[0] in GROUPS):
            continue
        page = man_options(words)
        options = own_options(table, words)
        if words in MAKERS:  # the others are listed by name
            text = manual(f"hutch-{words[0]}")
            for option in command["options"]:
                assert f"--{option['name']}" in text
        elif words[0] not in GROUPS:
            options = [*options, HELP]
        assert set(page) == {heading(option) for option in options}, words
        for option in options:
            text = page[heading(option)]
            stated = re.findall(r"\(default: ([^)]*)\)", text)
            assert stated == ([option["default"]] if option["default"] else []), (words, option["name"])


def test_manual_has_each_command(table):
    top = sections(manual("hutch"))["COMMANDS"]
    assert set(tagged(top)) == {command["name"] for command in table}
    assert {command["name"] for command in table if command["commands"]} == set(GROUPS)
    for words, _ in commands(table):
        if len(words) == 2:
            assert words[1] in sections(manual(f"hutch-{words[0]}"))
    for words, command in commands(table):
        name = f"hutch-{words[0]}"
        if len(words) == 2 or words[0] in ("chat", "ask", "run", "tool", "mcp", "doctor", "trust", "serve", "worker"):
            synopsis = sections(manual(name))["SYNOPSIS"].replace("\n.br\n", "\n")
            assert f"hutch {' '.join(words)} {command['usage']}".strip() in synopsis


@pytest.mark.parametrize("name", PAGES)
def test_manual_is_clean(name):
    page = MAN / name if (MAN / name).exists() else harness.REPO / "man" / name
    try:
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("no groff on this host")
    assert done.stderr == b""


# The completions.


def expected(table, words):
    command = dict(commands(table))[words]
    return {o for option in [*command["options"], HELP]
            for o in (f"--{option['name']}", f"-{option['short']}") if o != "-None"}


def bash_complete(line, *words):
    """What bash offers for a line that ends in the last of these words."""
    script = f"""
        source {COMPLETIONS}/hutch
        COMP_WORDS=({' '.join(words)}{' ""' if line.endswith(' ') else ''})
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _hutch
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_options(table):
    for words, command in commands(table):
        if len(words) == 1 and words[0] in GROUPS:
            continue
        offered = bash_complete("-", "hutch", *words, "-")
        assert offered == expected(table, words), words


def test_bash_commands(table):
    names = {command["name"] for command in table}
    assert bash_complete(" ", "hutch") == names | {"--version", "--help", "-h"}
    for group in GROUPS:
        inner = {words[1] for words, _ in commands(table) if len(words) == 2 and words[0] == group}
        assert bash_complete(" ", "hutch", group) == inner | {"--help", "-h"}


def test_bash_values():
    assert bash_complete(" ", "hutch", "run", "--mode") == {"cow", "direct", "ro"}
    assert bash_complete("n", "hutch", "box", "new", "--backend", "n") == {"ns"}
    assert bash_complete(" ", "hutch", "run", "--memory") == set()
    assert "--mode" not in bash_complete("-", "hutch", "run", "--json", "ls", "-")


def test_fish_options(table):
    """Read, not run: fish is on few hosts."""
    told = {}
    for line in (COMPLETIONS / "hutch.fish").read_text().splitlines():
        where = re.match(r"complete -c hutch -n '__hutch_in ([\w ]+)'(?: -s (\w))? -l ([\w-]+)", line)
        if where:
            told.setdefault(tuple(where[1].split()), set()).add((where[3], where[2], " -x " in line))
    for words, command in commands(table):
        wanted = {(o["name"], o["short"], o["arg"] is not None) for o in command["options"]}
        assert told.get(words, set()) == wanted, words


def zsh_specs(text):
    """{(--name, takes a value, repeats)} of _arguments specs."""
    return {(m[2], m[3] == "=", bool(m[1])) for m in re.finditer(r"(\*?)(?:'|,)?(--[\w-]+)(=?)(?:\}'|\[)", text)}


def test_zsh_options(table):
    """Read, not run: zsh is on few hosts."""
    text = (COMPLETIONS / "_hutch").read_text()
    functions = dict(re.findall(r"^_hutch_?(\w*)\(\) \{\n(.*?)^\}", text, re.S | re.M))
    for words, command in commands(table):
        if len(words) == 1 and words[0] in GROUPS:
            continue
        function = functions[words[0] if len(words) == 2 else ""]
        block = re.search(rf"^ +{words[-1]}\)\n(.*?);;", function, re.S | re.M)[1]
        specs = zsh_specs(block)
        wanted = {(f"--{o['name']}", o["arg"] is not None, o["repeats"]) for o in command["options"]}
        assert specs == wanted | {("--help", False, False)}, words
