"""Compressed updates in runs: fewer bytes and no less learned, what learners keep, and what is refused."""

import asyncio
import dataclasses

import pytest
import torch

from paceline.axon import loops
from paceline.devices.machines import LiveMachine, Machine
from paceline.fleets import virtual_loop
from paceline.learning.compression import Compression
from paceline.learning.trainers import Trained, Trainer
from paceline.topologies.base import Contact, DeviceOptions, Environment, Node, serving
from paceline.topologies.parallel import events
from paceline.topologies.parallel.learner import Learner
from paceline.topologies.parallel.messages import Receipt
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.report import RunReporting
from paceline.topologies.parallel.single_job import SingleJob
from paceline.topologies.parallel.topology import JobPlan
from tests.topologies.parallel.runs import ByHand, closed, device, node_of, of, play, play_pool, small_job

WAYS = {"int8": 3.98, "int4": 7.9, "top-k": 10.0}
"""Compression methods, and how many times fewer bytes they send of float32."""


def compressed(method, **changes):
    return small_job(rounds=6, local_epochs=2, min_learners=3, aggregation={"compression": method}, **changes)


@pytest.fixture(scope="module")
def whole_run():
    return play(compressed("none"), [device(name) for name in "abc"])


@pytest.mark.parametrize("method", WAYS)
def test_fewer_bytes_are_sent_and_all_learn(method, whole_run):
    whole, about_whole = whole_run
    small, about_small = play(compressed(method), [device(name) for name in "abc"])
    assert whole.metrics["accuracy"] > 0.75
    assert small.metrics["accuracy"] > whole.metrics["accuracy"] - 0.1
    terms = prepare_job(compressed(method)).terms
    assert terms.model_bytes / terms.up_bytes == pytest.approx(WAYS[method], rel=0.01)
    assert {end.up_bytes / end.num_updates for end in closed(about_small)} == {terms.up_bytes}
    assert {end.up_bytes / end.num_updates for end in closed(about_whole)} == {terms.model_bytes}
    for end in closed(about_small):
        assert end.down_bytes > 3 * terms.model_bytes
    # What devices count themselves has headers, too.
    extra = {spent.bytes_sent - terms.up_bytes for spent in of(events.RoundSpent, about_small)}
    assert max(extra) < 1000


def test_learners_with_smaller_updates_train_more_on_a_slow_link():
    slow = [device("a", up_mbit=0.1)]  # 1.4 s for whole parameters, of 4 s
    samples = {
        method: closed(play(small_job(rounds=1, aggregation={"compression": method}), slow)[1])[0].num_samples
        for method in ("none", "int4")
    }
    assert samples["int4"] > 1.3 * samples["none"]


def test_statistics_of_batch_normalisation_are_sent_exactly():
    """With the change of its running variance in steps of 4 bits, that of some layer would be below 0."""
    job = compressed("int4", model={"import": "tests.topologies.parallel.own_models:Normalised"})
    outcome, _ = play(job, [device(name) for name in "abc"])
    assert outcome.metrics["accuracy"] > 0.75
    assert outcome.state["model.2.running_var"].min() > 0
    assert outcome.state["model.2.num_batches_tracked"] > 0


def test_jobs_of_a_pool_have_their_own():
    methods = {"whole": "none", "small": "top-k"}
    jobs = {name: {"aggregation": {"compression": method}} for name, method in methods.items()}
    pool = play_pool(jobs, [device(f"d{number}", price=1.0) for number in range(4)], is_time_only=False)
    sizes = {name: {end.up_bytes / end.num_updates for end in pool.of(events.RoundClosed, name)} for name in jobs}
    assert sizes == {"whole": {17920.0}, "small": {1792.0}}


def test_time_only_runs_send_as_much():
    job = compressed("int8")
    _, told = play(job, [device(name) for name in "abc"], is_time_only=True)
    assert {end.up_bytes / end.num_updates for end in closed(told)} == {prepare_job(job).terms.up_bytes}


def test_the_report_shows_accuracy_by_bytes(whole_run):
    _, told = whole_run
    reporting = RunReporting()
    builder = reporting.builder({})
    for event in told:
        builder.feed(event)
    tables = {table.name: table for table in builder.tables()}
    rounds = tables["rounds"].records()
    assert rounds[-1]["uploaded"] == sum(one["up_bytes"] for one in rounds) == sum(one.up_bytes for one in closed(told))
    (shown,) = [one for one in reporting.sections(tables) if one.title == "Accuracy by bytes of updates"]
    assert (shown.table, shown.x, shown.y) == ("rounds", "uploaded", ("accuracy",))
    assert "per round" in shown.note


