"""The flood at a small size; `make flood` runs it at full size."""

from tests.axon import flood
from tests.axon.flood_requests import make_kinds


def test_workers_with_few_descriptors_take_no_harm(monkeypatch):
    monkeypatch.setattr(flood, "_WARM_UP_SECONDS", 0.2)
    monkeypatch.setattr(flood, "_NUM_AT_ONCE", 40)
    result = flood.run(2500, seed=3, seconds_limit=120)
    print(result.table())
    assert result.problems == []
    assert result.sent.total() == 2500
    kinds = make_kinds(flood.TOKEN, 3)
    assert set(result.sent) == {kind.name for kind in kinds}
    assert sum(kind.share for kind in kinds) == 1000
    assert {400, 401, 403, 404, 413, 422, 429} <= {status for answers in result.answers.values() for status in answers}


def test_the_same_seed_makes_the_same_requests():
    first, second, other = (make_kinds(flood.TOKEN, seed) for seed in (1, 1, 2))
    assert [kind.samples for kind in first if kind.name == "garbage"] == [
        kind.samples for kind in second if kind.name == "garbage"
    ]
    assert first != other
