"""``paceline gossip`` and ``paceline ask``: peers that train and answer, and one line for whatever is wrong."""

import json

import pytest

from paceline import axon, config
from paceline.axon.transports import HttpTransport
from paceline.learning import checkpoints
from paceline.learning.trainers import ThreadTrainer
from paceline.learning.training import LocalModel
from paceline.topologies.gossip import Peer, make_plan
from paceline.topologies.gossip.messages import PeerService

JOB = """\
[gossip]
epochs = 2
min_peers = 1
evaluate_samples = 100
[data]
name = "digits"
[model]
name = "two-nn"
"""
FLEET = """\
[[device]]
name = "pi"
count = 3
samples_per_second = 1000
down_mbit = 100
up_mbit = 100
"""


@pytest.fixture
def paceline_in(paceline_in):
    """The same, in a folder with a gossip job and a fleet."""
    (paceline_in.folder / "job.toml").write_text(JOB)
    (paceline_in.folder / "fleet.toml").write_text(FLEET)
    return paceline_in


@pytest.mark.parametrize("command", ["gossip", "ask"])
def test_help_has_an_example(paceline_in, command):
    code, out, _ = paceline_in(command, "--help")
    assert code == 0
    assert f"Example: paceline {command}" in " ".join(out.split())


PART = ("--part", "1/2")

