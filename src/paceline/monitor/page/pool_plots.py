"""The plotted parts of the page of a pool: where learners were, and how the jobs learn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from paceline.monitor.figures import LearnerRound, RoundSummary
from paceline.monitor.page.charts import TimeAxis
from paceline.monitor.page.frame import section
from paceline.monitor.page.gantt import MAX_BLOCKS, Block, Gantt, draw_gantt
from paceline.monitor.page.markup import Markup, element
from paceline.monitor.page.plots import MAX_LEARNERS, accuracy_chart
from paceline.monitor.pool_figures import JobSummary, PoolSummary, Stay
from paceline.monitor.wording import printable, say_count, say_seconds

_MAX_CHARTS = 12


def accuracy_charts(jobs: Sequence[JobSummary]) -> Markup | None:
    """The accuracy of the first jobs per round; None if no job was evaluated."""
    charts = [
        accuracy_chart(f"accuracy-{index}", f"Accuracy of {printable(job.name)}", job.summary.rounds)
        for index, job in enumerate(jobs[:_MAX_CHARTS], 1)
    ]
    return element("div", *charts, class_="two") if any(charts) else None


def lanes_section(summary: PoolSummary) -> Markup:
    """A lane per learner: in which job it was, and when it worked there."""
    shown = [account.learner for account in summary.accounts[:MAX_LEARNERS]]
    numbers = {job.name: number for number, job in enumerate(summary.jobs)}
    stays = [stay for stay in summary.stays if stay.learner in shown and stay.job in numbers]
    works = [(name, block) for name, block in _works(summary.jobs) if name in shown]
    notes = ["light: placed in a job; dark: from taking shards to its update; hatched: nothing of it counted"]
    if len(stays) + len(works) > MAX_BLOCKS:
        stays, works = _joined(stays), []
        notes = ["when it was placed in a job; there are too many rounds to show them"]
    if len(shown) < len(summary.accounts):
        notes.append(f"the first {len(shown)} of {len(summary.accounts):,} learners")
    lanes: dict[str, list[Block]] = {name: [] for name in shown}
    for name, block in [*((stay.learner, _stay(stay, numbers[stay.job])) for stay in stays), *works]:
        lanes[name].append(block)
    chart = Gantt(
        name="lanes",
        caption="Learners in jobs over time",
        note=", ".join(notes),
        description="Each row is a learner, coloured by the job it was in; the table of allocations says the same.",
        lanes=[(printable(name), blocks) for name, blocks in lanes.items()],
        jobs=[printable(job.name) for job in summary.jobs],
        axis=TimeAxis(summary.stays[0].start, max(stay.end for stay in summary.stays)),
    )
    moves = say_count(len(summary.moves), "move")
    about = f"From the first allocation on; {moves} of learners from one job to another."
    return section("Where learners were", draw_gantt(chart), about=about)


def _joined(stays: Sequence[Stay]) -> list[Stay]:
    """Stays in the same job one after the other as one, with the shards of the last."""
    joined: dict[str, list[Stay]] = {}
    for stay in stays:
        lane = joined.setdefault(stay.learner, [])
        if lane and (lane[-1].job, lane[-1].end) == (stay.job, stay.start):
            stay = msgspec.structs.replace(stay, start=lane.pop().start)
        lane.append(stay)
    return [stay for lane in joined.values() for stay in lane]


def _stay(stay: Stay, job: int) -> Block:
    where = f"{printable(stay.learner)} in {printable(stay.job)}: {say_count(stay.num_shards, 'shard')}"
    tip = f"{where}\n{say_seconds(stay.start)} to {say_seconds(stay.end)}"
    return Block(start=stay.start, end=stay.end, job=job, kind="stay", tip=tip)


def _works(jobs: Sequence[JobSummary]) -> Iterator[tuple[str, Block]]:
    for number, job in enumerate(jobs):
        closed = {one.round: one for one in job.summary.rounds}
        for learner in job.summary.learners:
            for work in learner.rounds:
                if work.round in closed:
                    about = f"{printable(learner.name)}, {printable(job.name)}, round {work.round}"
                    yield learner.name, _work(number, about, work, closed[work.round])


def _work(job: int, about: str, work: LearnerRound, closed: RoundSummary) -> Block:
    is_here = work.arrival_seconds is not None
    end = closed.opened_at + work.arrival_seconds if work.arrival_seconds is not None else closed.closed_at
    came = f"update after {say_seconds(end - closed.opened_at)}, {work.outcome}" if is_here else "no update came"
    samples = say_count(work.num_samples, "sample")
    return Block(
        start=closed.opened_at + work.start_seconds,
        end=end,
        job=job,
        kind="work" if work.outcome == "accepted" else "bad",
        tip=f"{about}: {say_count(work.num_shards, 'shard')}, {samples}\n{came}",
    )
