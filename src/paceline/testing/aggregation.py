"""The contract of aggregation methods: what an orchestrator relies on, whatever makes the next parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import ClassVar

import pytest
import torch

from paceline.learning import aggregation
from paceline.learning.aggregation import Aggregated, Aggregation, Update
from paceline.learning.averaging import State
from paceline.learning.vectors import Layout

START: State = {
    "layer.weight": torch.linspace(-1.0, 1.0, 12).reshape(3, 4),
    "layer.bias": torch.linspace(-2.0, 1.0, 3, dtype=torch.float64),
    "half": torch.linspace(-1.0, 0.5, 5, dtype=torch.float16),
    "scale": torch.tensor(0.5),
    "norm.running_var": torch.full((4,), 0.01),
    "norm.num_batches_tracked": torch.tensor(7),
}
BUFFERS = frozenset({"norm.running_var", "norm.num_batches_tracked"})


def make_update(seed: int, *, weight: float = 1.0, num_steps: float = 10.0, size: float = 0.1) -> Update:
    """An update that moves the start at random, each value by about `size`."""
    chance = torch.Generator().manual_seed(seed)
    parameters = {}
    for name, start in START.items():
        moved = start.to(torch.float64) + size * torch.randn(start.shape, generator=chance, dtype=torch.float64)
        parameters[name] = moved.abs().to(start.dtype) if name in BUFFERS else moved.to(start.dtype)
    return Update(parameters, weight, num_steps)


def make_updates(count: int, **changes: float) -> list[Update]:
    """Updates that differ."""
    return [make_update(seed, **changes) for seed in range(count)]


def aggregate(
    method: Aggregation, updates: Iterable[Update], *, start: State = START, memory: State | None = None
) -> Aggregated:
    """Aggregate updates as an orchestrator does; returns the parameters by name, and the memory."""
    layout = Layout(start)
    collector = method.collector(layout, BUFFERS)
    for update in updates:
        collector.add(update._replace(parameters=layout.pack(update.parameters)))
    parameters, remembered = collector.finish(layout.pack(start), memory or {})
    return Aggregated(layout.unpack(parameters), remembered)


def assert_close(state: State, expected: State) -> None:
    """Compare two states, but for rounding."""
    assert state.keys() == expected.keys()
    for name, tensor in state.items():
        torch.testing.assert_close(tensor, expected[name])


class AggregationContract:
    """Inherit and provide a fixture `method`.

    Any method passes that decides from its arguments alone, keeps the model's names, shapes and types, and never fails.

    Attributes:
        has_fixed_point: whether updates that all agree are the next parameters; not so for methods with a step size of
            their own.
    """

    has_fixed_point: ClassVar[bool] = True

    @pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 30])
    def test_names_shapes_and_types_stay_and_values_are_finite(self, method: Aggregation, count: int) -> None:
        parameters = aggregate(method, make_updates(count)).parameters
        assert parameters.keys() == START.keys()
        for name, tensor in parameters.items():
            assert (tensor.shape, tensor.dtype) == (START[name].shape, START[name].dtype)
            assert tensor.isfinite().all()

    def test_without_updates_nothing_changes(self, method: Aggregation) -> None:
        memory = aggregate(method, make_updates(3)).memory
        unchanged = aggregate(method, (), memory=memory)
        assert all(tensor.equal(START[name]) for name, tensor in unchanged.parameters.items())
        assert unchanged.memory is memory or not memory

    @pytest.mark.parametrize("count", [1, 2, 3, 5, 10])
    def test_the_order_of_updates_does_not_matter(self, method: Aggregation, count: int) -> None:
        updates = [
            make_update(seed, weight=1.0 + (0 if method.weight == "equal" else seed), num_steps=5.0 + seed)
            for seed in range(count)
        ]
        expected = aggregate(method, updates)
        for turned in (updates[::-1], updates[count // 2 :] + updates[: count // 2]):
            found = aggregate(method, turned)
            assert_close(found.parameters, expected.parameters)
            assert_close(found.memory, expected.memory)

    @pytest.mark.parametrize("count", [1, 2, 5])
    def test_updates_that_agree_are_the_result(self, method: Aggregation, count: int) -> None:
        update = make_update(0)
        parameters = aggregate(method, [update] * count).parameters
        if self.has_fixed_point:
            assert_close(parameters, update.parameters)
        else:  # it moves that way at least
            change, wanted = (one["layer.weight"] - START["layer.weight"] for one in (parameters, update.parameters))
            assert torch.cosine_similarity(change.flatten(), wanted.flatten(), dim=0) > 0.5

    def test_only_the_ratios_of_weights_matter(self, method: Aggregation) -> None:
        weighed = [make_update(seed, weight=1.0 + seed) for seed in range(5)]
        more = [update._replace(weight=1000 * update.weight) for update in weighed]
        assert_close(aggregate(method, more).parameters, aggregate(method, weighed).parameters)

    def test_an_update_counts_by_its_weight(self, method: Aggregation) -> None:
        if method.weight == "equal":
            pytest.skip("counts all updates alike")
        many = make_update(0, weight=1e9)
        heavy = aggregate(method, [many, *make_updates(4)[1:]])
        assert_close(heavy.parameters, aggregate(method, [many]).parameters)

    def test_buffers_stay_within_what_was_sent(self, method: Aggregation) -> None:
        updates = make_updates(6)
        for name in BUFFERS:
            sent = torch.stack([update.parameters[name] for update in updates])
            found = aggregate(method, updates).parameters[name]
            assert (found >= sent.amin(0) - 1e-6).all() and (found <= sent.amax(0) + 1e-6).all()

    def test_same_arguments_same_result_and_nothing_is_changed(self, method: Aggregation) -> None:
        updates, memory = make_updates(4), aggregate(method, make_updates(3)).memory
        before = _copied([START, memory, *(update.parameters for update in updates)])
        first = aggregate(method, updates, memory=memory)
        aggregate(method, make_updates(7, size=0.5))
        again = aggregate(method, updates, memory=memory)
        assert all(tensor.equal(again.parameters[name]) for name, tensor in first.parameters.items())
        assert all(tensor.equal(again.memory[name]) for name, tensor in first.memory.items())
        after = [START, memory, *(update.parameters for update in updates)]
        assert all(one[name].equal(two[name]) for one, two in zip(before, after, strict=True) for name in one)

    def test_only_what_is_remembered_is_saved(self, method: Aggregation) -> None:
        memory = aggregate(method, make_updates(3)).memory
        assert bool(memory) == method.remembers
        assert all(tensor.isfinite().all() for tensor in memory.values())

    def test_rounds_follow_each_other(self, method: Aggregation) -> None:
        """Twenty rounds that all go the same way stay finite, and go that way."""
        start, memory = START, State()
        for number in range(20):
            updates = [
                update._replace(parameters=_shifted(start, update.parameters, 0.01)) for update in make_updates(5)
            ]
            start, memory = aggregate(method, updates, start=start, memory=memory)
            assert all(tensor.isfinite().all() for tensor in start.values()), f"round {number}"
        assert (start["layer.weight"] > START["layer.weight"]).all()

    def test_is_frozen_and_has_a_table(self, method: Aggregation) -> None:
        for field in dataclasses.fields(method):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(method, field.name, None)
        assert hash(method) == hash(dataclasses.replace(method))
        assert aggregation.from_config(aggregation.describe(method)) == method


def _shifted(start: State, sent: State, by: float) -> State:
    """The start, moved by about so much; its buffers as they were sent."""
    return {
        name: sent[name] if name in BUFFERS else tensor + (by + 0.1 * by * (sent[name] - START[name])).to(tensor.dtype)
        for name, tensor in start.items()
    }


def _copied(states: Sequence[State]) -> list[State]:
    return [{name: tensor.clone() for name, tensor in state.items()} for state in states]
