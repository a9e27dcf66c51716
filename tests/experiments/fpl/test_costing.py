"""What training takes, by short runs."""

import functools

import pytest

from paceline.learning.model_parts import make_chain
from paceline.topologies.split.events import SplitEpochEnded
from papers.fpl.costing import cost_rows, num_parameters
from papers.fpl.measures import taken
from papers.fpl.playing import play_case
from papers.fpl.setting import FPL_F1, GFL_FF, IMAGES, NUM_SOURCES, prepared

WIDTH = 256  # values before f1, for digits of 8 by 8


@functools.cache
def costs(case):
    """Rows of 64 and of 128 samples."""
    return [{"part": "costs", **row} for row in cost_rows(case, (64, 128))]


def test_bytes_of_a_cut_grow_with_the_samples(case):
    rows = costs(case)
    found = taken(rows, FPL_F1, "num_bytes")
    assert found.each[1] == pytest.approx(2 * NUM_SOURCES * WIDTH * 4, rel=0.01)  # values there, gradients back
    assert found.once == pytest.approx((0, 0), abs=500)


def test_bytes_of_averaging_do_not(case):
    own = case._replace(scheme=GFL_FF)
    found = taken(costs(own), GFL_FF, "num_bytes")
    layers = make_chain(prepared(own).training, None).layers
    averaged = sum(parameter.numel() for name in ("f1", "f2") for parameter in layers[name].parameters())
    assert found.each[1] == pytest.approx(0, abs=1)
    assert found.epoch(0) == pytest.approx(2 * NUM_SOURCES * averaged * 4, rel=0.01)


def test_images_travel_once(case):
    found = taken(costs(case._replace(scheme=IMAGES)), IMAGES, "num_bytes")
    assert found.epoch(1000) == pytest.approx(0, abs=500)
    assert found.once[1] == pytest.approx(NUM_SOURCES * 8 * 8, rel=0.02)  # a byte for a pixel


@pytest.mark.parametrize("scheme", [FPL_F1, GFL_FF])
def test_short_runs_tell_how_long_longer_ones_take(case, scheme):
    own = case._replace(scheme=scheme)
    rows = costs(own)
    expected = taken(rows, scheme, "seconds").epoch(256)
    longer = own._replace(size=own.size._replace(num_samples=256))
    assert play_case(longer).events_of(SplitEpochEnded)[0].seconds == pytest.approx(expected, rel=0.01)
    for row in rows:
        assert 0 < row["compute_seconds"] < 1.2 * row["seconds"]
        assert row["compute_seconds"] <= row["cpu_seconds"]
        assert row["process_seconds"] > 0


def test_parameters_are_of_all_nodes(case):
    sizes = {scheme: num_parameters(case._replace(scheme=scheme)) for scheme in (IMAGES, GFL_FF, FPL_F1)}
    assert sizes[GFL_FF]["all"] == NUM_SOURCES * sizes[IMAGES]["all"]
    assert sizes[FPL_F1]["junction"] == NUM_SOURCES * WIDTH**2 + WIDTH
    assert sizes[IMAGES]["junction"] == 0
