"""What was learned is saved, also if the disk refuses it at first."""

import asyncio

import pytest

from paceline import files, run
from paceline.errors import DiskError
from paceline.fleets.virtual import VirtualFleet
from paceline.report import RunFolder
from paceline.testing.disks import FaultyDisk
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.saving import SAVING_SECONDS, until_saved
from paceline.topologies.split.jobs import SplitJob
from tests.chaos.small import MODEL, write_points
from tests.topologies.parallel.runs import device


class Disk:
    """Refuses to save for a while."""

    def __init__(self, refuses_seconds):
        self._refuses_seconds = refuses_seconds
        self.num_tries = 0

    async def save(self):
        self.num_tries += 1
        if asyncio.get_running_loop().time() < self._refuses_seconds:
            raise DiskError("no space left")
        return "saved"


def test_a_disk_that_has_room_again_in_time_is_waited_for(run_virtual):
    disk, failures = Disk(SAVING_SECONDS - 1), []
    assert run_virtual(until_saved(disk.save, failures.append)) == "saved"
    assert list(map(str, failures)) == ["no space left"]
    assert 10 < disk.num_tries < 30


def test_a_disk_that_has_none_for_long_is_an_error(run_virtual):
    disk = Disk(10 * SAVING_SECONDS)

    async def main():
        with pytest.raises(DiskError, match="no space left"):
            await until_saved(disk.save)
        return asyncio.get_running_loop().time()

    assert SAVING_SECONDS <= run_virtual(main()) < SAVING_SECONDS + 6


JOBS = {
    "gossip": lambda data: GossipJob(epochs=2, evaluate_samples=0, data=data, model=MODEL),
    "split": lambda data: SplitJob(epochs=1, sources=2, cut="2", data=data, model=MODEL, view=({"kind": "plain"},)),
}


@pytest.mark.parametrize("make", JOBS.values(), ids=JOBS)
def test_runs_end_with_their_model_though_the_disk_is_full_as_they_end(make, tmp_path):
    job, is_full = make({"path": str(write_points(tmp_path / "points.npz"))}), []
    disk = FaultyDisk(lambda change: 28 if is_full and is_full.pop() else None)

    def watch(event):
        if type(event).__name__ in ("PeerEnded", "SplitEpochEnded"):
            is_full.extend([True] * 3)

    with files.written_to(disk):
        ended = run.train(
            job, VirtualFleet([device("a"), device("b")]), folder=tmp_path / "run", callbacks=[watch], progress=False
        )
    assert run.load(ended.folder) is not None if "gossip" in type(job).__module__ else ended.state
    assert (RunFolder.open(ended.folder).checkpoints / "final.safetensors").is_file()


@pytest.mark.parametrize("make", JOBS.values(), ids=JOBS)
def test_the_end_is_recorded_when_the_model_is_saved(make, tmp_path):
    job, was_saved = make({"path": str(write_points(tmp_path / "points.npz"))}), []

    def watch(event):
        if type(event).__name__ in ("GossipEnded", "SplitEnded"):
            was_saved.append((tmp_path / "run" / "checkpoints" / "final.safetensors").is_file())

    fleet = VirtualFleet([device("a"), device("b")])
    run.train(job, fleet, folder=tmp_path / "run", callbacks=[watch], progress=False)
    assert was_saved == [True]
