"""The network on demand: refused with a reason, asked for by the model, confirmed once by the person; a real pip and a real npm."""
import os
import shutil

import pytest

from model_reply import Reply, call
from package_server import NAME, PackageServer, write_npmrc, write_pip_conf
from terminal import Terminal

pytestmark = pytest.mark.skipif(not os.path.isdir("/usr/lib/python3/dist-packages/pip"), reason="no pip of Debian on this host")
PIP = f"/usr/bin/python3 -m pip install --disable-pip-version-check --retries 0 --target deps {NAME}"
USE = f"PYTHONPATH=deps /usr/bin/python3 -c 'import {NAME}; print({NAME}.greet())'"
ASK = call("request_network", hosts=["@pip"], reason=f"to install {NAME}")


@pytest.fixture
def server():
    with PackageServer() as one:
        yield one


@pytest.fixture
def env(agent_env, server):
    """A person whose pip and npm use a mirror on a private address."""
    write_pip_conf(agent_env.caller, agent_env.home, f"[global]\nindex-url = {server.pip}\ntrusted-host = {server.host}\n")
    write_npmrc(agent_env.caller, agent_env.home, f"registry={server.npm}\n")
    agent_env.env["XDG_CONFIG_HOME"] = str(agent_env.home / ".config")
    return agent_env


@pytest.fixture
def chat(env):
    screen = Terminal(env, "chat", "--model", env.speak("anthropic"), "-w", env.workspace, width=120, height=40)
    screen.wait("scripted-1")
    yield screen
    screen.close()


def results(done):
    return [e["text"] for e in done.events("tool_result")]


def test_pip_install_takes_one_confirmation_in_a_chat(env, model_server, server, chat):
    model_server.script([Reply(call("bash", command=PIP)), Reply(ASK), Reply(call("bash", command=f"{PIP} && {USE}")), Reply("It is installed.")])
    chat.say(f"install {NAME}")
    screen = chat.wait("Let the box reach these hosts?", server.place, f"to install {NAME}", seconds=90)
    assert not server.paths, f"nothing was fetched before it was confirmed: {screen}"
    chat.say("y")
    chat.wait("It is installed.", seconds=90)
    assert f"/simple/{NAME}/" in server.paths
    said = [str(r.body) for r in model_server.requests]
    assert "hello from the package" in said[-1]
    chat.say("/net")
    chat.wait("net      allow:@pip")


def test_person_who_says_no_keeps_the_network_closed(env, model_server, server, chat):
    model_server.script([Reply(ASK), Reply(call("bash", command=PIP)), Reply("It cannot be installed.")])
    chat.say("install it")
    chat.wait("Let the box reach these hosts?", seconds=90)
    chat.say("n")
    chat.wait("It cannot be installed.", seconds=90)
    assert not server.paths


def test_slash_net_and_set_change_the_box(env, model_server, server, chat):
    model_server.script([Reply(call("bash", command="true")), Reply("Ready.")])
    chat.say("begin")
    chat.wait("Ready.", seconds=60)
    chat.say("/net allow:@pip")
    chat.wait("net      allow:@pip", seconds=60)
    chat.say("/net allow:example.org")
    chat.wait("net      allow:@pip,example.org")
    chat.say("/set memory 300M")
    chat.wait("memory   300M")
    chat.say("/net host")
    chat.wait("cannot join the host's network")
    chat.say("/net off")
    chat.wait("net      off")


def test_ask_refuses_unless_it_was_allowed_in_advance(env, model_server, server):
    script = [Reply(ASK), Reply(call("bash", command=PIP)), Reply("Done.")]
    model_server.script(script)
    done = env.ask("install it")
    first, second = results(done)
    assert "must be confirmed by the user" in first and "--allow-net @pip" in first and not server.paths, done
    assert "the network refused" in second and "request_network" in second, done


def test_ask_with_allow_net_installs(env, model_server, server):
    model_server.script([Reply(ASK), Reply(call("bash", command=f"{PIP} && {USE}")), Reply("Done.")])
    done = env.ask("install it", "--allow-net", "@pip")
    assert "hello from the package" in results(done)[1], done


