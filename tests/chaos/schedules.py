"""Schedules: a small job, its devices, and the faults that befall them, all drawn from a seed."""

import dataclasses
import math
import random
from dataclasses import dataclass
from typing import Any

from paceline.fleets.base import HOST

TOPOLOGIES = ("served", "federated", "pool", "mixing", "push-sum", "split")

HORIZON_SECONDS = 30.0  # in which faults begin


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        at: when, in seconds of the run.
        on: device, or the host; for hostile callers, what they try.
        seconds: how long, or after how long it is over; infinite if never.
        amount: how much; of `crash`, after how many changes to the disk.
        seed: seed of what is drawn while it lasts.
    """

    at: float
    kind: str
    on: str = ""
    seconds: float = 0.0
    amount: float = 0.0
    seed: int = 0

    def __str__(self):
        more = f" {self.amount:g}" if self.amount else ""
        return f"{self.at:7.3f} s  {self.kind}{more} {self.on} for {self.seconds:.3g} s (seed {self.seed})"


@dataclass(frozen=True)
class Schedule:
    """What happens in one run.

    Attributes:
        rules: fields of the job.
        devices: fields of its devices.
    """

    topology: str
    seed: int
    rules: dict[str, Any]
    devices: tuple[dict[str, Any], ...]
    faults: tuple[Fault, ...]

    def without(self, fault):
        """Return the same schedule with one fault fewer."""
        return dataclasses.replace(self, faults=tuple(one for one in self.faults if one is not fault))

    def of(self, *kinds):
        """Return the faults of some kinds."""
        return [fault for fault in self.faults if fault.kind in kinds]

    def __str__(self):
        devices = "\n".join(f"  device {device}" for device in self.devices)
        faults = "\n".join(f"  {fault}" for fault in self.faults)
        return f"{self.topology}, seed {self.seed}: {self.rules}\n{devices}\n{faults}"


# Faults of links last a while and then are over; so are those of disks, for good only if the run is to end.


def _of_link(rng, names, kind, most_seconds, amount=0.0):
    return Fault(rng.uniform(0, HORIZON_SECONDS), kind, rng.choice(names), rng.uniform(0.1, most_seconds), amount)


def _kill(rng, names):
    is_back = rng.random() < 0.8
    return Fault(rng.uniform(0, HORIZON_SECONDS), "kill", rng.choice(names), rng.uniform(0, 8) if is_back else math.inf)


def _crash(rng, names):
    # The more changes it may take, the likelier it is in the middle of something.
    kind = rng.choice(("crash", "lose power"))
    return Fault(rng.uniform(0, HORIZON_SECONDS), kind, HOST, amount=rng.randint(1, 30), seed=rng.randrange(1 << 30))


def _attack(rng, names):
    return Fault(rng.uniform(0, HORIZON_SECONDS), "attack", rng.choice(ATTACKS), seed=rng.randrange(1 << 30))


ATTACKS = ("wrong sessions", "bad updates", "repeats", "flood", "garbage", "takeover")

_MAKERS = {
    "kill": _kill,
    "cut": lambda rng, names: _of_link(rng, [*names, HOST], "cut", 10),
    "slow link": lambda rng, names: _of_link(rng, names, "slow link", 10, rng.choice((0.5, 0.1, 0.01))),
    "lose": lambda rng, names: _of_link(rng, names, "lose", 10, rng.choice((0.1, 0.3, 0.6))),
    "repeat": lambda rng, names: _of_link(rng, names, "repeat", 15, rng.choice((0.2, 1.0))),
    "delay": lambda rng, names: _of_link(rng, names, "delay", 15, rng.choice((0.2, 1.0))),
    "jump": lambda rng, names: _of_link(rng, [HOST], "jump", 5),
    "skew": lambda rng, names: _of_link(rng, names, "skew", 20, rng.choice((-3600.0, -0.5, 0.3, 2.0))),
    "slow disk": lambda rng, names: _of_link(rng, [HOST], "slow disk", 5, rng.choice((0.01, 0.1))),
    "full disk": lambda rng, names: _of_link(rng, [HOST], "full disk", 20),
    "crash": _crash,
    "attack": _attack,
}
KINDS = tuple(_MAKERS)


def draw(topology, seed):
    """Draw the schedule of a seed."""
    rng = random.Random(f"{topology}/{seed}")
    names = "abcd"[: rng.randint(2, 4)]
    kinds = rng.sample(KINDS, rng.randint(1, 5))
    drawn = [_MAKERS[kind](rng, names) for kind in kinds for _ in range(rng.choice((1, 1, 2, 3)))]
    faults = list(_survivable(drawn, names))
    rules = _RULES[topology](rng, len(names))
    if "sources" in rules:
        # A trunk that crashes before anything is kept begins anew, and waits for as many sources as it did at first.
        gone = {fault.on for fault in faults if fault.kind == "kill" and fault.seconds == math.inf}
        rules["sources"] = min(rules["sources"], len(names) - len(gone))
    return Schedule(
        topology=topology,
        seed=seed,
        rules=rules,
        devices=tuple(_device(rng, name, topology) for name in names),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )


def _survivable(faults, names):
    """Leave the first device alive in the end: a run without anybody has nothing to show."""
    for fault in faults:
        is_last = fault.kind == "kill" and fault.seconds == math.inf and fault.on in names[:2]
        yield dataclasses.replace(fault, seconds=5.0) if is_last else fault


def _device(rng, name, topology):
    device = {
        "name": name,
        "samples_per_second": rng.choice((30.0, 60.0, 200.0)),
        "down_mbit": rng.choice((0.05, 1.0, 20.0)),
        "up_mbit": rng.choice((0.05, 1.0, 20.0)),
        "latency_ms": rng.choice((1.0, 20.0, 100.0)),
        "speed_noise": rng.choice((0.0, 0.2)),
        "link_noise": rng.choice((0.0, 0.2)),
    }
    if topology == "pool":
        device["price"] = rng.choice((0.5, 1.0, 1.5))
    if rng.random() < 0.2 and name != "a":
        device["joins_at_seconds"] = rng.uniform(0, 10)
    return device


# Jobs. Rounds last some seconds, and all of them about as long as faults may begin.


def _common(rng):
    return {"seed": rng.randrange(1000), "batch_size": 16, "optimizer": {"name": "SGD", "lr": 0.05}}


def _parallel_rules(rng, num_devices):
    rules = {
        "rounds": rng.randint(3, 6),
        "deadline_seconds": rng.choice((3.0, 6.0)),
        "local_epochs": rng.choice((1, 2)),
        "min_learners": rng.choice((1, 2)),
        "overtime": rng.choice((0.0, 0.0, 0.3)),
        "benchmark_shards": 2,
        "aggregation": {
            "method": rng.choice(("fedavg", "fedavg", "fedavgm")),
            "late": rng.choice(("drop", "discount")),
            "weight": rng.choice(("work", "work", "samples", "equal")),
        },
        **_common(rng),
    }
    if rng.random() < 0.2:
        rules["learners_per_round"] = max(rules["min_learners"], num_devices - 1)
    return rules


def _served_rules(rng, num_devices):
    rules = {**_parallel_rules(rng, num_devices), "policy": rng.choice(("dab", "adaptive-dab", "csa"))}
    if rng.random() < 0.3:
        rules["audit_rate"] = rng.choice((0.3, 1.0))
    return rules


def _federated_rules(rng, num_devices):
    return {**_parallel_rules(rng, num_devices), "policy": "adaptive-dab", "placement": "local"}


def _pool_rules(rng, num_devices):
    return {
        "min_learners": rng.choice((1, 2)),
        "total_budget": rng.choice((None, 30.0, 90.0)),
        "held_back": rng.choice((0.0, 0.5)),
        "jobs": {
            name: {"rounds": rng.randint(1, 3), "deadline_seconds": rng.choice((8.0, 20.0)), **_common(rng)}
            for name in ("one", "two")[: rng.randint(1, 2)]
        },
    }


def _gossip_rules(rng, num_devices):
    return {
        "epochs": rng.randint(2, 5),
        "min_peers": 2,
        "probe_seconds": rng.choice((1.0, 3.0)),
        "patience_seconds": rng.choice((1.0, 3.0)),
        "evaluate_samples": 0,
        **_common(rng),
    }


def _mixing_rules(rng, num_devices):
    return {
        **_gossip_rules(rng, num_devices),
        "graph": rng.choice(("ring", "full")),
        "overlaps": rng.random() < 0.3,
        "compression": rng.choice(("none", "none", "int8")),
    }


def _push_sum_rules(rng, num_devices):
    return {**_gossip_rules(rng, num_devices), "exchange": "push-sum", "push_probability": rng.choice((0.1, 0.5))}


def _split_rules(rng, num_devices):
    return {
        "scheme": rng.choice(("fpl", "fpl", "split-learning", "gfl", "images")),
        "epochs": rng.randint(2, 4),
        "sources": rng.randint(1, num_devices),
        "depth": rng.choice((1, 2)),
        "patience_seconds": rng.choice((1.0, 3.0)),
        "backup_epochs": rng.choice((0, 1)),
        **_common(rng),
    }


_RULES = {
    "served": _served_rules,
    "federated": _federated_rules,
    "pool": _pool_rules,
    "mixing": _mixing_rules,
    "push-sum": _push_sum_rules,
    "split": _split_rules,
}