WRONG = {
    "no such file": (("gossip", "nothing.toml", *PART), "nothing.toml: "),
    "no data": (("gossip", "job.toml"), "say which data this peer has"),
    "data twice": (("gossip", "job.toml", *PART, "--data", "x.npz"), "say which data this peer has"),
    "no part": (("gossip", "job.toml", "--part", "3/2"), "--part is '3/2'; it reads I/N"),
    "part of nothing": (("gossip", "job.toml", "--part", "0/0"), "--part is '0/0'"),
    "part in words": (("gossip", "job.toml", "--part", "first"), "--part is 'first'"),
    "too many parts": (("gossip", "job.toml", "--part", "1/100000"), "cannot be split into 100000 parts"),
    "no such data": (("gossip", "job.toml", "--data", "x.npz"), "x.npz"),
    "name": (("gossip", "job.toml", *PART, "--name", "a/b\x1b[2J"), "name is 'a/b"),
    "listen": (("gossip", "job.toml", *PART, "--listen", "7223"), "--listen is '7223'; it reads HOST:PORT"),
    "listen port": (("gossip", "job.toml", *PART, "--listen", "localhost:99999"), "--listen is"),
    "everywhere": (("gossip", "job.toml", *PART, "--listen", "0.0.0.0:0"), "tell one for others by --address"),
    "open door": (
        ("gossip", "job.toml", *PART, "--listen", "0.0.0.0:0", "--address", "http://10.0.0.2:7223"),
        "give a token",
    ),
    "address": (("gossip", "job.toml", *PART, "--address", "10.0.0.2"), "--address: '10.0.0.2' is not a worker's"),
    "address with a line end": (("gossip", "job.toml", *PART, "--address", "http://b\n:1"), "--address is "),
    "peer": (("gossip", "job.toml", *PART, "--peer", "http://[x"), "--peer: "),
    "peer without TLS": (("gossip", "job.toml", *PART, "--peer", "http://b:1#sha256:ab"), "--peer: "),
    "slowdown": (("gossip", "job.toml", *PART, "--slowdown", "0.5"), "--slowdown is 0.5; it must be at least 1"),
    "token": (("gossip", "job.toml", *PART, "--token", "a b\n"), "a token is made of"),
    "store": (("gossip", "job.toml", *PART, "--store", "http://x"), "redis://"),
    "local with others": (
        ("gossip", "job.toml", "--local", "2", "--peer", "http://b:1", "--tls"),
        "leave out --peer, --tls",
    ),
    "local with codecarbon": (("gossip", "job.toml", "--local", "2", "--energy", "codecarbon"), "leave out --energy"),
    "power": (("gossip", "job.toml", *PART, "--idle-watts", "nan"), "--idle-watts is nan; it must be at least 0"),
    "local none": (("gossip", "job.toml", "--local", "0"), "--local"),
    "cert alone": (("gossip", "job.toml", *PART, "--cert", "x.pem"), "--cert and --key belong together"),
    "ask nobody": (("ask", "10.0.0.2"), "URL: '10.0.0.2' is not a worker's address"),
    "ask half": (("ask", "http://127.0.0.1:1", "--save", "m.safetensors"), "--save and --job belong together"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_one_line(paceline_in, arguments, said):
    code, out, err = paceline_in(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert err.startswith("paceline: ")
    assert "\x1b" not in err


@pytest.mark.parametrize("name", ["no data", "no part", "no such data", "name", "peer", "everywhere"])
def test_what_is_wrong_with_the_options_leaves_no_folder_behind(paceline_in, name):
    paceline_in(*WRONG[name][0])
    assert not (paceline_in.folder / "runs").exists()


def test_asking_where_nobody_is_fails_in_one_line(paceline_in):
    code, out, err = paceline_in("ask", "http://127.0.0.1:1")
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_asking_another_worker_fails_in_one_line(paceline_in):
    worker = axon.Worker("no-peer")
    worker.rpc(name="progress")(lambda: 7)
    with worker.serve(transport=HttpTransport(), port=0) as address:
        code, out, err = paceline_in("ask", str(address))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is not what is expected" in err


def test_a_peer_alone_trains_and_keeps_its_run(paceline_in):
    code, out, err = paceline_in(
        *("gossip", "job.toml", "--part", "1/1", "--listen", "127.0.0.1:0", "--name", "lonely"),
        *("--folder", "run", "--save", "model.safetensors", "--json"),
    )
    assert code == 0, err
    told = json.loads(out)
    assert told["averaged"] == ["lonely"]
    assert told["accuracy"] > 0.3
    assert "paceline gossip job.toml --peer http://127.0.0.1:" in err
    assert (paceline_in.folder / "run/report.html").exists()
    assert checkpoints.read(paceline_in.folder / "model.safetensors").keys()


def test_events_of_a_peer_come_as_lines_of_json(paceline_in):
    alone = ("gossip", "job.toml", "--part", "1/4", "--listen", "127.0.0.1:0", "--json")
    code, out, _ = paceline_in(*alone, "--busy-watts", "4", "--idle-watts", "1")
    told = [json.loads(line) for line in out.splitlines()]
    lines = [event["event"] for event in told]
    assert code == 0
    assert lines.count("epoch_ended") == 2
    assert lines[0] == "peer_listening"
    assert lines[-1] == "peer_ended"
    (started,) = [event for event in told if event["event"] == "peer_started"]
    assert started["power"] == {"source": "model", "busy_watts": 4.0, "idle_watts": 1.0, "joules_per_byte": 0.0}
    for event in told:
        if event["event"] == "epoch_ended":
            assert event["joules"] >= 4 * event["cpu_seconds"] + event["seconds"]


def test_a_gossip_job_is_simulated(paceline_in):
    code, out, err = paceline_in("simulate", "job.toml", "fleet.toml", "--folder", "run", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["averaged"] == ["pi-1", "pi-2", "pi-3"]
    assert told["accuracy"] > 0.15


@pytest.fixture
def served(paceline_in):
    """The address of a peer that waits for others."""
    plan = make_plan(config.load_gossip(paceline_in.folder / "job.toml"))
    peer = Peer(plan.job, "waiting", plan.holdings(4)[0], ThreadTrainer(LocalModel(plan.task, allowed=None)))
    worker = axon.Worker(peer.name)
    for name in PeerService.__abstractmethods__:
        worker.rpc(name=name)(getattr(peer, name))
    with worker.serve(transport=HttpTransport(), port=0) as address:
        yield str(address)


def test_a_peer_is_asked_how_far_it_is(paceline_in, served):
    code, out, err = paceline_in("ask", served)
    assert (code, err) == (0, "")
    assert out.startswith("waiting: epoch 0 of 2, trains 100% of its data at 0 samples/s\nliving: waiting\n")
    code, out, _ = paceline_in("ask", served, "--json")
    told = json.loads(out)
    assert (code, told["learner"], told["epochs"], told["saved"]) == (0, "waiting", 2, None)


def test_a_peer_is_asked_for_its_model(paceline_in, served):
    code, out, err = paceline_in("ask", served, "--job", "job.toml", "--save", "model.safetensors")
    assert (code, err) == (0, "")
    assert "model  model.safetensors" in out
    state = checkpoints.read(paceline_in.folder / "model.safetensors")
    expected = make_plan(config.load_gossip(paceline_in.folder / "job.toml")).model.state()
    assert state.keys() == expected.keys()
    assert all(bool((state[name] == expected[name]).all()) for name in state)


def test_a_model_of_another_job_is_not_saved(paceline_in, served):
    (paceline_in.folder / "other.toml").write_text(JOB.replace("two-nn", "three-nn"))
    code, _, err = paceline_in("ask", served, "--job", "other.toml", "--save", "model.safetensors")
    assert (code, err.count("\n")) == (1, 1)
    assert "do not fit the model" in err
    assert not (paceline_in.folder / "model.safetensors").exists()
