"""Training that diverges: one device costs the others nothing; if all do, the run stops and says why."""

import asyncio

import pytest
import torch

from paceline.errors import DivergedError
from paceline.fleets import virtual_loop
from paceline.learning.optimizers import OptimizerSpec
from paceline.topologies.parallel.events import JobEnded, RoundSpent, RunEnded, UpdateRefused
from tests.topologies.parallel.runs import ByHand, PoolRun, closed, device, of, paid_fleet, play, play_pool, small_job

WILD = OptimizerSpec(name="SGD", options={"lr": 1e6})
RUINED = "parameters hold NaN or infinity"


@pytest.mark.parametrize("policy", ["dab", "csa"])
def test_a_run_that_diverges_stops_and_names_the_devices(policy):
    events = []
    with pytest.raises(DivergedError, match=f"training diverged in round 1 on fast, slow: {RUINED}; try a lower"):
        play(
            small_job(policy, optimizer=WILD, min_learners=2, deadline_seconds=60.0),
            [device("fast", 300), device("slow", 200)],
            emit=events.append,
        )
    assert [event.reason for event in of(UpdateRefused, events)] == [f"its training diverged: {RUINED}"] * 2
    assert {(event.diverged, event.upload_seconds) for event in of(RoundSpent, events)} == {(RUINED, None)}
    assert not closed(events)
    (ended,) = of(RunEnded, events)
    assert (ended.reason, ended.rounds) == ("diverged", 0)
    assert ended.at < 60  # nobody waits for the deadline


def test_one_device_that_diverges_costs_the_others_nothing():
    by_hand = ByHand(rounds=1)

    async def main(orchestrator):
        good, bad = await by_hand.take("good"), await by_hand.take("bad")
        await orchestrator.report_divergence(bad, 1, RUINED)
        await orchestrator.report_divergence(bad, 7, "of another round")
        assert (await orchestrator.update(good, 1, by_hand.parameters, 64)).is_accepted
        await asyncio.sleep(0.1)

    by_hand.play(main)
    (end,) = closed(by_hand.events)
    assert (end.num_updates, end.late, end.seconds) == (1, (), 0.0)
    assert [event.reason for event in of(UpdateRefused, by_hand.events)] == [f"its training diverged: {RUINED}"]


def test_nobody_can_stop_a_run_whose_other_devices_are_late():
    by_hand = ByHand(rounds=2)

    async def main(orchestrator):
        bad, _ = await by_hand.take("bad"), await by_hand.take("late")
        assert orchestrator.device_states() == {"measuring": 0, "ready": 2, "silent": 0}
        await orchestrator.report_divergence(bad, 1, RUINED)
        await asyncio.sleep(5)
        assert orchestrator.status()["jobs"][0]["num_closed"] == 1
        assert orchestrator.device_states()["silent"] >= 1

    by_hand.play(main)
    (end,) = closed(by_hand.events)
    assert (end.num_updates, end.late) == (0, ("late",))


def test_a_model_whose_loss_explodes_is_not_kept():
    by_hand = ByHand(rounds=3)

    async def main():
        running = asyncio.ensure_future(by_hand.orchestrator.run(""))
        session = await by_hand.take("a")
        huge = {kind: vector * 1e5 for kind, vector in by_hand.parameters.items()}
        assert (await by_hand.orchestrator.update(session, 1, huge, 64)).is_accepted
        ticket = asyncio.ensure_future(by_hand.orchestrator.next_round(session, 1, None))
        with pytest.raises(DivergedError, match=r"in round 1 on a: the loss of the averaged model is \S+e\+\d+; try"):
            await running
        assert "training diverged in round 1 on a" in (await ticket).reason

    virtual_loop.run(main())
    state = by_hand.orchestrator.current_state()
    assert all(torch.equal(state[name], tensor) for name, tensor in by_hand.prepared.state.items())
    assert not closed(by_hand.events)


def test_a_job_of_a_pool_that_diverges_leaves_the_others_alone():
    run = PoolRun()
    with pytest.raises(DivergedError, match="^wild: training diverged in round 1 on d.*try a lower learning rate"):
        play_pool(
            {"calm": {"rounds": 2}, "wild": {"rounds": 2, "optimizer": WILD}},
            paid_fleet(4),
            is_time_only=False,
            run=run,
        )
    ended = {event.job: (event.reason, event.rounds) for event in run.of(JobEnded)}
    assert ended == {"calm": ("rounds done", 2), "wild": ("diverged", 0)}
