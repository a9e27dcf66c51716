"""A pool that never was: two jobs at first, a third that comes later, and learners with their mishaps."""

from __future__ import annotations

from paceline.report import RunFolder
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.parallel.events import (
    JobEnded,
    JobsAllocated,
    JobSubmitted,
    LearnerPaid,
    PoolEnded,
    PoolStarted,
    RoundClosed,
    RoundOpened,
    RunEnded,
    RunStarted,
    ShardsTaken,
    UpdateAccepted,
    UpdateAudited,
)

SHARD_SAMPLES = 100
POOL = {
    "pool": {"min_learners": 2, "total_budget": 120.0, "patience_seconds": 10.0, "seed": 5},
    "allocation": {"policy": "med", "budget": 60.0, "min_shards": 1},
}
PRICES = {"pi": 0.5, "jetson": 1.0, "laptop": 1.25, "guest": 0.8}


def job_tables(name, rounds=2, deadline_seconds=20.0):
    return {"job": {"name": name, "rounds": rounds, "deadline_seconds": deadline_seconds, "seed": 1}}


def placed(at, placements, **more):
    """Learners are placed, at the prices of the fleet."""
    cost = sum(num_shards * PRICES[name] for name, (_, num_shards) in placements.items())
    return JobsAllocated(at=at, placements=placements, expected_seconds=30.0, bound=25.0, cost=cost, **more)


def submitted(at, job, rounds=2, deadline_seconds=20.0):
    return JobSubmitted(at=at, job=job, rounds=rounds, deadline_seconds=deadline_seconds, num_shards=20)


def play(job, number, at, shares, *, seconds=15.0, accuracy=0.9, cheats=(), missing=(), deadline_seconds=20.0):
    """A round of a job that opens then: its own events, and the lines of the ledger.

    Args:
        shares: shards by learner.
        missing: learners that never sent an update.
    """
    honest = {name: shards for name, shards in shares.items() if name not in {*cheats, *missing}}
    events = [RoundOpened(at=at, round=number, deadline_seconds=deadline_seconds, num_learners=len(shares))]
    for index, (name, shards) in enumerate(shares.items()):
        events.append(ShardsTaken(at=at + 1, round=number, learner=name, num_shards=shards, seconds=1.0))
        if name not in missing:
            came, samples = seconds - index, shards * SHARD_SAMPLES
            events.append(UpdateAccepted(at=at + came, round=number, learner=name, num_samples=samples, seconds=came))
    closed_at = at + seconds + 0.5
    for name in cheats:
        events.append(UpdateAudited(at=closed_at, round=number, learner=name, is_honest=False, distance=0.97))
    counts = {"num_learners": len(shares), "num_updates": len(honest), "num_shards": sum(shares.values())}
    result = {"occupancy": 0.75, "late": tuple(missing), "loss": 1 - accuracy, "metrics": {"accuracy": accuracy}}
    events.append(
        RoundClosed(
            at=closed_at,
            round=number,
            seconds=seconds,
            truancy=seconds / deadline_seconds - 1,
            num_samples=SHARD_SAMPLES * sum(honest.values()),
            fulfilment=sum(honest.values()) / sum(shares.values()),
            is_satisfied=len(honest) == len(shares) and seconds <= deadline_seconds,
            **counts,
            **result,
        )
    )
    ledger = []
    for name, shards in sorted(shares.items()):
        counted, price = honest.get(name, 0), PRICES[name]
        work = {"num_shards": shards, "num_samples": SHARD_SAMPLES * counted, "shards": float(counted)}
        paid = {"price": price, "amount": counted * price}
        ledger.append(LearnerPaid(at=closed_at, job=job, round=number, learner=name, **work, **paid))
    return events, ledger


def _run(job, at, played, ended_at, rounds):
    sizes = {"first_round": 1, "num_parameters": 1000, "num_shards": 20}
    started = RunStarted(
        at=at, job=job_tables(job, rounds), clock="virtual", metric_names=("accuracy",), **sizes, paceline="0.1.0"
    )
    ended = RunEnded(at=ended_at, reason="rounds done", rounds=len(played), loss=0.1, metrics={"accuracy": 0.9})
    return [started, *(event for events, _ in played for event in events), ended]


def pool_events():
    """The events of the pool, and by name those of its jobs, each in order of time.

    Learners come at 1 s. The jobs mnist and fashion play two rounds each from 5 s on, the latter without ever
    getting the update of jetson; guest cheats in the second of mnist and is excluded. Then a third job comes, for
    which pi moves over from mnist, and which plays one round from 45 s on.
    """
    first = {"pi": ("mnist", 12), "guest": ("mnist", 8), "jetson": ("fashion", 8), "laptop": ("fashion", 12)}
    later = {"pi": ("digits", 20), "laptop": ("digits", 4)}
    mnist = [
        play("mnist", 1, 5.0, {"pi": 12, "guest": 8}, accuracy=0.6),
        play("mnist", 2, 22.0, {"pi": 12, "guest": 8}, cheats=("guest",)),
    ]
    fashion = [
        play("fashion", number, at, {"jetson": 8, "laptop": 12}, seconds=20.0, missing=("jetson",))
        for number, at in ((1, 5.0), (2, 26.0))
    ]
    last = [play("digits", 1, 50.0, {"pi": 20, "laptop": 4}, seconds=10.0)]
    pool = [
        PoolStarted(at=0.0, pool=POOL, clock="virtual", paceline="0.1.0"),
        submitted(0.0, "mnist"),
        submitted(0.0, "fashion"),
        WaitingForLearners(at=0.0, round=0, num_ready=0, min_learners=2),
        *(LearnerJoined(at=1.0, learner=name) for name in ("pi", "guest", "jetson", "laptop")),
        placed(4.0, first),
        *(line for _, ledger in (*mnist, *fashion) for line in ledger),
        LearnerLeft(at=37.5, learner="guest", reason="excluded: it cheated"),
        JobEnded(at=37.6, job="mnist", reason="rounds done", rounds=2, loss=0.1, metrics={"accuracy": 0.9}),
        submitted(40.0, "digits", rounds=3),
        JobEnded(at=46.6, job="fashion", reason="rounds done", rounds=2, loss=0.1, metrics={"accuracy": 0.9}),
        placed(48.0, later, idle=("jetson",), waived=("min_shards",)),
        *last[0][1],
        JobEnded(at=60.7, job="digits", reason="budget spent", rounds=1, loss=0.1, metrics={"accuracy": 0.9}),
        PoolEnded(at=60.8, reason="all jobs are over", spent=sum(line.amount for line in _lines(mnist, fashion, last))),
    ]
    jobs = {
        "mnist": _run("mnist", 0.0, mnist, 37.6, rounds=2),
        "fashion": _run("fashion", 0.0, fashion, 46.6, rounds=2),
        "digits": _run("digits", 40.0, last, 60.7, rounds=3),
    }
    return sorted(pool, key=_at), {name: sorted(events, key=_at) for name, events in jobs.items()}


def _at(event):
    return event.at


def _lines(*played):
    return [line for rounds in played for _, ledger in rounds for line in ledger]


def record_pool(root):
    """Keep a pool and its jobs in a folder; gives it, closed."""
    events, jobs = pool_events()
    with RunFolder.create(root, "shelf", POOL) as folder:
        for event in events:
            folder.record(event)
        for job, recorded in jobs.items():
            run = folder.open_job(job, job_tables(job))
            for event in recorded:
                run.record(event)
    return folder
