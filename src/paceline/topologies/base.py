"""The contract of a topology: the jobs it trains, the plan it makes of one, and the roles that carry a plan out.

A topology is one folder. A fleet knows none of them: it asks the plan for its host, the role that stays with the run,
and for a member on each device, gives each an environment, and lets them talk.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec
import torch

import paceline
from paceline import allocation, axon
from paceline.allocation import AllocationPolicy
from paceline.axon import Limits
from paceline.axon.keys import DeviceKey
from paceline.axon.metrics import Metric, Sample
from paceline.axon.transports import CountedTransport, HttpTransport
from paceline.axon.transports.mounted import MountedTransport
from paceline.axon.worker.monitoring import METRICS_PATH, MetricSource
from paceline.checks import MOST, Spec, check_fields
from paceline.devices.machines import LiveMachine, Machine
from paceline.devices.profiles import Profile
from paceline.errors import ConfigError, PacelineError
from paceline.events import Emit, Event
from paceline.learning import aggregation
from paceline.learning.aggregation import Aggregation
from paceline.learning.averaging import State
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.shards import Shard
from paceline.learning.training_spec import TrainingSpec
from paceline.topologies.access import (
    ADMIN_CALLS,
    HTTP,
    HTTPS,
    Administration,
    AuditedAccess,
    AuditLog,
    HostAccess,
    Proof,
    Right,
    prove,
)
from paceline.topologies.consent import Disclosure
from paceline.topologies.events import Metrics
from paceline.topologies.job_tables import table_fields

if TYPE_CHECKING:
    from paceline.learning.checkpoints import Checkpoint
    from paceline.learning.saved_models import SavedModel
    from paceline.topologies.reporting.base import Progress, Reporting

T = TypeVar("T")
E = TypeVar("E", bound=Event)


class Save(Protocol):
    """Keeps a model under the number of a round, or parameters under a name, such as ``final``.

    All events so far are on the disk before, and the model is when it returns; raises `DiskError` if either cannot be.
    """

    def __call__(
        self, key: int | str, state: State, model: SavedModel | None = None, notes: Mapping[str, str] | None = None
    ) -> None: ...


def save_nothing(
    key: int | str, state: State, model: SavedModel | None = None, notes: Mapping[str, str] | None = None
) -> None:
    """Keep nothing."""


class Load(Protocol):
    """Reads what was kept under a number or a name; raises `ConfigError` if there is nothing, or it is damaged.

    Attributes:
        rounds: numbers under which there is something, oldest first.
        jobs: what the run kept of the jobs in it, by name.
    """

    @property
    def rounds(self) -> Sequence[int]: ...

    @property
    def jobs(self) -> Mapping[str, KeptJob]: ...

    def __call__(self, key: int | str) -> State: ...

    def read_whole(self, key: int | str) -> Checkpoint:
        """Read the notes, too."""
        ...


class KeptJob(NamedTuple):
    """What a run kept of a job in it: its resolved tables, what it goes on from, and what reads the rest."""

    settings: Mapping[str, Any]
    recovered: Recovered
    load: Load


_OVERHEAD_BYTES = 1 << 20  # of a message, besides the parameters in it


# Jobs.


class JobSpec(Spec, frozen=True, kw_only=True):
    """Base of jobs: what is trained, on what, and by which rules; `ValueError` for what cannot be.

    A field that is a table in a job file takes more than the spec that it becomes: a name, such as
    ``model="two-nn"``; a table, such as ``optimizer={"name": "Adam", "lr": 0.01}``; and a class or function of the
    user's, such as ``model=Net``. See `TableField`.

    Attributes:
        table: the table of a job file that announces this kind of job, and holds its plain fields.
        tables: fields that are tables of their own in a job file.
        nested: the field with further jobs, which a job file lists by their files; empty if there is none.
    """

    table: ClassVar[str]
    tables: ClassVar[tuple[str, ...]] = ()
    nested: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, table in table_fields(type(self), self.tables).items():
            given = getattr(self, name)
            if given is not None:
                try:
                    msgspec.structs.force_setattr(self, name, table.make(given))
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
        check_fields(self)

    def described(self) -> dict[str, Any]:
        """Return the tables of a job file that make this job, every default spelled out."""
        apart = (*self.tables, self.nested)
        rules = {name: getattr(self, name) for name in self.__struct_fields__ if name not in apart}
        parts = {name: getattr(self, name) for name in self.tables}
        return {
            self.table: _without_none(rules),
            **{name: _described(part) for name, part in parts.items() if part is not None},
        }


def _described(part: Any) -> Any:
    if isinstance(part, AllocationPolicy):
        return _without_none(allocation.describe(part))
    if isinstance(part, Aggregation):
        return _without_none(aggregation.describe(part))
    if isinstance(part, OptimizerSpec):
        return {"name": part.name, "schedule": part.schedule, **part.options}
    plain = msgspec.to_builtins(part)
    return _without_none(plain) if isinstance(plain, dict) else plain


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None and value != ""}


# What a role gets from where it runs.


async def run_in_thread(work: Callable[[], T]) -> T:
    """Do heavy work without holding up the loop."""
    return await asyncio.to_thread(work)


async def run_in_place(work: Callable[[], T]) -> T:
    """Do heavy work at once: on virtual time it takes none, and threads would make the order a matter of chance."""
    return work()


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What a role needs from where it runs.

    Attributes:
        clock: recorded with the run; roles tell time by `now` and by the running loop alone.
        emit: receives the role's events.
        save: keeps what was learned.
        now: seconds since the run started.
        run_blocking: does heavy work.
        machine: does the role's own work.
        trains: whether models really learn; else only time passes.
        rng: draws what nobody may foresee, such as who is audited.
        open_nested: opens the record of a job inside this one; returns its `emit` and `save`.
        is_stopping: whether the run is to end early: after the round or epoch in progress, with what was learned.
        folder: folder of the run, where it is kept what must outlive the process; None if there is none.
        access: decides who may join, where others can; None where all devices are the fleet's own.
        metrics: returns figures of the run, for those who watch its host.
    """

    clock: Literal["live", "virtual"] = "live"
    emit: Emit = lambda event: None
    save: Save = save_nothing
    now: Callable[[], float] = lambda: asyncio.get_running_loop().time()
    run_blocking: Callable[[Callable[[], Any]], Awaitable[Any]] = run_in_thread
    machine: Machine = field(default_factory=LiveMachine)
    trains: bool = True
    rng: random.Random = field(default_factory=random.SystemRandom)
    open_nested: Callable[[JobSpec], tuple[Emit, Save]] = lambda job: (lambda event: None, save_nothing)
    is_stopping: Callable[[], bool] = lambda: False
    folder: Path | None = None
    access: HostAccess | None = None
    metrics: MetricSource = tuple

    def record(self, kind: type[E], *, digits: int | None = None, **fields: Any) -> E:
        """Emit an event that happens now, its time rounded to so many digits, and return it."""
        now = self.now()
        event = kind(at=now if digits is None else round(now, digits), **fields)
        self.emit(event)
        return event

    def nested(self, job: JobSpec) -> Environment:
        """Return the environment of a job inside this one, with a record of its own."""
        emit, save = self.open_nested(job)
        return replace(self, emit=emit, save=save)


