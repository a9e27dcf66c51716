"""How much sooner training ends with EdgeGossip than with GoSGD, what that costs, and what each part of it does."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paceline.allocation.edge_gossip import EdgeGossipAllocation
from papers.gossip.measures import BASELINE, accuracy_lost, final_accuracy, speed_up, speed_up_to_accuracy
from papers.gossip.playing import learning_rows, time_row
from papers.gossip.setting import RATE, WAYS, WORKLOADS, Case, Size, drawn_speeds, edge_gossip, sgd
from reproduction import About, Row
from reproduction.rows import where

ABOUT = About(
    figure="Han et al., Fig. 5 and 6",
    claim="EdgeGossip trains in a fraction of GoSGD's time, 2.70 times less on average, and loses 0.78 % of accuracy.",
    duration="an hour",
    num_seeds=3,
)
LEARN, QUICK_LEARN = Size(3000, 2000, 30, 16), Size(240, 100, 2, 16)
LEARN_PHOTOS, QUICK_LEARN_PHOTOS = Size(4000, 2000, 25, 16), Size(80, 40, 1, 16)
TIME, QUICK_TIME = Size(20_000, 100, 10, 16), Size(400, 100, 2, 16)
SCALES, QUICK_SCALES = (4, 8, 16), (4, 8)
SCALED, QUICK_WORKLOADS = ("lenet-5", "alexnet"), ("lenet-5",)

BY_CLASS, LESS_RANDOM, OURS, FASTER = "edge-gossip", "random, 78 %", "ours", "gosgd, twice the rate"
_LESS: Mapping[str, Any] = edge_gossip(points=None, allocation=EdgeGossipAllocation(max_ratio=0.78))
# With 78 % of what EdgeGossip trains, that is half of what GoSGD does: steps twice as long make up for half as many.
SCHEMES: Mapping[str, Mapping[str, Any]] = {
    BASELINE: {},
    FASTER: {"optimizer": sgd(2 * RATE)},
    "push-sum": {"exchange": "push-sum"},
    BY_CLASS: edge_gossip(),
    "random": edge_gossip(points=None),
    LESS_RANDOM: _LESS,
    OURS: {**_LESS, "optimizer": sgd(2 * RATE)},
}
"""Trained with every seed, on the first deployment."""

ALONE: Mapping[str, Mapping[str, Any]] = {
    "to the letter": edge_gossip(order="ranked", ranks="all"),
    "shuffled": edge_gossip(ranks="all"),
    "edge-gossip, incremental-svd": edge_gossip("incremental-svd"),
    "edge-gossip, hash": edge_gossip("hash"),
    "ranked every 4 epochs": edge_gossip(rank_epochs=4),
    "edge-gossip, 78 %": edge_gossip(allocation=_LESS["allocation"]),
    "random, 78 %, overlapped": {**_LESS, "overlaps": True},
    "random, 78 %, overlapped, int8": {**_LESS, "overlaps": True, "compression": "int8"},
}
"""Trained with the first seed only: other readings of the paper, other ways, and what each part does."""

PHOTOS: Sequence[str] = (BASELINE, BY_CLASS, "random", OURS)
"""Trained with every seed on CIFAR-10, too, by AlexNet."""

EDGE: Mapping[str, Mapping[str, Any]] = {
    BASELINE: {},
    BY_CLASS: edge_gossip(),
    "random": SCHEMES["random"],
    OURS: SCHEMES[OURS],
    "ours, int8": {**SCHEMES[OURS], "compression": "int8"},
    "ours, overlapped": {**SCHEMES[OURS], "overlaps": True},
    "ours, overlapped, int8": {**SCHEMES[OURS], "overlaps": True, "compression": "int8"},
}
"""Timed on a slow link."""


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """The times of all models, of larger deployments and of slow links; then LeNet-5 and AlexNet with gradients."""
    yield from _time_rows(seed, is_quick=is_quick)
    case = Case("lenet-5", QUICK_LEARN if is_quick else LEARN, seed)
    for scheme, rules in {**SCHEMES, **(ALONE if seed == 0 else {})}.items():
        yield from learning_rows(case, scheme, rules)
    yield from photo_rows(seed, is_quick=is_quick)


def photo_rows(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """AlexNet on CIFAR-10 with gradients."""
    case = Case("alexnet", QUICK_LEARN_PHOTOS if is_quick else LEARN_PHOTOS, seed)
    for scheme in PHOTOS:
        yield from learning_rows(case, scheme, SCHEMES[scheme], part="photos")


def _time_rows(seed: int, *, is_quick: bool) -> Iterator[Row]:
    for workload in QUICK_WORKLOADS if is_quick else WORKLOADS:
        case = Case(workload, QUICK_TIME if is_quick else TIME, seed)
        yield time_row(case, BASELINE, {})
        for way in WAYS:
            yield time_row(case, f"{BY_CLASS}, {way}", edge_gossip(way))
        yield time_row(case, OURS, SCHEMES[OURS])
        if workload in SCALED:
            yield from _edge_rows(case)
            yield from _scale_rows(case, QUICK_SCALES if is_quick else SCALES)


def _edge_rows(case: Case) -> Iterator[Row]:
    for scheme, rules in EDGE.items():
        yield time_row(case._replace(link="edge"), scheme, rules)


def _scale_rows(case: Case, counts: Sequence[int]) -> Iterator[Row]:
    for count in counts:
        larger = case._replace(speeds=drawn_speeds(count, case.seed))
        for scheme in (BASELINE, BY_CLASS):
            yield time_row(larger, scheme, SCHEMES[scheme], part="scale")


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the paper's text says of its figures, and what our schemes gain and lose."""
    return {**_times(rows), **_scales(rows), **_learned(rows), **_learned_photos(rows)}


