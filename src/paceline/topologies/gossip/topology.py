"""The gossip topology: peers train what they have, and mix what they learn, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from paceline.errors import ConfigError
from paceline.events import Event
from paceline.learning.averaging import State
from paceline.learning.datasets import importable
from paceline.learning.shards import Shard
from paceline.learning.sources import load_own
from paceline.learning.training_spec import TrainingSpec
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
from paceline.topologies.consent import Disclosure, check_consent
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.membership import MAX_ENCODED_BYTES
from paceline.topologies.gossip.observer import Observer
from paceline.topologies.gossip.peer import Peer
from paceline.topologies.gossip.peer_data import Holding
from paceline.topologies.gossip.peer_state import of_peer
from paceline.topologies.gossip.prepared import PreparedJob, prepare_job
from paceline.topologies.gossip.report import GossipReporting
from paceline.topologies.gossip.resuming import kept_peers, last_number, recover
from paceline.topologies.reporting.base import Reporting

_BENCHMARK_SAMPLES = 2000  # that a device measures itself with, outside a run


class Gossip(Topology[GossipJob]):
    """Peers that exchange their models with each other."""

    name = "gossip"
    kinds: ClassVar[Mapping[type[JobSpec], Reporting]] = {GossipJob: GossipReporting()}
    is_served = False
    noun = "peer"
    used_options = (
        *("data", "part", "allowed", "patience_seconds", "store_url", "contention", "state_file"),
        *("behind_nat", "passes_calls"),
    )

    def prepare(self, job: GossipJob) -> Plan[Any]:
        return GossipPlan(prepare_job(job))

    def can_resume(self, job: GossipJob) -> bool:
        return True

    def recover(self, job: GossipJob, events: Sequence[Event], load: Load) -> Recovered:
        return recover(events, load)

    def resume(self, job: GossipJob, recovered: Recovered, load: Load) -> Plan[Any]:
        kept, events = kept_peers(recovered, load), recovered.events
        return GossipPlan(prepare_job(job), kept, goes_on=bool(events), num_measured=last_number(events))

    def disclosures(self, tables: Mapping[str, Any], options: DeviceOptions) -> Sequence[Disclosure]:
        found = [
            Disclosure(
                "which peer passes calls on to it: that one sees the models"
                if options.behind_nat
                else "the address where others call it"
            ),
            Disclosure("its speed, in samples per second, and how many samples it has, after each epoch", True),
            Disclosure("models that it trained, and how far it is"),
            Disclosure("loss and metrics of its model, to whoever asks for its status"),
        ]
        if options.part is not None:
            found.append(Disclosure("which parts of the job's data it holds"))
        return found

    def join(self, node: Node) -> Member:
        raise NotImplementedError("a peer has to know the job that it joins; ask another peer what it trains")


class GossipPlan(Plan[GossipJob]):
    """A gossip job made ready to run.

    Args:
        kept: what peers in this process go on from, by `packed_all`; None if they have kept that by themselves.
        goes_on: whether the run was interrupted, and goes on.
        num_measured: how often all peers have been compared.
    """

    def __init__(
        self, prepared: PreparedJob, kept: State | None = None, *, goes_on: bool = False, num_measured: int = 0
    ) -> None:
        job = prepared.job
        largest = prepared.model_bytes + MAX_ENCODED_BYTES  # a model comes with what is known of all peers
        super().__init__(TOPOLOGY, job, min_devices=job.min_peers, max_message_bytes=largest, seed=job.seed)
        self.prepared = prepared
        self._kept = kept or {}
        self._goes_on, self._num_measured = goes_on, num_measured

    def benchmark_work(self, num_shards: int | None = None) -> tuple[TrainingSpec, Sequence[Shard]]:
        if num_shards is not None:
            raise ConfigError("a gossip job's data has no shards; leave out --shards")
        return self.prepared.training, [self.prepared.dataset.train.take(slice(_BENCHMARK_SAMPLES))]

    def device_options(self, number: int, count: int) -> Sequence[str]:
        self.prepared.holdings(count)  # raises now if there is too little data
        importable(self.job.data)
        return ("--data", f"{number}/{count}")

    def host(self, env: Environment) -> Host:
        return Observer(self.prepared, env, goes_on=self._goes_on, num_measured=self._num_measured)

    def member(self, node: Node, host: Host | None) -> Member:
        check_consent(TOPOLOGY.disclosures({}, node.options), node.options.is_private)
        holding = self._holding(node, host is not None)
        if host is None:
            return Peer(self.prepared, node, holding, evaluates=True)
        assert isinstance(host, Observer)
        evaluates = self.job.may_end_early and host.env.trains
        given = of_peer(node.name, self._kept)
        self._kept = {name: tensor for name, tensor in self._kept.items() if not name.startswith(f"{node.name}/")}
        peer = Peer(
            self.prepared,
            node,
            holding,
            evaluates=evaluates,
            on_epoch=host.admit(node),
            is_kept=host.keeps,
            given=given,
        )
        host.see(node.name, peer.state)
        return peer

    def _holding(self, node: Node, is_of_fleet: bool) -> Holding:
        """Return the data of a device; raises `ConfigError` if nothing says which that is."""
        options = node.options
        if options.data is not None and options.part is not None:
            raise ConfigError(
                "a peer holds a part of the job's own data: name the file in the job, and the part as I/N"
            )
        if options.data is not None:
            return self.prepared.own_holding(load_own(options.data, self.job.data.reading))
        if options.part is not None:
            number, count = options.part
            return self.prepared.holdings(count)[number - 1]
        if is_of_fleet:
            return self.prepared.holdings(node.num_devices)[node.number]
        raise ConfigError("say which data this peer has by --data: I/N for a part of the job's, or the path of its own")


TOPOLOGY = Gossip()
