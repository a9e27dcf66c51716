"""Jobs on data of the user's own: served, partitioned, and brought by devices."""

import asyncio

import msgspec
import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from paceline.errors import ConfigError
from paceline.learning.datasets import DataSpec
from paceline.topologies.base import DeviceOptions
from paceline.topologies.job_files import parse_job, parse_submitted
from paceline.topologies.parallel.events import RoundSpent
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.own_data import own_data_of
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.topology import JobPlan
from tests.topologies.parallel.runs import ByHand, device, of, play, small_job

FLEET = [device("a", 200), device("b", 400)]


class Points:
    """Points in a plane, of the class of their quarter, made one by one."""

    def __init__(self, length, seed):
        self.points = torch.randn(length, 2, generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        x, y = self.points[index]
        return self.points[index], 2 * int(x > 0) + int(y > 0)


PARTS = Points(600, 0), Points(100, 1)


def make_parts():
    return PARTS


def save_csv(path, points):
    rows = (f"{x},{y},{label}" for (x, y), label in points)
    path.write_text("\n".join(["x,y,quarter", *rows]))
    return str(path)


@pytest.mark.parametrize("data", [PARTS, make_parts])
@pytest.mark.parametrize("placement", ["served", "local"])
def test_a_source_is_trained_wherever_it_is(data, placement):
    train, test = (data, None) if callable(data) else data
    spec = DataSpec.of(train, test, shard_size=20, placement=placement)
    job = small_job("dab", data=spec, rounds=4, local_epochs=3, optimizer={"name": "Adam", "lr": 0.01})
    outcome, _ = play(job, FLEET)
    assert outcome.metrics["accuracy"] > 0.8


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_reading_shards_holds_nobody_up(is_in_memory):
    reads = []

    async def read_slowly(work):
        await asyncio.sleep(1.0)
        reads.append(asyncio.get_running_loop().time())
        return work()

    data = DataSpec(name="digits", shard_size=20) if is_in_memory else DataSpec.of(*PARTS, shard_size=20)
    by_hand = ByHand(run_blocking=read_slowly, data=data)

    async def main(orchestrator):
        loop = asyncio.get_running_loop()
        sessions = [await by_hand.join(name) for name in "ab"]
        samples = [asyncio.ensure_future(orchestrator.sample(session, 3, False)) for session in sessions]
        await asyncio.sleep(0.5)
        await orchestrator.fill(sessions[0], 10)
        answered_at = loop.time()
        return answered_at, await asyncio.gather(*samples)

    answered_at, works = by_hand.play(main)
    assert answered_at == 0.5
    assert [[len(labels) for _, labels in work.shards] for work in works] == [[20] * 3] * 2
    assert reads == ([] if is_in_memory else [1.0, 2.0])  # one after the other


class CountedPoints(Points):
    """Points that count how often one is made."""

    num_made = 0

    def __getitem__(self, index):
        self.num_made += 1
        return super().__getitem__(index)


def test_a_device_reads_its_own_samples_once_a_round():
    num_made, num_trained = [], []
    for rounds in (2, 4):
        train = CountedPoints(600, 0)
        data = DataSpec.of(train, PARTS[1], shard_size=20, placement="local")
        _, events = play(small_job("dab", data=data, rounds=rounds, local_epochs=1), FLEET)
        num_made.append(train.num_made)
        num_trained.append(sum(event.num_samples for event in of(RoundSpent, events)))
    assert num_made[1] - num_made[0] == num_trained[1] - num_trained[0] > 0


def test_the_same_samples_train_the_same_in_memory_and_made_one_by_one():
    losses = []
    for train in (PARTS[0], TensorDataset(PARTS[0].points, torch.tensor([label for _, label in PARTS[0]]))):
        outcome, _ = play(small_job("dab", data=DataSpec.of(train, PARTS[1], shard_size=20), rounds=2), FLEET)
        losses.append(outcome.metrics["loss"])
    assert losses[0] == losses[1]


def test_the_record_of_a_job_with_objects_says_what_other_processes_lack():
    job = small_job("dab", data=DataSpec.of(*PARTS, shard_size=20))
    tables = msgspec.json.decode(msgspec.json.encode(job.described()))
    assert parse_job(tables, "job.toml") == job
    tables["data"]["import"] = "__objects__:objects_0"
    with pytest.raises(ConfigError, match="was made of objects in another process; to use it elsewhere, make it by"):
        prepare_job(parse_job(tables, "job.toml"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DataSpec.of(*PARTS, placement="local"), "the data is objects of this process, and devices that are"),
        (DataSpec.of(make_parts, placement="local"), None),
    ],
)
def test_devices_of_other_processes_load_what_they_can_import(data, message):
    plan = JobPlan(prepare_job(small_job("dab", data=data)))
    if message is None:
        assert plan.device_options(1, 2) == ("--data", f"{__name__}:make_parts:1/2")
        return
    with pytest.raises(ConfigError, match=message):
        plan.device_options(1, 2)


def test_devices_read_their_own_data_as_the_job_reads_its(tmp_path):
    where = save_csv(tmp_path / "points.csv", PARTS[0])
    spec = DataSpec(path=where, target="quarter", test_share=0.25, placement="local", shard_size=20)
    offer = ByHand(data=spec).prepared.offer
    assert (offer.dataset, offer.reading) == ("", spec.reading)
    own = save_csv(tmp_path / "own.csv", PARTS[1])
    for options, num_samples in (
        (DeviceOptions(data=own), 100),
        (DeviceOptions(data=own, part=(1, 5)), 15),
        (DeviceOptions(data=f"{__name__}:make_parts"), 600),
    ):
        table = own_data_of(options)(offer)
        assert len(table) == num_samples
        assert table.columns[0].shape == (2,)
    (tmp_path / "texts.csv").write_text("x,y,quarter\n1,1,upper right\n")
    with pytest.raises(ConfigError, match="holds texts, which other devices may number in another way"):
        own_data_of(DeviceOptions(data=str(tmp_path / "texts.csv")))(offer)


def test_a_folder_of_arrays_is_served_without_reading_it_whole(tmp_path):
    labels = np.array([label for _, label in PARTS[0]])
    for name, array in {"x_train": PARTS[0].points.numpy(), "y_train": labels}.items():
        np.save(tmp_path / f"{name}.npy", array)
    prepared = prepare_job(small_job("dab", data=DataSpec(path=str(tmp_path), shard_size=20)))
    assert prepared.num_served_shards == 24  # of four fifths
    x, y = prepared.shards([3])[0]
    assert (x.dtype, x.shape, y.shape) == (np.float32, (20, 2), (20,))
    assert np.array_equal(y, 2 * (x[:, 0] > 0) + (x[:, 1] > 0))


@pytest.mark.parametrize(("key", "value"), [("import", "os:getcwd"), ("path", "/etc/hosts"), ("transform", "os:abort")])
def test_a_submitted_job_cannot_load_files_or_code(key, value):
    tables = Job(name="far", deadline_seconds=3.0).described()
    tables["data"] = {key: value}
    tables.pop("allocation", None)
    with pytest.raises(ConfigError, match=rf"\[data\] {key}: a submitted job cannot load files; choose by name"):
        parse_submitted(tables, Pool)


def test_paths_of_sources_are_relative_to_the_job_file(tmp_path):
    tables = {"job": {"deadline_seconds": 3.0}, "data": {"import": "own.py:Parts", "transform": "own.py:flip"}}
    data = parse_job(tables, "job.toml", base=tmp_path).data
    assert (data.import_path, data.transform) == (f"{tmp_path}/own.py:Parts", f"{tmp_path}/own.py:flip")
