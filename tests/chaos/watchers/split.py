"""Watches a trunk: its epochs one after the other, what is masked, and the model where nothing was."""

import dataclasses
import functools
import tempfile

from paceline.learning import checkpoints
from paceline.topologies.events import LearnerJoined, LearnerLeft
from paceline.topologies.split.events import JunctionChanged, SourceMasked, SplitEnded, SplitEpochEnded
from tests.chaos.small import NUM_TRAIN

_TOLERANCE = 1e-5
_LATE = "takes no further sources"  # what split-learning and images say to newcomers, which ends a virtual run


class SplitWatcher:
    """Watches the trunk of a job."""

    def __init__(self, world):
        self._world = world
        self._names = {}
        self._current = {}
        self._num_epochs = 0
        self._all_names = set()
        world.is_honest = lambda name: not name.startswith("mallory")

    def longest_seconds(self):
        """Return how long the epochs may take."""
        return self._world.job.epochs * 120 + 100

    def watch(self, prepared):
        """Watch a run that is about to start, or to go on."""
        self._names.clear()
        self._current.clear()
        make, last = prepared.plan.host, 0 if prepared.plan._resumed is None else prepared.plan._resumed.epoch
        if last > self._num_epochs + 1:  # one may have been saved, and the process ended before it could say so
            self._world.fail(f"the run goes on after epoch {last}, though epoch {self._num_epochs} ended")
        self._num_epochs = last

        def host(env):
            self.host = make(dataclasses.replace(env, emit=self._after(env.emit)))
            for name in ("join", "leave", "sync"):
                call = getattr(self.host, name)
                wrapped = functools.partial(getattr(self, "_" + name), call)
                setattr(self.host, name, functools.wraps(call)(wrapped))
            return self.host

        prepared.plan.host = host

    def _after(self, record):
        def emit(event):
            record(event)
            self._see(event)

        return emit

    def _see(self, event):
        match event:
            case SplitEpochEnded():
                if event.epoch != self._num_epochs + 1:
                    self._world.fail(f"epoch {event.epoch} ended after epoch {self._num_epochs}")
                self._num_epochs = event.epoch
                job = self._world.job
                per_epoch = -(-NUM_TRAIN // job.batch_size) * len(self._all_names)
                if not 0 <= event.num_masked <= per_epoch:
                    self._world.fail(f"{event.num_masked} inputs were masked of {per_epoch}")
            case LearnerLeft():
                self._current.pop(event.learner, None)

    async def _join(self, call, source, version, *more):
        welcome = await call(source, version, *more)
        self._names[welcome.session], self._current[source] = source, welcome.session
        self._all_names.add(source)
        return welcome

    async def _leave(self, call, session):
        await call(session)
        self._names.pop(session, None)

    async def _sync(self, call, session, epoch, index, tensors):
        name = self._names.get(session)
        is_valid = name is not None and self._current.get(name) == session
        before = None if tensors is None else dict(tensors)
        reply = await call(session, epoch, index, tensors)
        if not is_valid:
            self._world.fail(f"something was synced with a session that is not valid: {name}")
        if before is not None and not all(bool(tensor.isfinite().all()) for tensor in before.values()):
            self._world.fail(f"{name} synced something that is not finite")
        return reply

    # After the run.

    def check_error(self, error):
        """Judge the error that a run ended with."""
        is_late = _LATE in str(error) and self._world.job.scheme in ("split-learning", "images")
        if not is_late:
            self._world.fail(f"the run ended with {type(error).__name__}: {error}")

    def check(self, record):
        """Check what is left after the run."""
        if self._world.error is not None or self._world.has_stalled:
            return
        folder, last = self._world.folder / "checkpoints", [self._world.job.epochs]
        if not (folder / "final.safetensors").is_file() and checkpoints.rounds(folder)[-1:] != last:
            self._world.fail("the run is over, and its final model is not there")
        job, ended = self._world.job, [event for event in record if isinstance(event, SplitEpochEnded)]
        if [event.epoch for event in ended] != list(range(1, job.epochs + 1)):
            self._world.fail(f"the record has epochs {[event.epoch for event in ended]} of {job.epochs}")
        if len([event for event in record if isinstance(event, SplitEnded)]) != 1:
            self._world.fail("the end is not recorded once")
        if self._world.was_done:
            return
        state = self._world.ended.state
        if not all(bool(tensor.isfinite().all()) for tensor in state.values()):
            self._world.fail("what was learned is not finite")
        roster = self.host._roster
        if len(roster._by_key) > 2 * max(len(self._all_names), 1):
            self._world.fail(f"{len(roster._by_key)} sessions are kept of {len(self._all_names)} names")
        self._compare(record, state)

    def _compare(self, record, state):
        """Compare what was learned with the same run left alone, where no input was missing."""
        world, events = self._world, list(record)
        masks = [event for event in events if isinstance(event, SourceMasked)]
        joined = [event.learner for event in events if isinstance(event, LearnerJoined)]
        missing = sum(event.num_masked for event in events if isinstance(event, SplitEpochEnded))
        # With more than one minibatch under way, what they are trained from depends on time.
        is_exact = world.job.depth == 1 and not (masks or missing or world.num_crashes)
        if not world.schedule.faults or not is_exact or len(set(joined)) != len(joined):
            return
        calm = dataclasses.replace(world.schedule, faults=())
        with tempfile.TemporaryDirectory() as folder:
            alone = type(world)(calm, folder).play()
            again = list(alone.record())
        if alone.error is not None or _who(again) != _who(events):
            return  # somebody came or went at another time
        far = max(float((state[name] - tensor).abs().max()) for name, tensor in alone.ended.state.items())
        if far > _TOLERANCE:
            world.fail(f"the model is off by {far:.3g} from that of a run without faults, though no input was missing")


def _who(events):
    """Return who took part in which epoch."""
    junctions = [(event.epoch, event.sources) for event in events if isinstance(event, JunctionChanged)]
    epochs = [(event.num_sources, event.num_masked) for event in events if isinstance(event, SplitEpochEnded)]
    return [event.learner for event in events if isinstance(event, LearnerJoined)], junctions, epochs
