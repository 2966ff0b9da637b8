"""Toolchains of the person's PATH in an agent's box: their programs, and nothing else of the home folder."""
import os

import pytest

from model_reply import Reply, call


@pytest.fixture
def home(agent_env):
    """A home folder with toolchains of several layouts, secrets beside them, all on PATH."""
    root = agent_env.home

    def put(name, text, mode=0o644):
        folder = root
        for part in name.split("/")[:-1]:
            folder = folder / part
            if not folder.exists():
                folder.mkdir()
                agent_env.caller.own(folder)
        path = root / name
        path.write_text(text)
        path.chmod(mode)
        agent_env.caller.own(path)

    def program(name):
        put(name, f"#!/bin/sh\necho ran {name.rsplit('/', 1)[-1]}\n", 0o755)

    for name in (".cargo/bin/fakecargo", ".nvm/versions/node/v1/bin/fakenode", ".pyenv/shims/fakepython", "go/bin/fakego", ".local/bin/fakelocal",
                 "sdk/bin/fakesdk", "mixed/bin/fakemixed"):
        program(name)
    put(".cargo/credentials.toml", "token")
    put(".rustup/settings.toml", "settings")
    put(".nvm/versions/node/v1/lib/module.js", "module")
    put(".pyenv/version", "1")
    put("sdk/lib/part", "part")
    put("mixed/secret", "secret")
    put(".npmrc", "token")
    put("letters.txt", "private")
    os.symlink(root / ".local/share/pipx/venvs/fakepipx/bin/fakepipx", root / ".local/bin/fakepipx")
    program(".local/share/pipx/venvs/fakepipx/bin/fakepipx")
    agent_env.put("bin/evil", "#!/bin/sh\necho evil\n", 0o755)
    folders = [".cargo/bin", ".nvm/versions/node/v1/bin", ".pyenv/shims", "go/bin", ".local/bin", "sdk/bin", "mixed/bin"]
    agent_env.env["PATH"] = ":".join([*(str(root / f) for f in folders), str(agent_env.workspace / "bin"), str(root), agent_env.env["PATH"]])
    return root


def run(env, model_server, command, *options):
    model_server.script([Reply(call("bash", command=command)), Reply("Done.")])
    return env.ask("go", *options).one("tool_result")["text"]


def test_programs_of_the_path_run_in_the_box(agent_env, home, model_server):
    names = "fakecargo fakenode fakepython fakego fakelocal fakesdk fakemixed fakepipx"
    said = run(agent_env, model_server, f"for p in {names}; do $p || echo missing $p; done")
    assert said.split("\n")[:8] == [f"ran {name}" for name in names.split()], said


def test_what_toolchains_need_is_shown_and_read_only(agent_env, home, model_server):
    said = run(agent_env, model_server, f"cat {home}/.nvm/versions/node/v1/lib/module.js {home}/sdk/lib/part; echo; echo $RUSTUP_HOME $PYENV_ROOT;"
                                        f" cat {home}/.rustup/settings.toml; echo; echo x >>{home}/.cargo/bin/fakecargo; touch {home}/.pyenv/new")
    assert "modulepart" in said and f"{home}/.rustup {home}/.pyenv" in said and "settings" in said
    assert said.count("Read-only file system") + said.count("Permission denied") == 2, said
    assert not (home / ".pyenv/new").exists()


def test_rest_of_the_home_folder_stays_out(agent_env, home, model_server):
    said = run(agent_env, model_server, f"cd {home}; for f in .cargo/credentials.toml .npmrc letters.txt mixed/secret; do cat $f; done; find . -type f | sort; evil")
    for secret in ("token", "private", "\nsecret"):
        assert secret not in said, said
    assert said.count("No such file") == 4 and "evil: command not found" in said, said


def test_no_toolchains_shows_none(agent_env, home, model_server):
    assert "command not found" in run(agent_env, model_server, "fakego", "--no-toolchains")


def test_home_of_the_box_takes_what_tools_write(agent_env, home, model_server):
    said = run(agent_env, model_server, "mkdir -p ~/.cargo/registry ~/go/pkg ~/.npm && echo $HOME writable")
    assert "/home/agent writable" in said
