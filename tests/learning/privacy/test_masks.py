"""Sums under masks: equal to plain sums, whoever drops out, and nothing else can be read."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest
import torch

from paceline.learning.privacy import Masker, MaskError, Unmasking, num_needed
from paceline.learning.privacy.masks import masked_size

LIKE = {"float32": torch.linspace(-1, 1, 300), "int64": torch.arange(3)}


def change_of(number: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    return {
        "float32": torch.randn(300, generator=generator),
        "int64": torch.randint(-5, 5, (3,), generator=generator).double(),
    }


class Masked:
    """One round, with those that leave after they have shared their secrets, or before that."""

    def __init__(self, num_learners: int, *, unshared: Collection[str] = (), dropped: Collection[str] = ()) -> None:
        self.names = [f"d{number:02d}" for number in range(num_learners)]
        self.maskers = {name: Masker(name) for name in self.names}
        self.keys = {name: masker.keys for name, masker in self.maskers.items()}
        sharing = [name for name in self.names if name not in unshared]
        sealed = {name: self.maskers[name].seal(self.keys, 3) for name in sharing}
        for name in sharing:
            self.maskers[name].open({other: sealed[other][name] for other in sharing if other != name})
        self.survivors = [name for name in sharing if name not in dropped]
        commitments = {name: self.maskers[name].commitment for name in sharing}
        self.unmasking = Unmasking(self.keys, commitments, masked_size(LIKE))
        self.weights = {name: 32 * (1 + number) for number, name in enumerate(self.names)}
        self.changes = {name: change_of(number) for number, name in enumerate(self.names)}

    def add(self) -> None:
        for name in self.survivors:
            masked = self.maskers[name].mask(self.changes[name], self.weights[name])
            assert self.unmasking.why_unlike(masked) is None
            self.unmasking.add(name, masked)

    def revealed(self) -> dict[str, dict[str, bytes]]:
        return {name: self.maskers[name].reveal(self.survivors) for name in self.survivors}

    def mean(self, revealed: dict[str, dict[str, bytes]] | None = None) -> dict[str, torch.Tensor]:
        total = sum(self.weights[name] for name in self.survivors)
        return self.unmasking.finish(self.revealed() if revealed is None else revealed, LIKE, total)

    def plain_mean(self) -> torch.Tensor:
        total = sum(self.weights[name] for name in self.survivors)
        summed = sum(self.weights[name] * self.changes[name]["float32"].double() for name in self.survivors)
        return LIKE["float32"].double() + summed / total


@pytest.mark.parametrize(
    ("num_learners", "unshared", "dropped"),
    [(3, (), ()), (9, (), ("d01", "d04", "d08")), (9, ("d00",), ("d01", "d08")), (10, ("d00", "d01"), ("d02", "d03"))],
)
def test_equals_the_plain_mean_of_those_that_stay(num_learners, unshared, dropped):
    masked = Masked(num_learners, unshared=unshared, dropped=dropped)
    masked.add()
    mean = masked.mean()
    torch.testing.assert_close(mean["float32"].double(), masked.plain_mean(), rtol=0, atol=1e-7)
    assert mean["int64"].dtype == torch.int64


def test_a_masked_update_looks_the_same_whatever_is_in_it():
    masked = Masked(4)
    sent = masked.maskers["d00"].mask(masked.changes["d00"], 1)
    # Bits of random numbers: half of them are set, within 5 standard deviations.
    bits = sum(int(word).bit_count() for word in sent.numpy().view("uint64"))
    assert abs(bits - 32 * len(sent)) < 5 * (16 * len(sent)) ** 0.5


def test_too_few_who_help_leave_the_sum_masked():
    masked = Masked(9)
    masked.add()
    revealed = dict(list(masked.revealed().items())[: num_needed(9) - 1])
    with pytest.raises(MaskError, match="4 learners helped to unmask the sum, and 5 are needed"):
        masked.mean(revealed)


def test_a_wrong_share_is_found():
    masked = Masked(5, dropped=("d04",))
    masked.add()
    revealed = masked.revealed()
    revealed["d00"]["d02"] = random.Random(0).randbytes(66)
    with pytest.raises(MaskError, match="d02"):
        masked.mean(revealed)


def test_nobody_reveals_twice_or_for_too_few():
    masked = Masked(5)
    masker = masked.maskers["d00"]
    with pytest.raises(MaskError, match="2 updates are to be unmasked"):
        masker.reveal(["d00", "d01"])
    with pytest.raises(MaskError, match="not in this round"):
        masker.reveal(["d00", "d01", "d02", "stranger"])
    with pytest.raises(MaskError, match="d00's among 3"):
        masker.reveal(["d01", "d02", "d03"])
    shares = masker.reveal(masked.survivors)
    assert shares.keys() == set(masked.names)
    with pytest.raises(MaskError, match="once"):
        masker.reveal(masked.survivors[:-1])


def test_shares_of_the_mask_and_of_the_key_are_never_revealed_together():
    masked = Masked(5, dropped=("d03",))
    shares = masked.maskers["d00"].reveal(masked.survivors)
    held = masked.maskers["d00"]._held
    assert shares["d03"] == held["d03"][0]
    assert all(shares[name] == held[name][1] for name in masked.survivors)


def test_what_was_changed_on_its_way_is_refused():
    maskers = {name: Masker(name) for name in ("a", "b", "c")}
    keys = {name: masker.keys for name, masker in maskers.items()}
    sealed = maskers["a"].seal(keys, 3)
    maskers["b"].seal(keys, 3)
    with pytest.raises(MaskError, match="what a has sealed was changed"):
        maskers["b"].open({"a": sealed["c"]})


@pytest.mark.parametrize("members", [("a",), ("a", "b"), ("b", "c", "d")])
def test_no_update_is_hidden_among_too_few_or_others(members):
    masker = Masker("a")
    keys = {name: Masker(name).keys for name in members} | ({"a": masker.keys} if "a" in members else {})
    with pytest.raises(MaskError, match="too few"):
        masker.seal(keys, 3)


def test_values_too_large_for_the_ring_are_refused():
    masked = Masked(3)
    with pytest.raises(MaskError, match="too large"):
        masked.maskers["d00"].mask({"float32": torch.full((300,), 1e9), "int64": torch.zeros(3)}, 64)
