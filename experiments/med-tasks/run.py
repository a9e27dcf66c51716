"""Five measures of one to four jobs that share ten learners, by scheme; on virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papers.med.measures import Averages, checks, med_above
from papers.med.playing import Case, time_rows
from papers.med.setting import MAX_DEVICES, SCHEMES, Size, devices_of, jobs_of
from reproduction import About, Row

ABOUT = About(
    figure="Mays, Fig. 4.6 to 4.10",
    claim="With more jobs, rounds take longer until learners halt; MED is between the schemes that know more or less.",
    duration="half an hour",
    num_seeds=40,
    num_quick_seeds=2,
)
JOBS, QUICK_JOBS = (1, 2, 3, 4), (1, 2)
BUDGET, MORE_SECONDS = 200.0, 5.0
TIME, QUICK = Size(num_test_samples=100), Size(rounds=2, scale=50, num_test_samples=100)
QUICK_DEVICES = 5
# As in med-learners: where the thesis does not tell the place of its largest differences, a NumPy model did.
DIFFERENCES = (
    *med_above("mmtt-ideal", seconds=1, satisfaction=4, fulfilment=3, occupancy=1),
    *med_above("mmtt-uncertain", seconds=1, satisfaction=4, fulfilment=3, occupancy=1),
    *((column, "med-held-back", "med", 4) for column in ("satisfaction", "fulfilment")),
)
TRENDS = ("seconds", "satisfaction", "fulfilment", "occupancy")
LEVELS = (
    *((scheme, "seconds", size) for size in JOBS for scheme in SCHEMES),
    *((scheme, "satisfaction", 4) for scheme in SCHEMES),
    ("mmtt-ideal", "fulfilment", 3),
    ("med", "drop", 3),
    *((scheme, "drop", 4) for scheme in SCHEMES),
    *((scheme, "occupancy", 4) for scheme in SCHEMES),
)


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per number of jobs, scheme and job."""
    size = QUICK if is_quick else TIME
    devices = devices_of(seed, QUICK_DEVICES if is_quick else MAX_DEVICES, size)
    for count in QUICK_JOBS if is_quick else JOBS:
        jobs = jobs_of(QUICK_JOBS[-1] if is_quick else JOBS[-1], size, more_seconds=MORE_SECONDS)[:count]
        for row in time_rows(Case(jobs, devices, BUDGET, seed)):
            yield {"jobs": count, **row}


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the thesis' text says of the figures, and the same of ours."""
    averages = Averages(rows, "jobs")
    return {
        **averages.levels(LEVELS),
        **averages.differences(DIFFERENCES),
        **averages.trends(TRENDS, JOBS[0], JOBS[-1]),
        **averages.goals(),
        **checks(rows),
    }