def _times(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    by_model: dict[str, float] = {}
    for link, told in (("data centre", ""), ("edge", ", slow link")):
        for workload in dict.fromkeys(row["workload"] for row in where(rows, part="time", link=link)):
            own = where(rows, part="time", workload=workload, link=link)
            baseline = where(own, scheme=BASELINE)
            for row in own:
                if row["scheme"] != BASELINE:
                    found[f"{workload}, {row['scheme']}: speed-up{told}"] = speed_up(baseline, [row])
            if link == "data centre":
                ways = [found[f"{workload}, {BY_CLASS}, {way}: speed-up"] for way in WAYS]
                by_model[workload] = statistics.fmean(ways)
    found["edge-gossip: speed-up, mean of models and ways"] = statistics.fmean(by_model.values())
    found["ours: speed-up, mean of models"] = statistics.fmean(found[f"{name}, {OURS}: speed-up"] for name in by_model)
    if others := [value for workload, value in by_model.items() if workload != "lenet-5"]:
        found["speed-up, others above lenet-5"] = statistics.fmean(others) - by_model["lenet-5"]
    return found


def _scales(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    for workload in dict.fromkeys(row["workload"] for row in where(rows, part="scale")):
        own = where(rows, part="scale", workload=workload)
        sizes = sorted({row["platforms"] for row in own})
        baselines = {size: where(own, scheme=BASELINE, platforms=size) for size in sizes}
        for size in sizes:
            value = speed_up(baselines[size], where(own, scheme=BY_CLASS, platforms=size))
            found[f"{workload}: speed-up, {size} platforms"] = value
        smallest, largest = sizes[0], SCALES[-1]
        if largest in sizes:
            grown = found[f"{workload}: speed-up, {largest} platforms"]
            found[f"{workload}: speed-up, {largest} platforms above {smallest}"] = (
                grown - found[f"{workload}: speed-up, {smallest} platforms"]
            )
            seconds = [baselines[size][0]["run_seconds"] for size in (smallest, largest)]
            found[f"{workload}: GoSGD's time, {largest} platforms above {smallest}"] = 100 * (
                seconds[1] / seconds[0] - 1
            )
    return found


def _learned(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    baseline = where(rows, part="learning", scheme=BASELINE)
    found["gosgd: accuracy"] = final_accuracy(baseline)
    for scheme in (*SCHEMES, *ALONE):
        own = where(rows, part="learning", scheme=scheme)
        if scheme == BASELINE or not own:
            continue
        found[f"{scheme}: speed-up, trained"] = speed_up(baseline, own)
        found[f"{scheme}: accuracy lost"] = accuracy_lost(baseline, own)
        found[f"{scheme}: samples trained"] = own[0]["trained"]
        sooner = speed_up_to_accuracy(baseline, own)
        if sooner is not None:
            found[f"{scheme}: speed-up to GoSGD's accuracy less 0.5"] = sooner
    faster, ours = (where(rows, part="learning", scheme=scheme) for scheme in (FASTER, OURS))
    found["ours: accuracy lost, to GoSGD at twice the rate"] = accuracy_lost(faster, ours)
    return found


def _learned_photos(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    baseline = where(rows, part="photos", scheme=BASELINE)
    found["alexnet, gosgd: accuracy"] = final_accuracy(baseline)
    for scheme in PHOTOS[1:]:
        own = where(rows, part="photos", scheme=scheme)
        found[f"alexnet, {scheme}: speed-up, trained"] = speed_up(baseline, own)
        found[f"alexnet, {scheme}: accuracy lost"] = accuracy_lost(baseline, own)
        sooner = speed_up_to_accuracy(baseline, own)
        if sooner is not None:
            found[f"alexnet, {scheme}: speed-up to GoSGD's accuracy less 0.5"] = sooner
    return found