# What a learner keeps.


class Steady(Trainer):
    """Takes the same step each time, at 200 samples per second."""

    def __init__(self, initial, step):
        self._initial, self._step = initial, step

    def initial_parameters(self):
        return self._initial

    async def train(self, parameters, shards, options=None):
        num_samples = sum(shard.num_samples for shard in shards)
        await asyncio.sleep(num_samples / 200)
        moved = {kind: vector + self._step[kind] for kind, vector in parameters.items()}
        return Trained(moved, num_samples, num_samples / 200, is_halted=False)


class SteadyMachine(Machine):
    """Another machine, but for its trainer."""

    def __init__(self, other, trainer):
        self.meter, self._other, self._trainer = other.meter, other, trainer

    def trainer(self, task):
        return self._trainer

    def engine(self, operations_per_sample):
        raise NotImplementedError

    def background_load(self, fetch):
        return self._other.background_load(fetch)


class Choosy(SingleJob):
    """Refuses the updates of some rounds, and forgets a learner before another; keeps what is sent."""

    refused, forgotten_before = (), None

    async def update(self, session, round, parameters, num_samples):
        self.sent = [*getattr(self, "sent", []), (parameters, dict(self._training.round.validator.like))]
        if round in self.refused:
            self._training.round.give_up("a")
            return Receipt(is_accepted=False, reason="not today")
        return await super().update(session, round, parameters, num_samples)

    async def next_round(self, session, after, state):
        if after + 1 == self.forgotten_before:
            self.forgotten_before = None
            raise LookupError("who are you?")
        return await super().next_round(session, after, state)


def steady_run(refused=(), forgotten_before=None):
    """Return what each update of a learner that takes a constant step has of it, as sums with what was left out."""
    by_hand = ByHand("dab", Choosy, rounds=3, aggregation={"compression": "int4"})
    by_hand.orchestrator.refused, by_hand.orchestrator.forgotten_before = refused, forgotten_before
    step = {kind: noise(1, len(vector)) for kind, vector in by_hand.parameters.items()}

    async def main(orchestrator):
        async with node_of(orchestrator, JobPlan(by_hand.prepared), by_hand.events) as node:
            trainer = Steady(by_hand.parameters, step)
            await Learner(dataclasses.replace(node, machine=SteadyMachine(node.machine, trainer))).run()
        return orchestrator.sent

    compression = by_hand.prepared.compression
    arrived = [compression.decode(sent, start)["float32"] - start["float32"] for sent, start in by_hand.play(main)]
    return arrived, step["float32"], compression


def noise(seed, size=4480):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) / 10


def coded(compression, change):
    return compression.encode({"float32": change}, {"float32": torch.zeros(len(change))}).restored["float32"]


def near(one, other):
    return torch.allclose(one, other, atol=1e-5)


def test_what_is_left_out_is_in_the_next_update():
    (first, second, _), step, compression = steady_run()
    assert near(first, coded(compression, step))
    assert not near(second, first)
    assert near(second, coded(compression, 2 * step - first))


def test_a_refused_update_leaves_what_was_left_out_before():
    (first, second, third), step, compression = steady_run(refused=(2,))
    assert near(second, coded(compression, 2 * step - first))
    assert near(third, second)  # the change of round 2 is lost, as any that is refused; nothing counts twice


def test_whoever_joins_again_begins_afresh():
    (first, second, third), step, compression = steady_run(forgotten_before=2)
    assert near(second, first)
    assert near(third, coded(compression, 2 * step - second))


# What an orchestrator takes and refuses.