class Contact(NamedTuple):
    """Whom to join: an address, and the fingerprint of its certificate, if that is self-made."""

    address: str
    fingerprint: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """What the owner of a device decides.

    Attributes:
        max_shards: the most it takes in a round; None for what the policy says.
        price: what it asks for a shard, where work is paid for.
        data: path, or import path, of data of its own, which never leaves the device.
        part: number and count of the part that it holds of that data or, without any, of the job's data, from 1.
        applies_view: whether its data is seen as the job says; else it is taken as it is.
        allowed: import paths of models, tasks, policies and others that it may load; None for any.
        patience_seconds: how long it tries to reach a host that does not answer.
        store_url: the Redis server where figures are shared; None to share them directly.
        contention: a file that says how this device slows down beside others.
        is_private: whether it takes no part where it would have to send what it can do, or its data.
        state_file: file in which it keeps how far it is, and goes on from; None to keep that nowhere.
        behind_nat: whether others cannot call it, and have to by way of one that they can.
        passes_calls: whether it passes calls on to those that cannot be called.
    """

    max_shards: int | None = None
    price: float = 0.0
    data: str | None = None
    part: tuple[int, int] | None = None
    applies_view: bool = False
    allowed: Collection[str] | None = None
    patience_seconds: float = 300.0
    store_url: str | None = None
    contention: Path | None = None
    is_private: bool = False
    state_file: Path | None = None
    behind_nat: bool = False
    passes_calls: bool = True

    def __post_init__(self) -> None:
        if self.max_shards is not None and self.max_shards < 1:
            raise ConfigError(f"max_shards is {self.max_shards}; it must be at least 1")
        if not 0 <= self.price <= MOST:
            raise ConfigError(f"price is {self.price}; allowed: 0 to {MOST:g}")


