"""Loss and accuracy after each global update on two clusters, by policy; on virtual time, with real training."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from paceline import Job, VirtualDevice, allocation, config
from paceline.learning.datasets import DataSpec, Normalisation
from paceline.learning.models import ModelSpec
from paceline.learning.tasks import OptimizerSpec
from paceline.reproduction import About, Row
from paceline.reproduction.rows import where
from paceline.reproduction.trials import assess, simulate, write_part
from paceline.topologies.parallel.events import RoundClosed

ABOUT = About(
    figure="Mays et al., Fig. 2 and 3",
    claim="On two devices DAB comes close to CSA; on four it is ahead at first, and behind in the end.",
    duration="25 minutes",
    num_seeds=5,
    num_quick_seeds=1,
)
TESTBED = Path(__file__).parents[2] / "examples" / "testbed"
CLUSTERS = {"two": "pi1-jetson.toml", "four": "pi1-pi2-pi3-jetson.toml"}
SPEEDUP = 3  # of the devices in these files, so that a testbed need not emulate slow ones
SPEED_NOISE, LINK_NOISE = 0.1, 0.2
DEADLINE_SECONDS, UPDATES, BATCH_SIZE = 15.0, 5, 32
FROM_0_TO_1 = Normalisation(scale=1 / 255, mean=(0.0,), std=(1.0,))  # as the authors feed their models
MNIST = DataSpec(name="mnist", shard_size=500)
QUICK_UPDATES, QUICK_SAMPLES, QUICK_PART = 2, 3_000, 20  # fewer samples, in as much less time
# The paper's system waits for all learners. Ours closes a round at its deadline; learners halt in time for it.
OVERTIME = {"dab": 1.0, "csa": 1.0, "adaptive-dab": 0.0}


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """A row per cluster, policy and update; update 0 is the untrained model."""
    with tempfile.TemporaryDirectory() as folder:
        data = write_part(MNIST, Path(folder) / "part.npz", num_samples=QUICK_SAMPLES) if is_quick else MNIST
        for cluster, file in CLUSTERS.items():
            devices = [_as_in_the_paper(device) for device in config.load_fleet(TESTBED / file)]
            for policy in OVERTIME:
                job = _job(policy, data, num_devices=len(devices), seed=seed, is_quick=is_quick)
                trial = simulate(job, devices, normalisation=FROM_0_TO_1)
                worths = assess(job, trial.states, normalisation=FROM_0_TO_1)
                closed = [None, *trial.told(RoundClosed)]
                for update, (worth, told) in enumerate(zip(worths, closed, strict=True)):
                    yield {
                        "cluster": cluster,
                        "policy": policy,
                        "update": update,
                        "loss": round(worth.loss, 5),
                        "accuracy": round(100 * worth.confidence, 3),  # as the authors compute it
                        "right": round(100 * worth.accuracy, 3),
                        "shards": told and told.num_shards,
                        "samples": told and told.num_samples,
                        "staleness": told and told.staleness,
                        "truancy": told and round(100 * told.truancy, 3),
                        "late": told and len(told.late),
                    }


def _as_in_the_paper(device: VirtualDevice) -> VirtualDevice:
    return msgspec.structs.replace(
        device,
        samples_per_second=device.samples_per_second / SPEEDUP,
        down_mbit=device.down_mbit / SPEEDUP,
        up_mbit=device.up_mbit / SPEEDUP,
        speed_noise=SPEED_NOISE,
        link_noise=LINK_NOISE,
    )


def _job(policy: str, data: DataSpec, *, num_devices: int, seed: int, is_quick: bool) -> Job:
    return Job(
        deadline_seconds=DEADLINE_SECONDS / (QUICK_PART if is_quick else 1),
        overtime=OVERTIME[policy],
        rounds=QUICK_UPDATES if is_quick else UPDATES,
        local_epochs=5,
        batch_size=BATCH_SIZE,
        seed=seed,
        min_learners=num_devices,
        model=ModelSpec(name="two-nn", loss="cross-entropy-of-softmax"),
        optimizer=OptimizerSpec(name="SGD", options={"lr": 0.1}),
        data=data,
        allocation=allocation.from_config({"policy": policy}),
    )


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the paper's text says of the figures, and the same of ours."""
    last = where(rows, update=max(row["update"] for row in rows))
    found = {"runs that end below 90 % right answers": 100 * sum(row["right"] < 90 for row in last) / len(last)}
    for cluster in CLUSTERS:
        curves = {policy: where(rows, cluster=cluster, policy=policy)[1:] for policy in OVERTIME}
        name = f"{cluster} devices"
        found |= {f"{name}: {text}": value for text, value in _gaps(curves["dab"], curves["csa"], cluster).items()}
        for policy, curve in curves.items():
            found[f"{name}: loss of {policy}, last update"] = curve[-1]["loss"]
            found[f"{name}: accuracy of {policy}, last update"] = curve[-1]["accuracy"]
            found[f"{name}: right answers of {policy}, last update"] = curve[-1]["right"]
            found[f"{name}: time of {policy} over the deadline"] = sum(row["truancy"] for row in curve) / len(curve)
        found[f"{name}: late updates of adaptive-dab"] = sum(row["late"] for row in curves["adaptive-dab"])
    return found


def _gaps(dab: Sequence[Row], csa: Sequence[Row], cluster: str) -> dict[str, float]:
    losses = [100 * (one["loss"] / other["loss"] - 1) for one, other in zip(dab, csa, strict=True)]
    points = [one["accuracy"] - other["accuracy"] for one, other in zip(dab, csa, strict=True)]
    gaps = {
        "shards of dab for one of csa": sum(row["shards"] for row in dab) / sum(row["shards"] for row in csa),
        "right answers, dab above csa, first update": dab[0]["right"] - csa[0]["right"],
        "right answers, dab above csa, last update": dab[-1]["right"] - csa[-1]["right"],
    }
    if cluster == "two":
        return gaps | {
            "loss, dab above csa, first update": losses[0],
            "loss, dab above csa, most of the later updates": max(losses[1:]),
            "accuracy, dab above csa, last update": points[-1],
        }
    return gaps | {
        "loss, dab below csa, first update": -losses[0],
        "loss, dab above csa, last update": losses[-1],
        # Ratios of the higher one: so they come out of the curves that the authors keep.
        "accuracy, csa below dab, first update": 100 * points[0] / dab[0]["accuracy"],
        "accuracy, dab below csa, last update": -100 * points[-1] / csa[-1]["accuracy"],
    }
