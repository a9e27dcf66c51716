"""How numbers and happenings are said, the same in the terminal and on the page.

Names and reasons come from the network: whatever could act on a terminal or turn the text around is made visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from paceline.events import AnyEvent, LearnerJoined, LearnerLeft, RunStarted, UpdateRefused, WaitingForLearners


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


def say_event(event: AnyEvent) -> str | None:
    """One line about a learner that came or went, an update refused, a wait or a resume; None for other events."""
    match event:
        case LearnerJoined(learner=name, is_back=is_back):
            return f"{printable(name)} {'is back' if is_back else 'joined'}"
        case LearnerLeft(learner=name, reason=reason):
            return f"{printable(name)} left: {printable(reason)}"
        case UpdateRefused(round=number, learner=name, is_late=True, seconds=seconds) if seconds is not None:
            return f"round {number}: update of {printable(name)} too late, after {say_seconds(seconds)}"
        case UpdateRefused(round=number, learner=name, reason=reason):
            return f"round {number}: update of {printable(name)} refused: {printable(reason)}"
        case WaitingForLearners(round=number, num_ready=num_ready, min_learners=min_learners):
            return f"round {number} waits for learners: {num_ready} of {min_learners} ready"
        case RunStarted(first_round=number) if number > 1:
            return f"run resumed at round {number}"
    return None


def setting(job: dict[str, Any], section: str, key: str) -> Any:
    """A value of a resolved job, None if it has none."""
    table = job.get(section)
    return table.get(key) if isinstance(table, dict) else None
