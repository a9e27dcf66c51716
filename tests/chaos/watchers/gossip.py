"""Watches peers: their epochs, their mass, and that each model is a mean of what was trained."""

import dataclasses
import math
from collections import defaultdict

import torch

from paceline.errors import PacelineError
from paceline.topologies.gossip.events import EpochEnded, GossipEnded, PeerEnded, PeerStarted
from paceline.topologies.gossip.mass import FULL_MASS
from tests.topologies.gossip.masses import total_mass

_TOLERANCE = {"none": 1e-4, "int8": 0.2}  # of what lies between the models that were trained


class GossipWatcher:
    """Watches the peers of a job."""

    def __init__(self, world):
        self._world = world
        self._peers = []
        self._begun = []  # peers, and the mass that they began with
        self._lowest, self._highest = None, None
        self._epochs = {}  # by learner: the last epoch of its life
        self._final = {}
        world.is_honest = lambda name: not name.startswith("mallory")

    def longest_seconds(self):
        """Return how long the epochs may take."""
        job = self._world.job
        return job.epochs * (10 + 10 * job.patience_seconds) + 200

    def watch(self, prepared):
        """Watch a run that is about to start."""
        self._peers, self._begun, self._restored, self._arrivals = [], [], [], defaultdict(dict)
        self._epochs.clear()
        plan = prepared.plan
        make, make_host = plan.member, plan.host

        def member(node, host):
            watched = dataclasses.replace(node, machine=_WatchedMachine(node.machine, self._trained))
            peer = make(watched, host)
            self._watch_peer(peer)
            return peer

        def host(env):
            self.host = make_host(dataclasses.replace(env, emit=self._after(env.emit)))
            return self.host

        plan.member, plan.host = member, host

    def _watch_peer(self, peer):
        self._peers.append(peer)
        exchange, begin, on_epoch = peer._exchange, peer._exchange.begin, peer._on_epoch
        self._trained(peer._progress.parameters)

        def begun(mass):
            self._begun.append((peer, mass))
            begin(mass)

        def after_epoch(name, epoch, parameters):
            self._check_model(name, epoch, parameters)
            self._check_mass()
            on_epoch(name, epoch, parameters)

        def arrived(transfer, mass):
            self._arrivals[transfer, peer.name][peer] = mass
            arrive(transfer, mass)

        exchange.begin, peer._on_epoch = begun, after_epoch
        if self._world.job.exchange == "push-sum":
            arrive, exchange.account.arrive = exchange.account.arrive, arrived
        if peer._restored is not None and peer._restored[1] is not None:
            self._go_on(peer, peer._restored[1])

    def _go_on(self, peer, mass):
        """Take note of the mass that a peer goes on with; it takes the place of its former life, if there was one."""
        former = [one for one in self._peers if one.name == peer.name and one is not peer]
        self._peers = [one for one in self._peers if one not in former]
        self._begun = [(one, begun) for one, begun in self._begun if one not in former]
        self._restored = [(name, state) for name, state in self._restored if name != peer.name]
        self._restored.append((peer.name, mass))

    def _trained(self, parameters):
        vector = parameters["float32"]
        if not bool(vector.isfinite().all()):
            self._world.fail("a peer trained from something that is not finite")
        if self._lowest is None:
            self._lowest, self._highest = vector.clone(), vector.clone()
        self._lowest, self._highest = torch.minimum(self._lowest, vector), torch.maximum(self._highest, vector)

    def _check_model(self, name, epoch, parameters):
        job, vector = self._world.job, parameters["float32"]
        if not bool(vector.isfinite().all()):
            self._world.fail(f"the model of {name} is not finite after epoch {epoch}")
        if not job.overlaps:
            tolerance = _TOLERANCE[job.compression]
            is_between = (vector >= self._lowest - tolerance) & (vector <= self._highest + tolerance)
            if not bool(is_between.all()):
                self._world.fail(f"the model of {name} after epoch {epoch} is no mean of what was trained")

    # Mass.

    def _check_mass(self):
        if self._world.job.exchange != "push-sum":
            return
        given = defaultdict(int)  # by life, what others gave it
        for peer in self._peers:
            for life, mass in peer._exchange._shared.items():
                given[life] += mass
        taken = {f"{peer.name}/{peer._membership.me.life}": mass for peer, mass in self._begun}
        fresh = sum(mass == FULL_MASS and not given.get(life) for life, mass in taken.items())
        adopted = sum(mass for life, mass in taken.items() if given.get(life))
        total = total_mass([peer._exchange.account for peer in self._peers])
        expected = FULL_MASS * fresh + adopted - sum(given.values())
        arrived = {transfer for _, state in self._restored for transfer in state.arrived}
        for _, state in self._restored:
            expected += state.held
            expected += sum(push.mass for push in state.under_way if push.transfer not in arrived)
        for arrivals in self._arrivals.values():
            # What came to a life that left nothing, and was not confirmed, comes again to the next one.
            masses = [mass for peer, mass in arrivals.items() if peer in self._peers]
            expected += sum(masses[1:])
        if total != expected:
            self._world.fail(f"mass adds up to {total / FULL_MASS}, not {expected / FULL_MASS}")
        if any(peer._exchange.account.mass < 0 for peer in self._peers):
            self._world.fail("a mass is below 0")

    # Events.

    def _after(self, record):
        def emit(event):
            record(event)
            self._see(event)

        return emit

    def _see(self, event):
        match event:
            case PeerStarted():
                self._epochs[event.learner] = event.epoch - 1
            case EpochEnded():
                if event.epoch != self._epochs.get(event.learner, 0) + 1:
                    self._world.fail(f"epoch {event.epoch} of {event.learner} after {self._epochs.get(event.learner)}")
                self._epochs[event.learner] = event.epoch
                if not math.isfinite(event.mass) or event.mass < 0:
                    self._world.fail(f"{event.learner} has a mass of {event.mass}")
            case PeerEnded():
                self._final[event.learner] = event

    # After the run.

    def check_error(self, error):
        """Judge the error that a run ended with: nobody may be left to join."""
        text = str(error)
        have_gone = "all peers that train this job have gone" in text or "are left, and the run needs" in text
        is_lonely = have_gone and self._world.schedule.of("kill", "cut", "lose")
        if not (isinstance(error, PacelineError) and is_lonely):
            self._world.fail(f"the run ended with {type(error).__name__}: {error}")

    def check(self, record):
        """Check what is left after the run."""
        self._check_mass()
        if self._world.error is not None or self._world.has_stalled:
            return
        final = self._world.folder / "checkpoints" / "final.safetensors"
        if not final.is_file():
            self._world.fail("the run is over, and its final model is not there")
        if self._world.was_done:
            return
        ends = [event for event in record if isinstance(event, GossipEnded)]
        if len(ends) != 1 or not ends[0].averaged:
            self._world.fail(f"the run ended with {ends}")
        state = self._world.ended.state
        if not all(bool(tensor.isfinite().all()) for tensor in state.values()):
            self._world.fail("the final model is not finite")
        for peer in self._peers:
            exchange = peer._exchange
            if hasattr(exchange, "_waiting") and len(exchange._waiting) > 64:
                self._world.fail(f"{len(exchange._waiting)} models wait at {peer.name}")
            if len(list(peer._membership.everybody())) > 2 * len(self._world.schedule.devices):
                self._world.fail(f"{peer.name} knows {len(list(peer._membership.everybody()))} peers")


class _WatchedMachine:
    """A machine whose trainers show what they trained."""

    def __init__(self, machine, show):
        self._machine = machine
        self._show = show

    def __getattr__(self, name):
        return getattr(self._machine, name)

    def trainer(self, spec):
        trainer = self._machine.trainer(spec)
        train = trainer.train

        async def shown(parameters, shards, *options):
            trained = await train(parameters, shards, *options)
            self._show(trained.parameters)
            return trained

        trainer.train = shown
        return trainer