def with_scale(value):
    return {"float32.scales": torch.full((5,), value)}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (with_scale(float("nan")), "float32.scales of a change holds NaN or infinity"),
        (with_scale(1e30), "its training diverged: of its parameters, float32 holds values of"),
        ({"float32": torch.zeros(9, dtype=torch.int8)}, "float32 of a change is torch.int8 of shape (9,), not"),
        ({"more": torch.zeros(9)}, "float32, float32.scales are sent of a change, not float32, float32.scales, more"),
    ],
    ids=["NaN", "absurd", "shape", "more"],
)
def test_rubbish_is_refused_and_the_round_goes_on(changes, reason):
    by_hand = ByHand(rounds=1, aggregation={"compression": "int8"})
    start, compression = by_hand.parameters, by_hand.prepared.compression
    sent, restored = compression.encode({"float32": start["float32"] + noise(1)}, start)

    async def main(orchestrator):
        good, bad = await by_hand.take("good"), await by_hand.take("bad")
        receipt = await orchestrator.update(bad, 1, {**sent, **changes}, 64)
        assert not receipt.is_accepted
        assert receipt.reason.startswith(reason)
        assert (await orchestrator.update(good, 1, sent, 64)).is_accepted
        await asyncio.sleep(0.1)
        return orchestrator.outcome.state

    state = by_hand.play(main)
    assert torch.equal(by_hand.prepared.model.layout.pack(state)["float32"], restored["float32"])
    (end,) = closed(by_hand.events)
    assert end.num_updates == 1
    assert end.up_bytes > sum(vector.nbytes for vector in sent.values())  # what is refused was sent, too


@pytest.mark.parametrize(("late", "counts"), [("drop", False), ("discount", True)])
def test_a_late_change_is_one_from_the_parameters_of_its_own_round(late, counts):
    by_hand = ByHand(rounds=3, aggregation={"compression": "int8", "late": late, "staleness_exponent": 0.0})
    start, compression = by_hand.parameters, by_hand.prepared.compression
    first, second = (compression.encode({"float32": start["float32"] + noise(seed)}, start) for seed in (1, 2))

    async def main(orchestrator):
        a, b = await by_hand.take("a"), await by_hand.take("b")
        await orchestrator.update(a, 1, first.sent, 64)
        await asyncio.sleep(5)
        ticket = await orchestrator.next_round(a, 1, None)
        await orchestrator.take(a, ticket.round, 32)
        receipt = await orchestrator.update(b, 1, second.sent, 64)
        await asyncio.sleep(5)
        return receipt.is_accepted, by_hand.prepared.model.layout.pack(orchestrator.outcome.state)["float32"]

    is_accepted, reached = by_hand.play(main)
    moved = second.restored["float32"] - start["float32"] if counts else 0
    assert is_accepted == counts
    torch.testing.assert_close(reached, first.restored["float32"] + moved, rtol=1e-5, atol=1e-6)


def test_audits_of_compressed_updates_are_refused():
    with pytest.raises(ValueError, match='compression is "int8", but audit_rate is above 0: a compressed update holds'):
        small_job(audit_rate=0.1, aggregation={"compression": "int8"})


def test_an_offer_for_another_model_is_refused_by_the_learner():
    prepared = prepare_job(compressed("int8"))
    strange = dataclasses.replace(prepared, compression=Compression(method="int8", exact={"float32": ((4000, 9000),)}))
    told = []

    async def main():
        plan = JobPlan(strange)
        async with node_of(SingleJob(strange, Environment(clock="virtual")), plan, told) as node:
            await Learner(node).run()

    with pytest.raises(Exception, match="the model has other buffers at the orchestrator"):
        virtual_loop.run(main())


# Live.


async def live_run(job):
    plan, told = JobPlan(prepare_job(job)), []
    host, options = plan.host(Environment(emit=told.append)), DeviceOptions(max_shards=40)
    async with serving(host, plan, "host", port=0) as address:
        node = Node(name="a", contacts=[Contact(address)], machine=LiveMachine(), emit=told.append, options=options)
        running = asyncio.ensure_future(Learner(node).run())
        await host.run(address)
        await running
    return host.outcome, told


def test_the_same_over_http():
    job = small_job(rounds=3, deadline_seconds=30.0, aggregation={"compression": "top-k", "kept_share": 0.1})
    loop = loops.new_event_loop()
    try:
        outcome, told = loop.run_until_complete(live_run(job))
    finally:
        loops.shut_down(loop)
    assert outcome.metrics["rounds"] == 3
    assert outcome.metrics["accuracy"] > 0.3
    assert all(spent.is_accepted for spent in of(events.RoundSpent, told))
    assert {end.up_bytes for end in closed(told)} == {448 * 8}
