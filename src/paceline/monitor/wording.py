"""How numbers and happenings are said, the same in the terminal and on the page.

Names and reasons come from the network: whatever could act on a terminal or turn the text around is made visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from paceline.events import Event
from paceline.topologies.events import LearnerJoined, LearnerLeft, WaitingForLearners
from paceline.topologies.gossip.events import (
    DataMissing,
    GossipEnded,
    PartTakenOver,
    PeerEnded,
    PeerLost,
    PeerSeen,
    PeerStarted,
    StoreBack,
    StoreLost,
)
from paceline.topologies.parallel.events import (
    JobEnded,
    JobsAllocated,
    JobSubmitted,
    LearnerPaid,
    PoolEnded,
    RunStarted,
    UpdateAudited,
    UpdateRefused,
)
from paceline.topologies.split.events import CutChosen, JunctionChanged, SourceBack, SourceMasked, SplitEnded

JOULES_PER_WATT_HOUR = 3600.0


def printable(text: str) -> str:
    """The text with control and formatting characters written out, e.g. an escape as ``\\x1b``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def say_seconds(seconds: float) -> str:
    """A duration with three digits that count: ``0.042 s``, ``1.25 s``, ``83.1 s``, ``12 min 5 s``, ``3 h 20 min``."""
    if abs(seconds) < 1:
        return f"{seconds:.3f} s"
    if abs(seconds) < 100:
        return f"{seconds:.2f} s" if abs(seconds) < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def say_ratio(ratio: float, *, signed: bool = False) -> str:
    """A ratio in per cent: ``87.5 %``, or with its sign ``+2.1 %``."""
    hundredths = round(100 * ratio, 1) or 0.0  # a negative zero has no sign worth telling
    return (f"{hundredths:+.1f} %" if signed and hundredths else f"{hundredths:.1f} %").replace("-", "−")


def say_known(value: float | None, say: Callable[[float], str]) -> str:
    """The value in words, a dash if there is none."""
    return "–" if value is None else say(value)


def say_count(number: int, thing: str) -> str:
    """A number with its noun: ``1 learner``, ``12,340 samples``."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def say_names(names: Iterable[str], limit: int = 5) -> str:
    """Names with commas between them, and how many more there are."""
    known = [printable(name) for name in names]
    shown = ", ".join(known[:limit])
    return shown if len(known) <= limit else f"{shown} and {len(known) - limit:,} more"


def say_bytes(number: float) -> str:
    """A size with three digits that count: ``812 B``, ``1.25 MB``, ``83.1 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.0f} TB"


def say_energy(joules: float) -> str:
    """Joules as what a meter on the wall counts, with three digits: ``8.12 mWh``, ``1.25 Wh``, ``83.1 kWh``."""
    return _scaled(1000 * joules / JOULES_PER_WATT_HOUR, ("mWh", "Wh", "kWh", "MWh"))


def say_grams(grams: float) -> str:
    """A mass with three digits that count: ``8.12 mg``, ``1.25 g``, ``83.1 kg``."""
    return _scaled(1000 * grams, ("mg", "g", "kg", "t"))


def _scaled(number: float, units: Sequence[str]) -> str:
    """In the first of units, each 1000 of the one before, that needs no more than three digits; or in the last."""
    for unit in units:
        if abs(number) < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{1000 * number:,.0f} {units[-1]}"


def say_power(power: Mapping[str, Any] | None) -> str:
    """By what a device's energy is told, as it says itself: ``0.9 W per busy core``; a dash if it says nothing."""
    if not power:
        return "–"
    watts = {"busy_watts": "W per busy core", "idle_watts": "W all the time"}
    if power.get("source") == "codecarbon":
        parts, watts = ["CodeCarbon"], {}
    else:
        parts = []
    known = {**watts, "joules_per_byte": "J per byte"}
    given = {key: power.get(key) for key in known}
    parts += [f"{value:g} {known[key]}" for key, value in given.items() if isinstance(value, int | float) and value]
    return ", ".join(parts) or "nothing is counted"


