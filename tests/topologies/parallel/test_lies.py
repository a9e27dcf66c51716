"""An orchestrator that lies: its learners end with one clear line, whatever they are told."""

import random

import numpy as np
import pytest
import torch

from paceline.allocation import Allocation
from paceline.axon.transports.memory import MemoryNetwork
from paceline.errors import PacelineError
from paceline.fleets import virtual_loop
from paceline.fleets.modelled import Condition, ModelledTrainer
from paceline.learning.training import LocalModel
from paceline.learning.vectors import Layout
from paceline.topologies.parallel import (
    Learner,
    LearnerOptions,
    Orchestrator,
    Surroundings,
    hosted,
    in_place,
    make_plan,
    reach,
)
from paceline.topologies.parallel.hosting import DEVICE
from paceline.topologies.parallel.messages import Standing, Ticket, Work
from tests.topologies.parallel.runs import device, small_job


class Liar(Orchestrator):
    """Answers as told, where it is told what to answer."""

    def __init__(self, plan, state, lies):
        super().__init__(plan, state, Surroundings(emit=lambda event: None, aside=in_place, clock="virtual"))
        self._state, self._lies = state, lies
        self.declared = []

    async def declare(self, session: str, standing: Standing) -> None:
        self.declared.append((standing.max_shards, standing.profile))

    async def next_round(self, session: str, after: int, state: str | None) -> Ticket:
        return self._lies["ticket"](self, after)

    async def take(self, session: str, round: int, num_shards: int) -> Work:
        parameters = Layout(self._state).pack(self._state)
        return self._lies["work"](Work(parameters=parameters, shards=self._plan.shards([0]), seconds_left=3.0))


def open_round(number):
    return Ticket(status="open", round=number, seconds_left=3.0, allocation=Allocation(1, 1))


def believe(lies, policy="dab", **options):
    """What a learner makes of the lies: returns the reason of its end, and who told it; raises what it raises."""
    plan, state = make_plan(small_job(policy))

    async def main():
        network, liar = MemoryNetwork(), Liar(plan, state, lies)
        model = LocalModel(plan.task)

        def make_trainer(task):
            condition = Condition(device("a"), network.host("a").line, random.Random(0))
            return ModelledTrainer(task, model.parameters(), model, condition, 0)

        async with hosted(liar, plan.terms.model_bytes, transport=network.host(DEVICE)) as address:
            remote = reach(str(address), transport=network.host("a"))
            return await Learner(remote, "a", make_trainer, options=LearnerOptions(**options)).run(), liar

    return virtual_loop.run(main())


def changed(change):
    def lie(work):
        return Work(parameters=change(dict(work.parameters)), shards=work.shards, seconds_left=work.seconds_left)

    return lie


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (changed(lambda parameters: {}), r"do not fit the model: parameters .* are missing"),
        (changed(lambda parameters: {"float32": parameters["float32"][:-1]}), "do not fit the model: float32"),
        (changed(lambda parameters: {"float32": parameters["float32"].double()}), "do not fit the model: float32"),
        (changed(lambda parameters: {**parameters, "int64": torch.zeros(1)}), "do not fit the model"),
        (lambda work: Work(parameters=work.parameters, shards=[], seconds_left=3.0), "no shards to train on"),
        (
            lambda work: Work(parameters=work.parameters, shards=[(x, y + np.uint8(99)) for x, y in work.shards]),
            "a shard has labels from",
        ),
    ],
)
def test_work_that_is_none_ends_a_learner_with_one_line(lie, told):
    with pytest.raises(PacelineError, match=told) as raised:
        believe({"ticket": lambda liar, after: open_round(after + 1), "work": lie})
    assert "\n" not in str(raised.value)


def test_rounds_that_do_not_go_on_end_a_learner():
    with pytest.raises(PacelineError, match="opened round 1 after round 1"):
        believe({"ticket": lambda liar, after: open_round(1), "work": lambda work: work})


def test_whoever_joins_again_declares_again():
    told = iter([LookupError("not known here"), Ticket(status="over", reason="enough")])

    def answer(liar, after):
        next_told = next(told)
        if isinstance(next_told, LookupError):
            raise next_told
        return next_told

    reason, liar = believe({"ticket": answer}, policy="eta", max_shards=3)
    assert reason == "enough"
    assert liar.declared == [(3, None), (3, None)]
