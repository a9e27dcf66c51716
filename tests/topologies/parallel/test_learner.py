"""A learner beside an orchestrator that lies, or whose answers are long on their way."""

import asyncio
import math
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from paceline.allocation import Allocation
from paceline.errors import ConfigError, PacelineError
from paceline.fleets import virtual_loop
from paceline.topologies.base import Environment, run_in_place
from paceline.topologies.parallel.events import DeviceMeasured, RoundSpent, ShardsTaken
from paceline.topologies.parallel.learner import Learner
from paceline.topologies.parallel.messages import Declaration, Ticket, Work
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.single_job import SingleJob
from paceline.topologies.parallel.topology import JobPlan
from tests.topologies.parallel.runs import ByHand, closed, device, node_of, of, play, small_job


class Liar(SingleJob):
    """Answers with the next of its tickets, and changes the work that it hands out."""

    def __init__(self, prepared, tickets, change):
        super().__init__(prepared, Environment(clock="virtual", run_blocking=run_in_place))
        self._tickets, self._change = iter(tickets), change
        self.declared = []

    async def declare(self, session: str, declaration: Declaration) -> None:
        self.declared.append((declaration.max_shards, declaration.profile))

    async def next_round(self, session: str, after: int, state: str | None) -> Ticket:
        ticket = next(self._tickets)
        if isinstance(ticket, Exception):
            raise ticket
        return ticket

    async def take(self, session: str, round: int, num_shards: int, num_samples: int | None = None) -> Work:
        parameters = self._prepared.model.parameters()
        shards = self._prepared.shards(list(range(num_shards)))
        return self._change(Work(parameters=parameters, shards=shards, seconds_left=3.0))


OVER = Ticket(status="over", reason="enough")


def open_round(number=1, seconds_left=3.0, num_shards=1):
    return Ticket(status="open", round=number, seconds_left=seconds_left, allocation=Allocation(num_shards, 1))


def believe(tickets, change=lambda work: work, policy="dab", **options):
    """Run a learner beside a liar; returns how it ended, its events, and the liar. Raises what the learner raises."""
    prepared, events = prepare_job(small_job(policy)), []

    async def main():
        liar = Liar(prepared, tickets, change)
        async with node_of(liar, JobPlan(prepared), events, **options) as node:
            return await Learner(node).run(), liar

    finished, liar = virtual_loop.run(main())
    return finished, events, liar


def changed(change):
    return lambda work: msgspec.structs.replace(work, parameters=change(dict(work.parameters)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed(lambda given: {"float32": given["float32"][:-1]}), "do not fit the model: float32"),
        (lambda work: msgspec.structs.replace(work, shards=[]), "no shards to train on"),
        (
            lambda work: msgspec.structs.replace(work, shards=[(x, y + np.uint8(99)) for x, y in work.shards]),
            "a shard has values from 99 to 108",
        ),
    ],
)
def test_work_that_is_none_ends_a_learner_with_one_line(change, reason):
    with pytest.raises(PacelineError, match=reason) as raised:
        believe([open_round()], change)
    assert "\n" not in str(raised.value)


def test_rounds_that_do_not_go_on_end_a_learner():
    with pytest.raises(PacelineError, match="opened round 1 after round 1"):
        believe([open_round(), open_round()])


def test_whoever_joins_again_declares_again():
    finished, _, liar = believe([LookupError("not known here"), OVER], policy="eta", max_shards=3)
    assert finished.reason == "enough"
    assert liar.declared == [(3, None), (3, None)]


@pytest.mark.parametrize(("of_ticket", "of_work"), [(2.0, 1.0), (1.0, 2.0)])
def test_the_earlier_of_two_deadlines_counts(of_ticket, of_work):
    """The work says how much time is left once more, as the ticket may have been long on its way."""
    _, events, _ = believe(
        [open_round(seconds_left=of_ticket, num_shards=20), OVER],  # 640 samples, at 200 per second
        lambda work: msgspec.structs.replace(work, seconds_left=of_work),
    )
    [spent] = of(RoundSpent, events)
    assert spent.is_halted
    assert 0.5 < spent.train_seconds < 1.0