def say_amount(amount: float) -> str:
    """A sum of money, in whatever the prices are in: ``1,234.50``."""
    return f"{amount:,.2f}"


def say_placements(event: JobsAllocated, limit: int = 5) -> str:
    """Who is in which job, with how many shards: ``mnist: pi 12, jetson 30; fashion: nano 20``; so many of each."""
    teams: dict[str, list[str]] = {}
    for learner, (job, num_shards) in event.placements.items():
        teams.setdefault(job, []).append(f"{learner} {num_shards}")
    return "; ".join(f"{printable(job)}: {say_names(team, limit)}" for job, team in teams.items()) or "nobody"


def say_event(event: Event, job: str = "") -> str | None:
    """One line about something that is worth it: who came or went, what did not count, what was decided or is missing.

    Args:
        job: of a pool, in which it happened; put in front.

    Returns: None for other events.
    """
    said = _say_of_run(event) or _say_of_pool(event) or _say_of_gossip(event) or _say_of_split(event)
    return f"{printable(job)}, {said}" if job and said else said


def _say_of_run(event: Event) -> str | None:
    match event:
        case LearnerJoined(learner=name, is_back=is_back):
            return f"{printable(name)} {'is back' if is_back else 'joined'}"
        case LearnerLeft(learner=name, reason=reason):
            return f"{printable(name)} left: {printable(reason)}"
        case UpdateRefused(round=number, learner=name, is_late=True, seconds=seconds) if seconds is not None:
            return f"round {number}: update of {printable(name)} too late, after {say_seconds(seconds)}"
        case UpdateRefused(round=number, learner=name, reason=reason):
            return f"round {number}: update of {printable(name)} refused: {printable(reason)}"
        case UpdateAudited(round=number, learner=name, is_honest=False):
            return f"round {number}: update of {printable(name)} is a cheat{_say_distance(event.distance)}"
        case WaitingForLearners(round=number, num_ready=num_ready, min_learners=min_learners):
            waits = f"round {number} waits" if number else "waiting"
            return f"{waits} for learners: {num_ready} of {min_learners} ready"
        case RunStarted(first_round=number) if number > 1:
            return f"run resumed at round {number}"
    return None


def _say_distance(distance: float | None) -> str:
    if distance is None:
        return ": it could not be trained again as told"
    return f": it differs from the same work done again by {say_ratio(distance)} of the change"


def _say_of_pool(event: Event) -> str | None:
    match event:
        case JobSubmitted(job=job, rounds=rounds, deadline_seconds=seconds, num_shards=num_shards):
            work = f"{say_count(rounds, 'round')} of {say_seconds(seconds)}, {say_count(num_shards, 'shard')}"
            return f"{printable(job)} submitted: {work}"
        case JobsAllocated():
            return _say_allocation(event)
        case LearnerPaid(job=job, round=number, learner=name, num_samples=0):
            return f"{printable(job)}, round {number}: {printable(name)} is paid nothing"
        case JobEnded(job=job, reason=reason, rounds=rounds, accuracy=accuracy):
            rounds_said = say_count(rounds, "round")
            return f"{printable(job)} ended: {printable(reason)}, {rounds_said}{_say_accuracy(accuracy)}"
        case PoolEnded(at=at, reason=reason, spent=spent):
            return f"ended: {printable(reason)}, {say_amount(spent)} paid in {say_seconds(at)}"
    return None