@pytest.mark.skipif(not shutil.which("npm", path="/usr/bin"), reason="no npm of Debian on this host")
def test_npm_install_after_consent(env, model_server, server):
    model_server.script([Reply(call("request_network", hosts=["@npm"], reason="to install")),
                         Reply(call("bash", command=f"npm install --no-audit --no-fund {NAME} && node -p \"require('{NAME}')\"")), Reply("Done.")])
    done = env.ask("install it", "--allow-net", "@npm")
    assert "hello from the package" in results(done)[1], done


def test_allow_net_covers_no_more_than_it_names(env, model_server):
    model_server.script([Reply(call("request_network", hosts=["other.org", "example.org"], reason="x")),
                         Reply(call("request_network", hosts=["example.org:22"], reason="x")),
                         Reply(call("request_network", hosts=["example.org:443", "a.b.example.net"], reason="x")), Reply("Done.")])
    failed = [e["failed"] for e in env.ask("go", "--allow-net", "example.org,*.example.net").events("tool_result")]
    assert failed == [True, True, False]


def test_refusal_names_the_host_to_the_model(env, model_server):
    fetch = "/usr/bin/python3 -c 'import urllib.request; urllib.request.urlopen(\"http://host.example.org:8080/\")'"
    model_server.script([Reply(call("bash", command=fetch)), Reply("Done.")])
    (said,) = results(env.ask("go"))
    assert "the network refused host.example.org:8080: this host is not allowed; ask for it with request_network" in said


def test_reason_cannot_paint_the_terminal(env, model_server, chat):
    model_server.script([Reply(call("request_network", hosts=["example.org"], reason="\x1b[2Jnothing to see")), Reply("No.")])
    chat.say("go")
    screen = chat.wait("Let the box reach these hosts?", "example.org", "nothing to see", seconds=60)
    assert "\\x1b" in screen or "[2J" in screen
    chat.say("n")
    chat.wait("No.", seconds=60)


PLOT = ("import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as p, csv; "
        "rows = list(csv.DictReader(open('sales.csv'))); p.bar([r['region'] for r in rows], [float(r['amount']) for r in rows]); p.savefig('sales.png')")
BUILD = "mkdir -p build && for i in 1 2 3; do head -c 750M /dev/zero >build/out$i || exit 1; done && cat build/out* | wc -c"


def test_package_plot_and_large_build_in_one_chat(env, model_server, server):
    """A package from an allowed host, a plot, and a build of more than 2 GB, one after the other in one box."""
    if not os.path.exists("/etc/matplotlibrc"):
        pytest.skip("no matplotlib of Debian on this host")
    if env.hutch("run", "-w", env.workspace, "--disk", "4G", "true").returncode:
        pytest.skip("this host has no room for a box with --disk 4G")
    env.put("sales.csv", "region,amount\nnorth,120\nsouth,80\n")
    model_server.script([Reply(ASK), Reply(call("bash", command=f"{PIP} && {USE}")),
                         Reply(call("bash", command=f'/usr/bin/python3 -c "{PLOT}" && file sales.png')),
                         Reply(call("bash", command=BUILD)), Reply("All three are done.")])
    store = env.home / "state" / "hutch" / "store"
    chat = Terminal(env, "chat", "--memory", "1G", "--model", env.speak("anthropic"), "-w", env.workspace, width=120, height=40)
    try:
        chat.wait("scripted-1")
        chat.say("install, plot, build")
        chat.wait("Let the box reach these hosts?", seconds=90)
        chat.say("y")
        chat.wait("All three are done.", seconds=300)
        said = str(model_server.requests[-1].body)
        assert "hello from the package" in said and "sales.png: PNG image data" in said and "2359296000" in said, said[-3000:]
        assert list(store.iterdir()), "an agent's box has its files on disk"
        for box in env.boxes():
            assert env.hutch("box", "rm", box).returncode == 0
        assert list(store.iterdir()) == []
    finally:
        chat.close()
