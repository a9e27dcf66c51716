"""Some of the schedules of `make chaos`, and whether its harness finds faults at all."""

import subprocess
import sys

import pytest

from tests.chaos import mutants, playing
from tests.chaos.schedules import ATTACKS, KINDS, TOPOLOGIES, Schedule, draw

FIRST_MUTANTS = ("stale parameters handed out", "mass lost", "budget check skipped")


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 100), marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_whatever_happens_what_must_be_true_is(topology, seeds):
    failed = [result for seed in seeds if (result := playing.play_seed(topology, seed)).failures]
    assert failed == [], [playing.replay_line(topology, result.seed) for result in failed]


def test_a_peer_joins_over_a_link_on_which_that_takes_longer_than_its_patience():
    """Each try was given up after the patience, and what was given up was still in the way of the next."""
    slow = {"samples_per_second": 30.0, "down_mbit": 0.05, "up_mbit": 0.05, "latency_ms": 100.0}
    rules = {**draw("push-sum", 568).rules, "min_peers": 2, "patience_seconds": 1.0}
    devices = ({"name": "a", **slow}, {"name": "b", **slow, "joins_at_seconds": 2.4})
    assert playing.play(Schedule("push-sum", 568, rules, devices, ())).failures == ()


def test_a_newcomer_tries_again_who_took_all_others_for_gone():
    """On links that are slower than their patience, after a crash that only one of two peers goes on from."""
    assert playing.play_seed("mixing", 5209).failures == ()


def test_a_device_that_was_held_up_while_it_measured_itself_tries_once_more():
    assert playing.play_seed("served", 628).failures == ()


def test_schedules_have_all_that_can_go_wrong():
    faults = [fault for seed in range(200) for fault in draw("served", seed).faults]
    assert {fault.kind for fault in faults} == {*KINDS, "lose power"}
    assert {fault.on for fault in faults if fault.kind == "attack"} == set(ATTACKS)


def test_a_seed_gives_the_same_schedule_and_what_fails_is_shrunk():
    assert draw("split", 7) == draw("split", 7)
    with mutant_in_place("stale parameters handed out"):
        schedule = playing.shrink(draw("served", 0))
        assert playing.play(schedule).failures
    assert schedule.faults == ()  # none is needed for this one


def mutant_in_place(name):
    return next(mutant for mutant in mutants.MUTANTS if mutant.name == name).in_place()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=mutant.name, marks=() if mutant.name in FIRST_MUTANTS else pytest.mark.long)
        for number, mutant in enumerate(mutants.MUTANTS)
    ],
)
def test_mutants_are_found(number):
    assert mutants.find(number) is not None


def test_a_failing_seed_can_be_played_again_by_one_line():
    command = playing.replay_line("push-sum", 3).split()
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("push-sum, seed 3: ")
    assert done.stdout.endswith("all is well\n")