def _say_of_gossip(event: Event) -> str | None:
    match event:
        case PeerStarted(learner=name, epoch=epoch, num_samples=num_samples):
            later = f", from epoch {epoch} on" if epoch > 1 else ""
            return f"{printable(name)} joined with {say_count(num_samples, 'sample')}{later}"
        case PeerSeen(learner=name, other=other):
            return f"{printable(name)} heard of {printable(other)}"
        case PeerLost(learner=name, other=other, reason=reason):
            return f"{printable(other)} is gone: {printable(reason)} (missed first by {printable(name)})"
        case PartTakenOver(learner=name, other=other, epoch=epoch, num_samples=num_samples):
            samples = say_count(num_samples, "sample")
            return f"epoch {epoch}: {printable(name)} trains the {samples} of {printable(other)}, too"
        case DataMissing(epoch=epoch, others=others, share_failed=share, num_samples=num_samples):
            failed = f"{say_ratio(share)} of all peers failed"
            return f"epoch {epoch}: {failed}; {say_count(num_samples, 'sample')} of {say_names(others)} are missing"
        case StoreLost(learner=name, store=store, reason=reason):
            return f"{printable(name)} cannot reach the store {printable(store)}: {printable(reason)}"
        case StoreBack(store=store):
            return f"all reach the store {printable(store)} again"
        case PeerEnded(learner=name, reason=reason, epochs=epochs, accuracy=accuracy):
            return f"{printable(name)} ended: {reason}, {say_count(epochs, 'epoch')}{_say_accuracy(accuracy)}"
        case GossipEnded(at=at, averaged=averaged, accuracy=accuracy):
            average = f"average of {say_count(len(averaged), 'peer')}"
            return f"ended: {average}{_say_accuracy(accuracy)}, in {say_seconds(at)}"
    return None


def _say_of_split(event: Event) -> str | None:
    match event:
        case CutChosen():
            return _say_cut(event)
        case JunctionChanged(epoch=epoch, sources=sources, num_parameters=num_parameters):
            merged = f"{say_count(len(sources), 'source')} ({say_names(sources)})" if sources else "no source"
            return f"epoch {epoch}: the junction merges {merged}, {say_count(num_parameters, 'parameter')}"
        case SourceMasked(learner=name, epoch=epoch, step=step, reason=reason):
            return f"epoch {epoch}, step {step}: {printable(name)} is masked: {printable(reason)}"
        case SourceBack(learner=name, epoch=epoch, step=step):
            return f"epoch {epoch}, step {step}: {printable(name)} is back"
        case SplitEnded(at=at, reason=reason, epochs=epochs, accuracy=accuracy):
            return f"ended: {reason}, {say_count(epochs, 'epoch')} in {say_seconds(at)}{_say_accuracy(accuracy)}"
    return None


def _say_cut(event: CutChosen) -> str:
    by_seconds = sorted(event.expected_seconds.items(), key=lambda item: item[1])
    own = [say_seconds(seconds) for cut, seconds in by_seconds if cut == event.cut]
    others = say_names(f"{cut} {say_seconds(seconds)}" for cut, seconds in by_seconds if cut != event.cut)
    expected = f", {own[0]} expected for an epoch" if own else ""
    return f"cut before {printable(event.cut)}{expected}" + (f"; instead: {others}" if others else "")


def _say_accuracy(accuracy: float | None) -> str:
    return "" if accuracy is None else f", accuracy {say_ratio(accuracy)}"


def _say_allocation(event: JobsAllocated) -> str:
    parts = [f"placed {say_placements(event)}"]
    if event.placements:
        seconds, cost = say_seconds(event.expected_seconds), say_amount(event.cost)
        parts.append(f"expected: {seconds} and {cost} for a round of each")
    others = {"idle": event.idle, "without learners": event.waiting, "given up": event.waived}
    return "; ".join([*parts, *(f"{label}: {say_names(names)}" for label, names in others.items() if names)])


def setting(settings: dict[str, Any], section: str, key: str) -> Any:
    """A value of a resolved job or pool, None if it has none."""
    table = settings.get(section)
    return table.get(key) if isinstance(table, dict) else None


def called(settings: dict[str, Any], section: str) -> str:
    """What a resolved job or pool calls its model, data or policy; a dash if it has none."""
    names = (setting(settings, section, key) for key in ("name", "import", "path", "policy"))
    return next((printable(name) for name in names if isinstance(name, str)), "–")