@dataclass(frozen=True, kw_only=True)
class Node(Environment):
    """A device as the role on it finds it.

    Attributes:
        number: its place among the devices of a fleet.
        num_devices: number of devices in the fleet.
        life: grows when the device comes back under its name.
        contacts: whom to join: the host, or other members where there is none; none for the first of all.
        transport: carries its calls, and counts their bytes.
        trust: further settings of `axon.connect`: token, ca_file, cert_file and key_file.
        fingerprint: fingerprint of its own certificate.
        key: proves that it is the same device as before; None where nobody asks for that.
    """

    name: str
    number: int = 0
    num_devices: int = 1
    life: int = 1
    contacts: Sequence[Contact] = ()
    transport: CountedTransport = field(default_factory=lambda: CountedTransport(HttpTransport()))
    trust: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str | None = None
    key: DeviceKey | None = None
    options: DeviceOptions = DeviceOptions()

    def connect(
        self,
        interface: type,
        *,
        timeout_seconds: float = 60.0,
        contact: Contact | None = None,
        path: str = "",
        **options: Any,
    ) -> axon.Remote:
        """Return the host, or another contact, to be called.

        Args:
            path: where the calls are that `Role.further_calls` names; empty for the others.
            options: further fields of `axon.CallOptions`.
        """
        address, fingerprint = contact or self.contacts[0]
        trust = {**self.trust, **({} if fingerprint is None else {"fingerprint": fingerprint, "ca_file": None})}
        transport = MountedTransport(self.transport, path) if path else self.transport
        return axon.connect(
            address, interface=interface, transport=transport, timeout_seconds=timeout_seconds, **trust, **options
        )

    async def prove(self, host: axon.Remote) -> Proof | None:
        """Sign what the host asks for, to join it; None if this device has no key."""
        if self.key is None:
            return None
        address, fingerprint = self.contacts[0]
        channel = fingerprint or (HTTPS if address.startswith(f"{HTTPS}:") else HTTP)
        return prove(self.key, channel, str(await host["challenge"].coro()), self.name)


# Roles.


class Role(ABC):
    """One side of a topology, on one device or with the run.

    Attributes:
        calls: methods that others may call over the network; none if nobody calls this role.
        further_calls: methods that others may call below a path, and learn of only there.
        rights: right that a call needs, where that is not to take part.
        is_ending: whether it is about to end, so that nobody should begin to rely on it; set by where it runs.
        audit: record of who was refused because of its token; None where nobody keeps one, or `HostAccess` does.
    """

    calls: ClassVar[frozenset[str]] = frozenset()
    further_calls: ClassVar[Mapping[str, frozenset[str]]] = {}
    rights: ClassVar[Mapping[str, Right]] = {}
    is_ending = False
    audit: AuditLog | None = None

    @abstractmethod
    async def run(self, address: str) -> Any:
        """Do this role's part until the run is over. Others can call at this address, empty if nobody can."""

    async def suspend(self) -> None:
        """Finish what is open, begin nothing further, and return: the process is about to end, and `run` is cancelled.

        Others are not told that the run is over, since it may go on later. Where `is_stopping` says that this role is
        to end early, it goes on to that instead.
        """

    def status(self) -> dict[str, Any]:
        """Return how far it is, for whoever asks over the network: plain values by name."""
        return {}

    def device_states(self) -> Mapping[str, int]:
        """Return how many devices are in which state, as far as this role knows others."""
        return {}

    def current_state(self) -> State:
        """Return what was learned so far, for whoever asks; raises `ValueError` if that is not here."""
        raise ValueError("this role has no model")


class Outcome(NamedTuple):
    """What came of a run.

    Attributes:
        state: what was learned, by name; empty where there are several jobs.
        metrics: final figures: ``loss`` and the metrics by name, None if they were not measured, and others.
        jobs: outcomes of the jobs of a pool, by name.
    """

    state: State
    metrics: dict[str, Any]
    jobs: Mapping[str, Outcome] = {}