class Slow(SingleJob):
    """Answers that are long on their way."""

    ticket_seconds = work_seconds = 0.0

    async def next_round(self, session: str, after: int, state: str | None) -> Ticket:
        ticket = await super().next_round(session, after, state)
        await asyncio.sleep(self.ticket_seconds)
        return ticket

    async def take(self, session: str, round: int, num_shards: int, num_samples: int | None = None) -> Work:
        work = await super().take(session, round, num_shards, num_samples)
        await asyncio.sleep(self.work_seconds)
        return work


@pytest.mark.parametrize("delayed", ["ticket_seconds", "work_seconds"])
def test_answers_that_are_long_on_their_way_do_not_make_a_learner_late(delayed):
    by_hand = ByHand("eta", Slow, rounds=1)  # 1438 samples, at 200 per second, in 4 s
    setattr(by_hand.orchestrator, delayed, 1.5)

    async def main(orchestrator):
        async with node_of(orchestrator, JobPlan(by_hand.prepared), by_hand.events) as node:
            await Learner(node).run()

    by_hand.play(main)
    [spent], [end] = of(RoundSpent, by_hand.events), closed(by_hand.events)
    assert spent.is_halted
    assert spent.is_accepted
    assert (end.num_updates, end.late) == (1, ())


@pytest.mark.parametrize("policy", ["dab", "adaptive-dab"])
def test_a_deadline_that_is_too_short_is_named_with_the_least_that_works(policy):
    fleet = [device("slower", 50), device("slow", 100)]
    with pytest.raises(PacelineError) as raised:
        play(small_job(policy, deadline_seconds=0.01), fleet)
    found = re.search(
        r"slow cannot train one shard of 32 samples within 0.01 s: use a longer deadline \(least that "
        r"works: (\S+) s\), smaller shards or fewer local epochs",
        str(raised.value),
    )
    _, events = play(small_job(policy, deadline_seconds=float(found[1])), fleet[1:])
    assert all(event.num_samples for event in closed(events))


@pytest.mark.parametrize("policy", ["dab", "adaptive-dab"])
def test_a_device_that_seems_too_slow_is_measured_again_before_it_leaves(policy):
    """The host or the link may have stood still while it was measured."""

    async def hold_up(fleet):
        while (link := fleet.link("a")) is None:
            await asyncio.sleep(0.01)
        link.bandwidth *= 1e-3
        await asyncio.sleep(10.0)
        link.bandwidth /= 1e-3

    for script, num_measured in ((None, 1), (hold_up, 2)):
        _, events = play(small_job(policy, rounds=3), [device("a")], script=script)
        assert len(of(DeviceMeasured, events)) == num_measured
        assert sum(event.num_updates for event in closed(events)) >= 2


OWN_POLICY = {"policy": f"{Path(__file__).parents[2]}/allocation/own_policies.py:PartOfDab", "part": 0.25}


def test_a_policy_of_a_users_own_decides():
    own, whole = (of(ShardsTaken, play(small_job(policy), [device("a")])[1]) for policy in (OWN_POLICY, "dab"))
    assert own[0].num_shards == math.ceil(whole[0].num_shards / 4)


def test_a_policy_is_imported_where_the_device_allows_it():
    path = OWN_POLICY["policy"]
    assert JobPlan(prepare_job(small_job(OWN_POLICY))).import_paths == (path,)
    finished, *_ = believe([OVER], policy=OWN_POLICY, allowed=[path])
    assert finished.reason == "enough"
    with pytest.raises(ConfigError, match="is not allowed on this device; to allow it, pass --allow"):
        believe([OVER], policy=OWN_POLICY, allowed=[])


def test_work_has_the_bytes_of_all_columns_whatever_their_number():
    shards = [[np.zeros((2, 3), np.float32)], [np.zeros(2, np.int64), np.zeros(2, np.uint8), np.zeros(2, np.int64)]]
    assert Work(parameters={}, shards=shards).num_bytes == 24 + 34
