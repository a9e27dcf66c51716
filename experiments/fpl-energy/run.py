"""What each scheme takes in energy until it has learned what it can, by its processor time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papers.fpl.accounts import account_rows
from papers.fpl.energy import GRAMS_PER_KWH, TABLE, kwh
from papers.fpl.measures import taken, trained
from papers.fpl.setting import FPL_F1, FPL_F2, FPLS, GFL_CFF, GFL_FF, GFLS, NAMES, PAPER_SAMPLES, SPLIT
from reproduction import About, Row

ABOUT = About(
    figure="Malandrino and Chiasserini, Table I",
    claim="FPL takes less energy than gFL: 0.21 to 0.25 kWh, where gFL takes 0.23 to 0.33.",
    duration="55 minutes",
    num_seeds=3,
)


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """All schemes: what they learn, and what two epochs take with few samples and with more."""
    yield from account_rows(seed, is_quick=is_quick)


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """Energy by scheme, and relative to that of split learning, which the paper has as the least."""
    learned = trained(rows)
    seconds, modelled = ({s: _seconds(rows, row, column) for s, row in learned.items()} for column in _COLUMNS)
    lines = TABLE.values()
    found = {"carbon of a kWh, by Table I": sum(line.grams for line in lines) / sum(line.kwh for line in lines)}
    for scheme, row in learned.items():
        name = NAMES[scheme]
        whole = taken(rows, scheme, _COLUMNS[0]).each[1] * PAPER_SAMPLES * row["epoch"]
        found[f"{name}: energy"] = 1000 * kwh(seconds[scheme])
        found[f"{name}: energy, paper's size"] = kwh(whole)
        found[f"{name}: carbon, paper's size"] = GRAMS_PER_KWH * kwh(whole)
        found[f"{name}: processor time of an epoch"] = seconds[scheme] / row["epoch"]
        found[f"{name}: processor time of an epoch, modelled"] = modelled[scheme] / row["epoch"]
        if scheme != SPLIT:
            found[f"{name}: energy over SL's"] = seconds[scheme] / seconds[SPLIT]
            found[f"{name}: energy over SL's, modelled"] = modelled[scheme] / modelled[SPLIT]
            found[f"{name}: energy of an epoch over SL's"] = (
                found[f"{name}: energy over SL's"] * learned[SPLIT]["epoch"] / row["epoch"]
            )
    found["energy: J→F2 over gFL F1/F2"] = seconds[FPL_F2] / seconds[GFL_FF]
    found["energy: J→F1 over gFL C2/F1/F2"] = seconds[FPL_F1] / seconds[GFL_CFF]
    found["energy: FPL over gFL, at the worst"] = max(seconds[s] for s in FPLS) / min(seconds[s] for s in GFLS)
    return found


_COLUMNS = ("process_seconds", "cpu_seconds")


def _seconds(rows: Sequence[Row], row: Row, column: str) -> float:
    """Of all processors until the loss is least; the first epoch, which makes memory ready, counts as the others."""
    return float(taken(rows, row["scheme"], column).epoch(row["num_samples"]) * row["epoch"])