class Host(Role):
    """The role that stays with the run: the server that devices join, or one who only watches."""

    def __init__(self, env: Environment) -> None:
        self.env = env

    @property
    @abstractmethod
    def outcome(self) -> Outcome:
        """What came of the run, once it is over."""

    @property
    @abstractmethod
    def min_left(self) -> int:
        """Number of devices that the run needs to go on, from here."""

    async def drain(self) -> None:
        """Wait, but not long, until all devices have heard that the run is over."""

    def hear(self, event: Event) -> None:
        """Take an event of a member that a fleet passes on; it happens now, for the clock of a device may be wrong."""
        self.note(msgspec.structs.replace(event, at=self.env.now()))

    def note(self, event: Event) -> None:
        """Record an event of a member."""
        self.env.emit(event)

    def connected(self) -> Collection[str]:
        """Return the names of devices that take part."""
        return ()

    def dismiss(self, name: str, reason: str) -> None:
        """End the session of a device, if it has one."""

    def member_ended(self, name: str, finished: Finished | None) -> None:
        """Take note that a member ended, and how; None if it died or failed, maybe to come back."""


class Recovered(NamedTuple):
    """What an interrupted run goes on from.

    Attributes:
        events: what stays in its record.
        lost: what cannot be gone on from, or is missing in the record, each in a sentence.
        damaged: rounds whose checkpoints are of no use, to be removed.
        is_over: whether the record says that the run ended there.
    """

    events: list[Event]
    lost: Sequence[str] = ()
    damaged: Sequence[int] = ()
    is_over: bool = False


class Finished(NamedTuple):
    """How a member ended: why, and the model that it ends with, if it has one to show."""

    reason: str
    state: State | None = None


class CannotKeepUp(PacelineError):
    """This device is too slow to take part.

    Attributes:
        least_seconds: shortest deadline with which it could; infinite if none is known.
    """

    def __init__(self, message: str, least_seconds: float = math.inf) -> None:
        super().__init__(message)
        self.least_seconds = least_seconds


class Member(Role):
    """The role on a device."""

    @abstractmethod
    async def run(self, address: str) -> Finished:
        """Take part until the run is over.

        Raises `CannotKeepUp` or `TurnedAway` where the run can go on without this device.
        """

    @abstractmethod
    async def leave(self) -> None:
        """Take no further part, and say so to others that can be reached."""

    async def measure(self) -> Profile:
        """Join, measure this device and its link, and leave; raises `ConfigError` where nothing is measured."""
        raise ConfigError("devices that join there do not measure themselves")


J = TypeVar("J", bound=JobSpec)


def import_paths_of(job: JobSpec) -> Sequence[str]:
    """Return what of the user's own a device has to import for a job, and so to allow."""
    policy = getattr(job, "allocation", None)
    kept = (("task", "import_path"), ("model", "import_path"), ("data", "transform"))
    paths = [getattr(getattr(job, table, None), name, None) for table, name in kept]
    return tuple(path for path in (*paths, policy and allocation.describe(policy)["policy"]) if path and ":" in path)


class Plan(ABC, Generic[J]):
    """A job made ready to run: its data loaded, its model built.

    Attributes:
        min_devices: devices that a run needs to begin.
        max_message_bytes: most bytes of parameters in a message; anything larger is refused unread.
        seed: seed of everything that a fleet draws at random.
        needs_gradients: whether its messages are made of gradients, so that no time can be simulated without.
    """

    needs_gradients: ClassVar[bool] = False

    def __init__(
        self, topology: Topology[Any], job: J, *, min_devices: int, max_message_bytes: int, seed: int = 0
    ) -> None:
        self.topology = topology
        self.job = job
        self.min_devices = min_devices
        self.max_message_bytes = max_message_bytes
        self.seed = seed

    @property
    def import_paths(self) -> Sequence[str]:
        """What devices have to import."""
        return import_paths_of(self.job)

    @property
    def job_names(self) -> Sequence[str]:
        """Names of the jobs in it, where there are several."""
        return ()

    @property
    def public_tables(self) -> dict[str, Any]:
        """Tables of the job that a device is shown before it joins; all where it has to know the job."""
        return {} if self.topology.is_served else self.job.described()

    def benchmark_work(self, num_shards: int | None = None) -> tuple[TrainingSpec, Sequence[Shard]]:
        """Return what a device measures its speed with: some shards, or as many as the job says.

        Raises `ConfigError` where devices train nothing alone, or no shards are here.
        """
        raise ConfigError(f"devices of {self.topology.name} train nothing alone that could be measured")

    def device_options(self, number: int, count: int) -> Sequence[str]:
        """Return options of the command that starts device `number` of `count`, counted from 1, without own data."""
        return ()

    @abstractmethod
    def host(self, env: Environment) -> Host:
        """Make the role that stays with the run."""

    @abstractmethod
    def member(self, node: Node, host: Host | None) -> Member:
        """Make the role of a device.

        Args:
            host: if it is in this process.
        """


