"""Plays the schedules of seeds, shrinks those that fail, and says how to play them again."""

import logging
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.schedules import draw
from tests.chaos.worlds import World


@dataclass(frozen=True)
class Result:
    """What came of a schedule.

    Attributes:
        failures: what should not have been.
        counts: faults that took place, by kind.
    """

    topology: str
    seed: int
    failures: tuple[str, ...] = ()
    counts: Counter = field(default_factory=Counter)


def play(schedule):
    """Play a schedule in a folder of its own."""
    logging.getLogger("asyncio").disabled = True  # who crashes leaves tasks behind that nobody asks
    with tempfile.TemporaryDirectory() as folder:
        world = World(schedule, folder)
        try:
            world.play()
        except Exception:
            world.failures.append(traceback.format_exc())
    return Result(schedule.topology, schedule.seed, tuple(world.failures), world.counts)


def play_seed(topology, seed):
    """Play the schedule of a seed."""
    return play(draw(topology, seed))


def play_one(topology_and_seed):
    """Play the schedule of a seed, given as a pair."""
    return play_seed(*topology_and_seed)


def shrink(schedule):
    """Leave out every fault without which the schedule fails all the same."""
    for fault in schedule.faults:
        smaller = schedule.without(fault)
        if play(smaller).failures:
            schedule = smaller
    return schedule


def replay_line(topology, seed):
    """Return the command that plays a seed again."""
    return f"python -m tests.chaos --topology {topology} --seed {seed}"
