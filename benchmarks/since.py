"""Times this state of Paceline beside an earlier one: `python benchmarks/since.py --revision 84009a0` (ten minutes).

Each runs its own benchmarks in fresh processes, interleaved: live and virtual rounds without training, virtual ones
with a gradient step, and the import of a learner.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import commandline
from model_sizes import SIZES
from repeats import Case, MeasurementFailed, Measurements
from report import Page, page_of_medians
from targets import Target

REPOSITORY = Path(__file__).parents[1]
SECONDS, CPU_SECONDS, PEAK = "seconds", "cpu_seconds", "peak_mb"
_LIVE = (
    "import own_rounds; play = lambda n: own_rounds.measure_rounds(widths={widths}, num_learners=4, num_rounds=n)[0]"
)
_VIRTUAL = (
    "import own_simulate; play = lambda n: own_simulate.measure_virtual_rounds("
    "widths={widths}, num_learners=20, num_rounds=n, work={work!r})"
)
_ROUNDS = """
import json, resource

def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

{play}
start = cpu_seconds()
play(2)  # what a run takes besides its rounds
between = cpu_seconds()
took = play({rounds})
cpu = (cpu_seconds() - between) - (between - start)
print(json.dumps(dict(seconds=sum(took[2:]) / len(took[2:]), cpu_seconds=cpu / len(took[2:]))))
"""
_IMPORT = """
import json, resource, time
start = time.perf_counter()
import paceline.topologies.parallel.learner
seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps(dict(seconds=seconds, cpu_seconds=used.ru_utime + used.ru_stime, peak_mb=used.ru_maxrss / 1e3)))
"""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is measured."""

    rounds: int = 600
    large_rounds: int = 20
    num_repeats: int = 5


QUICK = Settings(rounds=10, large_rounds=4, num_repeats=1)
"""A size for tests: shows that all of it runs, says little about speed."""


def probes(settings: Settings) -> dict[str, str]:
    """What is run, by name."""
    small, large = SIZES["40k"], SIZES["10M"]
    many, few = settings.rounds, settings.large_rounds
    return {
        "live 40k": _ROUNDS.format(play=_LIVE.format(widths=small), rounds=many),
        "live 10M": _ROUNDS.format(play=_LIVE.format(widths=large), rounds=few),
        "virtual 40k, no training": _ROUNDS.format(play=_VIRTUAL.format(widths=small, work="none"), rounds=many),
        "virtual 40k, gradient step": _ROUNDS.format(play=_VIRTUAL.format(widths=small, work="gradient"), rounds=many),
        "import of a learner": _IMPORT,
    }


def case_of(tree: Path, code: str) -> Case:
    """One probe in one state."""

    def case(repeat: int) -> dict[str, float]:
        command = [sys.executable, "-c", code]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=tree / "benchmarks", env=environment, capture_output=True, text=True, timeout=600
        )
        if done.returncode:
            raise MeasurementFailed(done.stderr.strip().rpartition("\n")[2])
        figures: dict[str, float] = json.loads(done.stdout)
        return figures

    return case


@contextlib.contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """Check a revision out beside this one, for as long as the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "-C", REPOSITORY, "worktree", "add", "--quiet", "--detach", tree, revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "-C", REPOSITORY, "worktree", "remove", "--force", tree], check=True)


def measure_since(revision: str) -> commandline.Measure:
    """Measure both states, by probe, so that what is compared is measured close together."""

    def measure(systems: Sequence[str], settings: Settings, progress: Callable[[str], None]) -> Measurements:
        with checked_out(revision) as earlier:
            trees = {"before": earlier, "now": REPOSITORY}
            return commandline.interleaved(
                lambda chosen, settings: {
                    f"{name}, {state}": case_of(tree, code)
                    for name, code in probes(settings).items()
                    if name in chosen
                    for state, tree in trees.items()
                }
            )(systems, settings, progress)

    return measure


def targets_of(settings: Settings) -> list[Target]:
    """No slower than before, give or take what repeats differ by."""
    return [
        Target(f"{name}: {metric}, now / before", f"{name}, now", (metric,), (f"{name}, before",), 1.03, True)
        for name in probes(settings)
        for metric in (SECONDS, CPU_SECONDS)
    ]


def page_of(measurements: Measurements) -> Page:
    """The table."""
    return page_of_medians(
        measurements,
        setting="one machine, the same packages for both",
        system="What, state",
        columns={SECONDS: "s (per round)", CPU_SECONDS: "CPU s (per round)", PEAK: "peak MB of a process"},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--revision", default="HEAD")
    given, sys.argv[1:] = parser.parse_known_args()
    command = commandline.Command("since", __doc__, probes(QUICK), ("paceline", "torch"))
    command.run((Settings(), QUICK), measure_since(given.revision), page_of, targets_of)