COMMAND_WITHOUT_HOST = "gossip"
"""Command of ``paceline`` that starts a member where devices join each other, of any topology."""


class Topology(ABC, Generic[J]):
    """A way to train together: who talks to whom.

    Attributes:
        kinds: its kinds of job, and how runs of each are reported.
        is_served: whether devices join a host; else they join each other.
        noun: what a device is called here, such as learner, source or peer.
        used_options: fields of `DeviceOptions` that have an effect here.
    """

    name: ClassVar[str]
    kinds: ClassVar[Mapping[type[JobSpec], Reporting]]
    is_served: ClassVar[bool] = True
    noun: ClassVar[str] = "learner"
    used_options: ClassVar[Collection[str]] = tuple(field.name for field in fields(DeviceOptions))

    @abstractmethod
    def prepare(self, job: J) -> Plan[Any]:
        """Load a job's data and build its model; raises `ConfigError`."""

    @abstractmethod
    def join(self, node: Node) -> Member:
        """Make the role of a device that knows nothing but whom to join; only where there is a host."""

    def disclosures(self, tables: Mapping[str, Any], options: DeviceOptions) -> Sequence[Disclosure]:
        """List what leaves a device that joins, besides its name and the version of Paceline; raises `ConfigError`.

        Args:
            tables: what the host shows of the job: `Plan.public_tables`.
        """
        return [Disclosure(f"whatever the topology {self.name} sends: it does not say", is_private=True)]

    def device_progress(self) -> Progress:
        """Begin the lines that a device prints about itself."""
        return next(iter(self.kinds.values())).progress()

    def events_to_keep(self, events: Sequence[Event]) -> list[Event]:
        """Choose the events of an interrupted run that stay in its record when it goes on."""
        return list(events)

    def recover(self, job: J, events: Sequence[Event], load: Load) -> Recovered:
        """Choose what an interrupted run goes on from: the newest state of which all is whole.

        Raises `ConfigError` if there should be one, and is not.

        Args:
            events: those that are whole; others may be missing between them.
        """
        return Recovered(self.events_to_keep(events))

    def can_resume(self, job: J) -> bool:
        """Return whether a run of this job can go on after it was interrupted."""
        return False

    def resume(self, job: J, recovered: Recovered, load: Load) -> Plan[Any]:
        """Prepare a run that was interrupted, to go on after the last round in its events.

        If nothing is left to do, and its end was not recorded, that is all that the run does: with no device.
        Raises `ConfigError` if there is nothing to go on with, or runs of this topology cannot.

        Args:
            recovered: what `recover` chose.
            load: reads the checkpoint of a round, and what else was kept.
        """
        raise ConfigError(f"a run of {self.name} cannot be resumed; what it saved is kept")


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What runs at an address.

    Attributes:
        job: the tables of the job that devices need to know before they join.
        status: how far it is.
    """

    topology: str
    paceline: str
    job: dict[str, Any] = {}
    status: dict[str, Any] = {}


@contextlib.asynccontextmanager
async def serving(
    role: Role, plan: Plan[Any], name: str, env: Environment | None = None, **settings: Any
) -> AsyncIterator[str]:
    """Let others call a role while the block runs; the address is empty if it has nothing to call.

    A host whose environment has an `access` is called by whom that lets in.

    Args:
        name: name of the device.
        env: environment of the role, whose figures are shown at ``/metrics``; None to show those of calls only.
        settings: as for `axon.Worker.serving`.
    """
    if not role.calls:
        yield ""
        return
    most = plan.max_message_bytes
    limits = Limits(max_body_bytes=most + most // 8 + _OVERHEAD_BYTES)
    worker = _offering(role, role.calls, name, limits)
    for path, calls in role.further_calls.items():
        worker.mount(path, _offering(role, calls, name, limits))
    topology = plan.topology
    job = plan.public_tables

    async def describe() -> Description:
        return Description(topology=topology.name, paceline=paceline.__version__, job=job, status=role.status())

    async def model() -> dict[str, torch.Tensor]:
        return dict(role.current_state())

    worker.rpc(name="describe")(describe)
    worker.rpc(name="model")(model)
    if env is not None:
        is_stopping = env.is_stopping
        worker.monitoring.is_draining = lambda: role.is_ending or is_stopping()
        worker.monitoring.sources += (lambda: _device_metrics(role), env.metrics)
    if isinstance(role, Host) and role.env.access is not None:
        settings["access"] = _guard(worker, role, role.env.access)
    elif role.audit is not None:
        settings["access"] = AuditedAccess(settings.get("token"), role.audit)
    async with worker.serving(grace_seconds=0.5, **settings) as address:
        yield str(address)


def _offering(role: Role, calls: Collection[str], name: str, limits: Limits) -> axon.Worker:
    worker = axon.Worker(name, limits=limits)
    for call in sorted(calls):
        worker.rpc(name=call)(getattr(role, call))
    return worker


def _device_metrics(role: Role) -> Iterator[Metric]:
    samples = [Sample(count, {"state": state}) for state, count in role.device_states().items()]
    yield Metric("paceline_devices", "gauge", "Devices, by state.", samples)


def _guard(worker: axon.Worker, host: Host, access: HostAccess) -> HostAccess:
    """Offer what devices need to join, and admins, and set what each call needs."""

    async def challenge() -> str:
        return access.challenge()

    worker.rpc(name="challenge")(challenge)
    administration = Administration(access, host)
    for call in ADMIN_CALLS:
        worker.rpc(name=call)(getattr(administration, call))
    joining: dict[str, Right] = dict.fromkeys((*host.calls, "challenge"), "join")
    access.protect({**joining, **host.rights, **ADMIN_CALLS, "model": "view", METRICS_PATH: "view"})
    return access


class RoleService(ABC):
    """Calls that every role answers that can be called at all."""

    noun: ClassVar[str] = "a host or peer of a run"

    @abstractmethod
    async def describe(self) -> Description:
        """Return what runs here, and how far it is."""

    @abstractmethod
    async def model(self) -> dict[str, torch.Tensor]:
        """Return what was learned so far, by name; raises `ValueError` where that is not."""


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a job.

    Attributes:
        status: ``waiting``: nobody trains it yet; ``running``; ``over``.
        num_closed: number of rounds that are done, of `rounds`.
        num_learners: number of learners that train it.
        reason: why it is over, once it is, as far as that is known.
    """

    job: str
    status: Literal["waiting", "running", "over"]
    num_closed: int
    rounds: int
    num_learners: int
    reason: str = ""
    loss: float | None = None
    metrics: Metrics = {}

    def flat(self) -> dict[str, Any]:
        """Return the fields by name, and the metrics side by side with them."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        metrics = fields.pop("metrics")
        return {**fields, **metrics}


class TakesJobs(ABC):
    """The calls of a host that takes further jobs."""

    noun: ClassVar[str] = "an orchestrator"
    rights: ClassVar[Mapping[str, Right]] = {
        "submit": "submit",
        "cancel": "submit",
        "progress": "view",
        "follow": "view",
    }

    @abstractmethod
    async def submit(self, tables: dict[str, Any]) -> str:
        """Take in a job, given as the tables of a job file; returns its name. Raises `ValueError` with a reason."""

    @abstractmethod
    async def cancel(self, job: str) -> JobProgress:
        """End a job, with what came of its open round so far, and return how far it was.

        Raises `LookupError` for one not known, and `ValueError` for one that is over, or that cannot end alone.
        """

    @abstractmethod
    async def progress(self) -> list[JobProgress]:
        """Return how far all jobs are."""

    @abstractmethod
    async def follow(self, job: str) -> JobProgress:
        """Wait a while for a job to be over, and return how far it is; raises `LookupError` for one not known."""
