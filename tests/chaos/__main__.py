"""Plays thousands of schedules: ``python -m tests.chaos --seeds 10000``; or checks itself: ``--mutants``."""

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter

os.environ["OMP_NUM_THREADS"] = "1"

from tests.chaos import playing
from tests.chaos.mutants import MUTANTS, find
from tests.chaos.schedules import TOPOLOGIES, draw

_SHOWN_EVERY = 500
_SHOWN_CHARACTERS = 2000


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="number of schedules, over all topologies")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--topology", choices=TOPOLOGIES, help="of one topology only")
    parser.add_argument("--seed", type=int, help="play one seed of a topology again, and show its faults")
    parser.add_argument("--mutants", action="store_true", help="check that faults in the product are found")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many to use")
    options = parser.parse_args()
    topologies = [options.topology] if options.topology else list(TOPOLOGIES)
    if options.mutants:
        return _find_mutants(options.processes)
    if options.seed is not None:
        return max(_replay(topology, options.seed) for topology in topologies)
    return _play_many(topologies, options.first, options.seeds, options.processes)


def _replay(topology, seed):
    """Play one schedule, and of its faults show those without which it would not fail."""
    schedule = draw(topology, seed)
    result = playing.play(schedule)
    if result.failures:
        schedule = playing.shrink(schedule)
        result = playing.play(schedule)
    print(schedule)
    print(*result.failures or ["all is well"], sep="\n")
    return int(bool(result.failures))


def _play_many(topologies, first, num_seeds, num_processes):
    start, counts, played, failed = time.monotonic(), Counter(), Counter(), []
    seeds = itertools.islice(((name, seed) for seed in itertools.count(first) for name in topologies), num_seeds)
    with multiprocessing.get_context("spawn").Pool(num_processes) as pool:
        for number, result in enumerate(pool.imap_unordered(playing.play_one, seeds, chunksize=8), 1):
            counts.update(result.counts)
            played[result.topology] += 1
            if result.failures:
                failed.append(result)
                print(f"FAILED: {playing.replay_line(result.topology, result.seed)}")
                print("   ", result.failures[0][-_SHOWN_CHARACTERS:], flush=True)
            if number % _SHOWN_EVERY == 0:
                print(f"{number} schedules in {time.monotonic() - start:.0f} s, {len(failed)} failed", flush=True)
    print(f"{played.total()} schedules in {time.monotonic() - start:.0f} s, {len(failed)} failed")
    print("schedules:", ", ".join(f"{name} {count}" for name, count in sorted(played.items())))
    print("faults:", ", ".join(f"{kind} {count}" for kind, count in counts.most_common()))
    return int(bool(failed))


def _find_mutants(num_processes):
    missed = 0
    with multiprocessing.get_context("spawn").Pool(num_processes) as pool:
        for mutant, found in zip(MUTANTS, pool.imap(find, range(len(MUTANTS))), strict=True):
            missed += found is None
            text = (
                "NOT FOUND" if found is None else f"found by seed {found.seed} of {found.topology}: {_last_line(found)}"
            )
            print(f"{mutant.name}: {text}", flush=True)
    print(f"{len(MUTANTS) - missed} of {len(MUTANTS)} mutants were found")
    return int(missed > 0)


def _last_line(result):
    return result.failures[0].strip().splitlines()[-1][:150]


if __name__ == "__main__":
    sys.exit(main())
