"""Makes both sides of a job's scheme."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from paceline.learning.engines import Engine
from paceline.learning.segments import Operations, make_chain, operations_of
from paceline.topologies.split.averaging import AveragingAtSource, AveragingAtTrunk
from paceline.topologies.split.branches import BranchAtSource, BranchesAtTrunk
from paceline.topologies.split.images import ImagesAtSource, ImagesAtTrunk
from paceline.topologies.split.messages import Terms
from paceline.topologies.split.plans import SplitPlan
from paceline.topologies.split.samples import Samples
from paceline.topologies.split.schemes import SourceScheme, TrunkScheme


def trunk_scheme(plan: SplitPlan, cut: str, sources: Sequence[str], engine: Engine) -> TrunkScheme:
    """The trunk's side, to begin with these sources."""
    terms = plan.terms(1, (cut,))
    match plan.job.scheme:
        case "images":
            return ImagesAtTrunk(terms, plan.dataset, engine, _operations(terms, None))
        case "gfl":
            return AveragingAtTrunk(terms)
        case _:
            return BranchesAtTrunk(plan.job, terms, cut, sources, plan.dataset, engine)


def source_scheme(
    terms: Terms, cut: str, name: str, samples: Samples, engine: Engine, allowed: Collection[str] | None
) -> SourceScheme:
    """A source's side.

    Args:
        allowed: import paths of models that may be loaded; None for any.
    """
    match terms.scheme:
        case "images":
            return ImagesAtSource(terms, samples)
        case "gfl":
            return AveragingAtSource(terms, samples, engine, _operations(terms, allowed), allowed)
        case _:
            return BranchAtSource(terms, cut, name, samples, engine, allowed)


def _operations(terms: Terms, allowed: Collection[str] | None) -> Operations:
    """Of the whole model, for one sample."""
    return operations_of(make_chain(terms.task, allowed), terms.task.input_shape)
