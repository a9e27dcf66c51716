"""What was used up, in all, as far as it was told."""

import pytest

from paceline.monitor.footprint import Footprint

SOME = Footprint(bytes_sent=10, bytes_received=20, cpu_seconds=1.5, joules=3.6e6)


def test_the_total_is_of_those_that_are_known():
    more = Footprint(bytes_sent=1, cpu_seconds=0.5)
    assert Footprint.total([SOME, Footprint(), more]) == Footprint(
        bytes_sent=11, bytes_received=20, cpu_seconds=2.0, joules=3.6e6
    )
    assert Footprint.total([]) == Footprint.total([Footprint()]) == Footprint()


def test_nothing_used_is_not_nothing_told():
    assert Footprint.total([Footprint(joules=0.0, bytes_sent=0)]) == Footprint(joules=0.0, bytes_sent=0)


def test_energy_and_what_it_emits():
    assert (SOME.kwh, SOME.grams_co2(), SOME.grams_co2(345.0)) == (1.0, 243.0, pytest.approx(345.0))
    assert (Footprint().kwh, Footprint().grams_co2()) == (None, None)
