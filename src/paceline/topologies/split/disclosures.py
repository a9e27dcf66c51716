"""What leaves a source, by the scheme of its job."""

from __future__ import annotations

from paceline.topologies.consent import Disclosure

_COSTS = "what it measures when it joins: the time of its layers for each cut, bandwidth down and up, latency"
_BRANCH = (
    Disclosure(
        "outputs of its layers for its samples, for training and for testing; much of a sample can show in them"
    ),
    Disclosure("the parameters of its layers, now and then and at the end"),
)
_BY_SCHEME = {
    "fpl": _BRANCH,
    "split-learning": _BRANCH,
    "images": (Disclosure("its samples themselves, all of them", is_private=True),),
    "gfl": (
        Disclosure("layers that it trained, after each epoch; its whole model, now and then and at the end"),
        Disclosure("the loss of its model on test samples, and how many are right"),
    ),
}


def disclosures_of(scheme: str, *, is_measured: bool) -> list[Disclosure]:
    """List what leaves a source; `is_measured` if the trunk chooses a cut by what sources measure."""
    unknown = Disclosure(f"whatever the scheme {scheme[:80]!r} sends, which is not known here", is_private=True)
    return [*_BY_SCHEME.get(scheme, (unknown,)), *([Disclosure(_COSTS, is_private=True)] if is_measured else [])]
