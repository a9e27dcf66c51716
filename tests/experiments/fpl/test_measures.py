"""Figures of rows that are made up."""

from papers.fpl.energy import TABLE, kwh
from papers.fpl.measures import best, taken
from papers.fpl.setting import PAPER_SCHEMES


def test_training_is_complete_where_the_loss_is_least_for_the_first_time():
    rows = [{"epoch": epoch, "loss": loss} for epoch, loss in enumerate((3.0, 1.0, 2.0, 1.0), 1)]
    assert best(rows)["epoch"] == 2


def test_what_is_taken_is_a_line_over_the_samples_and_what_is_taken_once():
    rows = [
        {"part": "costs", "scheme": "any", "num_samples": count, "epoch": epoch, "seconds": 10 + 2 * count + once}
        for count in (100, 200)
        for epoch, once in ((1, 3 * count), (2, 0))
    ]
    found = taken(rows, "any", "seconds")
    assert found.epoch(1000) == 2010
    assert found.total(1000, epochs=4) == 4 * 2010 + 3000


def test_the_papers_table_is_of_its_schemes_and_a_kwh_is_a_kilowatt_for_an_hour():
    assert set(TABLE) == set(PAPER_SCHEMES)
    assert kwh(3600 * 1000 / 13) == 1
