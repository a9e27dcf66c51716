"""What each scheme learns, how large it is, and the time and bytes that it takes to learn it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papers.fpl.accounts import account_rows
from papers.fpl.measures import taken, trained
from papers.fpl.setting import FEDAVG, FPL_F1, FPL_F2, FPLS, GFLS, IMAGES, NAMES, PAPER_SAMPLES, SPLIT
from reproduction import About, Row

ABOUT = About(
    figure="Malandrino and Chiasserini, Fig. 6",
    claim="FPL is next best in accuracy to sending all images, takes no longer than alternatives, and sends almost ten "
    "times less than gFL.",
    duration="55 minutes",
    num_seeds=3,
)
MEGA = 1e6


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """All schemes: what they learn, and what two epochs take with few samples and with more."""
    yield from account_rows(seed, is_quick=is_quick)


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """The claims on Fig. 6 as differences, ratios and parts; with the samples that were trained, and the paper's."""
    learned = trained(rows)
    own_size = next(iter(learned.values()))["num_samples"]
    found: dict[str, float] = {}
    for scheme, row in learned.items():
        found[f"{NAMES[scheme]}: accuracy"] = row["accuracy"]
        found[f"{NAMES[scheme]}: accuracy of all views together, in the end"] = row["joint_accuracy"]
        found[f"{NAMES[scheme]}: parameters"] = row["num_parameters"] / MEGA
    found |= _accuracies({scheme: row["accuracy"] for scheme, row in learned.items()})
    found |= _sizes(learned)
    found |= _crossovers(rows)
    for told, num_samples in (("", own_size), (", paper's size", PAPER_SAMPLES)):
        found |= _costs(rows, learned, num_samples, told)
    return found


def _accuracies(accuracy: dict[str, float]) -> dict[str, float]:
    """How far a scheme is above those that the paper has below it."""
    fpl, gfl = [accuracy[scheme] for scheme in FPLS], [accuracy[scheme] for scheme in GFLS]
    return {
        "accuracy: transfer images above FPL": accuracy[IMAGES] - max(fpl),
        "accuracy: J→F2 above J→F1": accuracy[FPL_F2] - accuracy[FPL_F1],
        "accuracy: FPL above SL": min(fpl) - accuracy[SPLIT],
        "accuracy: FPL above gFL": min(fpl) - max(gfl),
        "accuracy: SL above gFL": accuracy[SPLIT] - max(gfl),
        "accuracy: gFL above FedAvg": max(gfl) - accuracy[FEDAVG],
    }


def _sizes(learned: dict[str, Row]) -> dict[str, float]:
    size = {scheme: row["num_parameters"] for scheme, row in learned.items()}
    others = [size[scheme] for scheme in (IMAGES, SPLIT, *GFLS)]
    fpl = [size[scheme] for scheme in FPLS]
    return {
        "parameters: FPL over the largest of the others": max(fpl) / max(others),
        "parameters: FPL over one model": max(fpl) / size[IMAGES],
        "parameters: smallest of the others over transfer images": min(others[1:] + fpl) / size[IMAGES],
        "parameters: junction of J→F2 over that of J→F1": learned[FPL_F2]["num_junction"]
        / learned[FPL_F1]["num_junction"],
    }


def _crossovers(rows: Sequence[Row]) -> dict[str, float]:
    """Samples of an epoch with which FPL sends as much as gFL; with fewer, it sends less."""
    return {
        f"{NAMES[fpl]}: samples of an epoch to send as much as {NAMES[gfl]}": taken(rows, gfl, "num_bytes").epoch(0)
        / taken(rows, fpl, "num_bytes").each[1]
        for fpl in FPLS
        for gfl in GFLS
    }


def _costs(rows: Sequence[Row], learned: dict[str, Row], num_samples: int, told: str) -> dict[str, float]:
    """Until the loss is least, in as many epochs as were needed here."""
    found: dict[str, float] = {}
    seconds, sent = {}, {}
    for scheme, row in learned.items():
        epochs, name = row["epoch"], NAMES[scheme]
        seconds[scheme] = taken(rows, scheme, "seconds").total(num_samples, epochs)
        sent[scheme] = taken(rows, scheme, "num_bytes").total(num_samples, epochs)
        compute = taken(rows, scheme, "compute_seconds").total(num_samples, epochs)
        found[f"{name}: hours{told}"] = seconds[scheme] / 3600
        found[f"{name}: processing, of its time{told}"] = 100 * compute / seconds[scheme]
        found[f"{name}: gigabytes{told}"] = sent[scheme] / 1e9
    slowest, largest = max(seconds[s] for s in FPLS), max(sent[s] for s in FPLS)
    found[f"time: FPL over gFL{told}"] = slowest / min(seconds[scheme] for scheme in GFLS)
    found[f"time: FPL over SL{told}"] = slowest / seconds[SPLIT]
    found[f"time: FPL over transfer images{told}"] = slowest / seconds[IMAGES]
    found[f"network: gFL over FPL{told}"] = min(sent[scheme] for scheme in GFLS) / largest
    found[f"network: transfer images over FPL{told}"] = sent[IMAGES] / largest
    found[f"network: transfer images over gFL{told}"] = sent[IMAGES] / max(sent[scheme] for scheme in GFLS)
    return found
