"""Five peers on loopback, in real time, as processes: one is killed, one stopped, one joins, and training goes on."""

import json
import signal

import pytest

from paceline.cli import main
from paceline.learning import checkpoints
from paceline.learning.local_model import LocalModel
from paceline.topologies.events import MemberListening
from paceline.topologies.gossip.events import EpochEnded, PeerEnded, PeerLost, PeerSeen, PeerStarted
from paceline.topologies.gossip.prepared import prepare_job
from paceline.topologies.job_files import load_job
from tests.topologies.gossip.processes import PeerProcess

NUM_PEERS = 5
EPOCHS = 20
VICTIMS = {"peer-3": signal.SIGKILL, "peer-5": signal.SIGSTOP}  # one that is stopped takes calls, and never answers
JOB = f"""\
[gossip]
epochs = {EPOCHS}
graph = "full"
batch_size = 8
min_peers = {NUM_PEERS}
probe_seconds = 1
patience_seconds = 3
evaluate_samples = 100
[model]
name = "three-nn"
[optimizer]
name = "SGD"
lr = 0.02
momentum = 0.9
[data]
name = "digits"
"""


@pytest.fixture
def start(tmp_path):
    """Start a peer; killed at the end of the test."""
    peers = []

    def start(name, part, *others):
        peers.append(PeerProcess(tmp_path, name, f"{part}/{NUM_PEERS}", *others))
        return peers[-1]

    yield start
    for peer in peers:
        peer.process.kill()
        peer.process.wait()


def central_accuracy(prepared):
    """Of one run with all the data in one place, and the same epochs and optimizer."""
    model, data = LocalModel(prepared.training), prepared.dataset
    for _ in model.minibatches(model.state(), [data.train.take(slice(None))], prepared.job.seed, EPOCHS):
        pass
    return model.evaluate(model.state(), data.test).metrics["accuracy"]


@pytest.mark.long
def test_five_peers_one_killed_one_stopped_one_joins(start, tmp_path, capsys):
    (tmp_path / "job.toml").write_text(JOB)
    first = start("peer-1", 1)
    address = first.wait_for(MemberListening).address
    peers = [first, *(start(f"peer-{number}", number, address) for number in range(2, NUM_PEERS + 1))]

    for name, end in VICTIMS.items():
        victim = next(peer for peer in peers if peer.name == name)
        victim.wait_for(EpochEnded, lambda event: event.epoch >= 4)
        victim.process.send_signal(end)
    survivors = [peer for peer in peers if peer.name not in VICTIMS]
    newcomer = start("newcomer", 3, survivors[-1].wait_for(MemberListening).address)
    began_at = newcomer.wait_for(PeerStarted).epoch
    assert 4 < began_at < EPOCHS

    with pytest.raises(SystemExit) as exit_code:
        main(["status", address, "--token", "S3cret", "--save", str(tmp_path / "asked.safetensors"), "--json"])
    status = json.loads(capsys.readouterr().out)
    assert (exit_code.value.code or 0) == 0
    assert 4 <= status["epoch"] <= EPOCHS
    assert set(status["gone"]) == set(VICTIMS)

    everybody = {newcomer.name, *(peer.name for peer in survivors)}
    for peer in (*survivors, newcomer):
        assert peer.process.wait(timeout=180) == 0
        (ended,) = peer.events(PeerEnded)
        assert set(ended.averaged) == everybody
    for peer in survivors:
        assert {event.other for event in peer.events(PeerLost)} == set(VICTIMS)
        assert newcomer.name in {event.other for event in peer.events(PeerSeen)}
        assert [event.epoch for event in peer.events(EpochEnded)] == list(range(1, EPOCHS + 1))
    assert len(newcomer.events(EpochEnded)) == EPOCHS - began_at + 1

    prepared = prepare_job(load_job(tmp_path / "job.toml"))
    finals = [prepared.evaluate(checkpoints.read(peer.model)).metrics["accuracy"] for peer in (*survivors, newcomer)]
    assert len(set(finals)) == 1  # they agree
    assert finals[0] >= central_accuracy(prepared) - 0.01
    assert (
        prepared.evaluate(checkpoints.read(tmp_path / "asked.safetensors")).metrics["accuracy"] > 0.5
    )  # a model on its way
