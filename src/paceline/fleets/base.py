"""What every fleet does: run what is launched with its devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from paceline.devices.energy import MakeMeter, PowerModel, ProcessMeter
from paceline.events import Emit
from paceline.learning.averaging import State
from paceline.learning.engines import Engine, ThreadEngine
from paceline.topologies.multitask import Admitted, Pool, PoolSpec
from paceline.topologies.parallel import Conductor, Job, Orchestrator, Plan, Surroundings
from paceline.topologies.split import SplitPlan, Trunk

C = TypeVar("C", bound=Conductor)


@dataclass(frozen=True, kw_only=True)
class Launch(ABC, Generic[C]):
    """A run about to start.

    Attributes:
        emit: is told of all that happens.
        started_at: the `at` of the first event.
    """

    emit: Emit
    started_at: float = 0.0

    @property
    @abstractmethod
    def seed(self) -> int:
        """Of everything that a fleet draws at random."""

    @property
    @abstractmethod
    def min_learners(self) -> int:
        """Fewer cannot begin."""

    @property
    def min_left(self) -> int:
        """With fewer it cannot go on."""
        return self.min_learners

    @property
    @abstractmethod
    def max_model_bytes(self) -> int:
        """The most that an update may take."""

    @property
    @abstractmethod
    def import_paths(self) -> Sequence[str]:
        """Models that devices are to load from where they are told."""

    @property
    def federated_job(self) -> Job | None:
        """The job, if devices train on data of their own."""
        return None

    @property
    def command(self) -> str:
        """Of paceline, by which a device takes part."""
        return "join"

    @property
    def options(self) -> Sequence[str]:
        """Of the command, for each device on this machine that has no data of its own."""
        return ()

    @abstractmethod
    def orchestrator(self, around: Surroundings) -> C:
        """Make the orchestrator; `around` says where it runs."""


@dataclass(frozen=True, kw_only=True)
class JobLaunch(Launch[Orchestrator]):
    """A run of one job.

    Attributes:
        state: the parameters to start from.
        save: keeps the parameters after each round.
        first_round: later than 1 for a run that goes on.
    """

    plan: Plan
    state: State
    save: Callable[[int, State], None] = lambda round, state: None
    first_round: int = 1

    @property
    def seed(self) -> int:
        return self.plan.job.seed

    @property
    def min_learners(self) -> int:
        return self.plan.job.min_learners

    @property
    def max_model_bytes(self) -> int:
        return self.plan.terms.model_bytes

    @property
    def import_paths(self) -> Sequence[str]:
        path = self.plan.job.model.import_path
        return () if path is None else (path,)

    @property
    def federated_job(self) -> Job | None:
        return None if self.plan.job.data.placement == "served" else self.plan.job

    def orchestrator(self, around: Surroundings) -> Orchestrator:
        around = replace(around, emit=self.emit, save=self.save, started_at=self.started_at)
        return Orchestrator(self.plan, self.state, around, self.first_round)


@dataclass(frozen=True, kw_only=True)
class PoolLaunch(Launch[Pool]):
    """A run of several jobs over one pool of learners.

    Attributes:
        jobs: to begin with.
        admit: makes a job of the tables of a job file; raises `ValueError` with a reason for one that cannot be.
    """

    spec: PoolSpec
    jobs: Sequence[Admitted] = ()
    admit: Callable[[dict[str, Any]], Admitted]

    @property
    def seed(self) -> int:
        return self.spec.seed

    @property
    def min_learners(self) -> int:
        return self.spec.min_learners

    @property
    def min_left(self) -> int:
        return 1

    @property
    def max_model_bytes(self) -> int:
        return max([self.spec.max_model_bytes, *(job.plan.terms.model_bytes for job in self.jobs)])

    @property
    def import_paths(self) -> Sequence[str]:
        paths = [job.plan.job.model.import_path for job in self.jobs]
        return [path for path in paths if path is not None]

    def orchestrator(self, around: Surroundings) -> Pool:
        around = replace(around, emit=self.emit, started_at=self.started_at)
        return Pool(self.spec, self.jobs, around, self.admit)


@dataclass(frozen=True, kw_only=True)
class SplitLaunch(Launch[Trunk]):
    """A run of a split job.

    Attributes:
        save: keeps what was learned, in the end.
        make_meter: tells what the trunk takes, where it runs in real time.
    """

    plan: SplitPlan
    save: Callable[[int, State], None] = lambda epoch, state: None
    make_meter: MakeMeter = lambda clock: ProcessMeter(PowerModel(), clock)

    @property
    def seed(self) -> int:
        return self.plan.job.seed

    @property
    def min_learners(self) -> int:
        return self.plan.job.sources

    @property
    def min_left(self) -> int:
        return 1

    @property
    def max_model_bytes(self) -> int:
        return self.plan.max_message_bytes

    @property
    def import_paths(self) -> Sequence[str]:
        path = self.plan.job.model.import_path
        return () if path is None else (path,)

    @property
    def command(self) -> str:
        return "split"

    @property
    def options(self) -> Sequence[str]:
        path = self.plan.job.data.path
        return () if path is None else ("--data", path, "--apply-view")

    def orchestrator(self, around: Surroundings) -> Trunk:
        return self.trunk(around, ThreadEngine(), self.make_meter)

    def trunk(self, around: Surroundings, engine: Engine, make_meter: MakeMeter) -> Trunk:
        """The same, whose own work is done and metered so."""
        around = replace(around, emit=self.emit, save=self.save, started_at=self.started_at)
        return Trunk(self.plan, engine, around, make_meter)


class Fleet(ABC):
    """Devices, and where they run."""

    @abstractmethod
    def run(self, launch: Launch[C]) -> C:
        """Play all rounds; blocks until the run is over, and returns its orchestrator.

        Leaves no process, thread or port behind, however it ends.
        """
