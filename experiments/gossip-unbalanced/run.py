"""What larger unbalance of platforms, and other aggregation ratios, do to training time and accuracy of EdgeGossip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papers.gossip.measures import BASELINE, accuracy_lost, final_accuracy, speed_up
from papers.gossip.playing import learning_rows, time_row
from papers.gossip.setting import FAST, Case, Size, edge_gossip
from reproduction import About, Row
from reproduction.rows import where

ABOUT = About(
    figure="Han et al., Fig. 12 and 13",
    claim="With larger unbalance, GoSGD takes longer and EdgeGossip does not; other aggregation ratios change little.",
    duration="15 minutes",
    num_seeds=3,
)
WORKLOAD = "lenet-5"
LEARN, QUICK_LEARN = Size(3000, 2000, 30, 16), Size(240, 100, 2, 16)
UNBALANCES, TRAINED_UNBALANCES = (1, 2, 3, 5), (3, 5)
RATIO, OTHER_RATIOS = 10, (5, 20)
BALANCED, RANDOM = "edge-gossip", "random"


def run(seed: int, *, is_quick: bool) -> Iterator[Row]:
    """Times at every unbalance; then with gradients, EdgeGossip, and GoSGD, which learns the same at any speeds."""
    size = QUICK_LEARN if is_quick else LEARN
    cases = {unbalance: Case(WORKLOAD, size, seed, _speeds(unbalance)) for unbalance in UNBALANCES}
    for case in cases.values():
        for scheme, rules in ((BASELINE, {}), (BALANCED, edge_gossip()), (RANDOM, edge_gossip(points=None))):
            yield time_row(case, scheme, rules)
    yield from learning_rows(cases[TRAINED_UNBALANCES[0]], BASELINE, {})
    for unbalance in TRAINED_UNBALANCES:
        yield from learning_rows(cases[unbalance], BALANCED, edge_gossip())
        yield from learning_rows(cases[unbalance], RANDOM, edge_gossip(points=None))
    for ratio in OTHER_RATIOS:
        yield from learning_rows(cases[TRAINED_UNBALANCES[0]], _with_ratio(ratio), edge_gossip(ratio=ratio))


def _speeds(unbalance: int) -> tuple[float, ...]:
    """The fast ones stay as they are: GoSGD then takes longer, and EdgeGossip as long as before."""
    return (FAST, FAST, FAST / unbalance, FAST / unbalance)


def _with_ratio(ratio: int) -> str:
    return BALANCED if ratio == RATIO else f"{BALANCED}, ratio {ratio}"


def measures(rows: Sequence[Row]) -> dict[str, float]:
    """What the paper's text says of Fig. 12 and 13."""
    return {**_unbalanced(rows), **_ratios(rows)}


def _unbalanced(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    timed = where(rows, part="time")
    seconds = {(row["scheme"], row["unbalance"]): row["run_seconds"] for row in timed}
    for unbalance in UNBALANCES:
        baseline = where(timed, scheme=BASELINE, unbalance=unbalance)
        for scheme in (BALANCED, RANDOM):
            own = where(timed, scheme=scheme, unbalance=unbalance)
            found[f"{scheme}: speed-up, unbalance {unbalance}"] = speed_up(baseline, own)
    for scheme in (BASELINE, BALANCED):
        for unbalance in TRAINED_UNBALANCES:
            grown = seconds[scheme, unbalance] / seconds[scheme, 2] - 1
            found[f"{scheme}: time, unbalance {unbalance} above 2"] = 100 * grown
    baseline = where(rows, part="learning", scheme=BASELINE)
    found["gosgd: accuracy"] = final_accuracy(baseline)
    for scheme in (BALANCED, RANDOM):
        lost = [
            accuracy_lost(baseline, where(rows, part="learning", scheme=scheme, unbalance=unbalance))
            for unbalance in TRAINED_UNBALANCES
        ]
        for unbalance, points in zip(TRAINED_UNBALANCES, lost, strict=True):
            found[f"{scheme}: accuracy lost, unbalance {unbalance}"] = points
        found[f"{scheme}: accuracy lost, unbalance 5 above 3"] = lost[1] - lost[0]
    return found


def _ratios(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, float] = {}
    learned = where(rows, part="learning", unbalance=TRAINED_UNBALANCES[0])
    runs = {ratio: where(learned, scheme=_with_ratio(ratio)) for ratio in (RATIO, *OTHER_RATIOS)}
    for ratio, own in sorted(runs.items()):
        found[f"ratio {ratio}: ranking, of the time of epochs"] = own[0]["ranking"]
        found[f"ratio {ratio}: time"] = own[0]["run_seconds"]
        found[f"ratio {ratio}: accuracy"] = final_accuracy(own)
    found["ranking at ratio 20 below ratio 5"] = runs[5][0]["ranking"] - runs[20][0]["ranking"]
    found["time at ratio 20 below ratio 5"] = 100 * (1 - runs[20][0]["run_seconds"] / runs[5][0]["run_seconds"])
    found["accuracy at ratio 20 below ratio 5"] = final_accuracy(runs[5]) - final_accuracy(runs[20])
    return found
