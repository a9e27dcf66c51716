"""The split topology: what a fleet needs to know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from paceline.config import table_named
from paceline.errors import ConfigError
from paceline.events import Event
from paceline.learning.datasets import importable
from paceline.topologies.base import (
    DeviceOptions,
    Environment,
    Host,
    JobSpec,
    Load,
    Member,
    Node,
    Plan,
    Recovered,
    Topology,
)
from paceline.topologies.consent import Disclosure
from paceline.topologies.reporting.base import Reporting
from paceline.topologies.split.disclosures import disclosures_of
from paceline.topologies.split.jobs import AUTO, SplitJob
from paceline.topologies.split.messages import SplitTerms
from paceline.topologies.split.prepared import PreparedSplit, prepare_split
from paceline.topologies.split.report import SplitReporting
from paceline.topologies.split.resuming import ResumedSplit, recover, resumed
from paceline.topologies.split.samples import Samples, load_samples, view_of
from paceline.topologies.split.source import Source
from paceline.topologies.split.trunk import Trunk


class Split(Topology[SplitJob]):
    """One model over many devices: sources around a trunk."""

    name = "split"
    kinds: ClassVar[Mapping[type[JobSpec], Reporting]] = {SplitJob: SplitReporting()}
    noun = "source"
    used_options = ("data", "applies_view", "allowed", "patience_seconds")

    def prepare(self, job: SplitJob) -> Plan[Any]:
        return SplitPlan(prepare_split(job))

    def can_resume(self, job: SplitJob) -> bool:
        return job.has_copies

    def recover(self, job: SplitJob, events: Sequence[Event], load: Load) -> Recovered:
        return recover(job, events, load)

    def resume(self, job: SplitJob, recovered: Recovered, load: Load) -> Plan[Any]:
        if not job.has_copies:
            raise ConfigError("backup_epochs is 0, so the trunk kept no copies of the branches to go on from")
        return SplitPlan(prepare_split(job), resumed(job, recovered, load))

    def disclosures(self, tables: Mapping[str, Any], options: DeviceOptions) -> Sequence[Disclosure]:
        table = table_named(tables, "split", "the job there")
        return disclosures_of(str(table.get("scheme")), is_measured=table.get("cut") == AUTO)

    def join(self, node: Node) -> Member:
        own = node.options

        def load(terms: SplitTerms, number: int) -> Samples:
            return load_samples(terms, number, own.data, is_viewed=own.applies_view)

        # How many operations the model takes is not known yet; only a modelled machine would ask for it.
        return Source(node, node.machine.engine(0.0), load, own.allowed)


class SplitPlan(Plan[SplitJob]):
    """A split job made ready to run.

    Args:
        resumed: what an interrupted run goes on from.
    """

    needs_gradients = True

    def __init__(self, prepared: PreparedSplit, resumed: ResumedSplit | None = None) -> None:
        job, largest = prepared.job, prepared.max_message_bytes
        super().__init__(TOPOLOGY, job, min_devices=job.sources, max_message_bytes=largest, seed=job.seed)
        self.prepared = prepared
        self._resumed = resumed

    @property
    def public_tables(self) -> dict[str, Any]:
        is_measured = len(self.prepared.cuts) > 1
        return {"split": {"scheme": self.job.scheme, "cut": AUTO if is_measured else "".join(self.prepared.cuts)}}

    def device_options(self, number: int, count: int) -> Sequence[str]:
        stored_at = importable(self.job.data)
        return () if stored_at is None else ("--data", stored_at, "--apply-view")

    def host(self, env: Environment) -> Host:
        return Trunk(self.prepared, env, self._resumed)

    def member(self, node: Node, host: Host | None) -> Member:
        def load(terms: SplitTerms, number: int) -> Samples:
            return view_of(self.prepared.dataset, terms, number)

        return Source(node, node.machine.engine(self.prepared.operations.train), load, None)


TOPOLOGY = Split()
