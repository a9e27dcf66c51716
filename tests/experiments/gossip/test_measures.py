"""What is made of the rows of a run."""

import pytest

from papers.gossip.measures import accuracy_lost, final_accuracy, reached_seconds, speed_up, speed_up_to_accuracy


def rows_of(accuracies, *, epoch_seconds=1.0):
    """A row per epoch."""
    end = epoch_seconds * len(accuracies)
    return [
        {"accuracy": accuracy, "seconds": epoch_seconds * number, "run_seconds": end}
        for number, accuracy in enumerate(accuracies, 1)
    ]


def test_final_accuracy_is_that_of_the_last_measurements():
    assert final_accuracy(rows_of([0, 90, 92, 94, 96])) == 93


def test_gain_and_loss_are_over_the_baseline():
    baseline, rows = rows_of([96] * 6, epoch_seconds=3), rows_of([95.5] * 6)
    assert speed_up(baseline, rows) == 3
    assert accuracy_lost(baseline, rows) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("accuracies", "reached"),
    [
        ([90, 95, 95, 95, 95], 4),
        ([95, 95, 95, 90, 95, 95, 95], 7),  # left again: not for good
        ([95, 95, 94.9, 95.1, 95.1], 4),  # within what single measurements vary
        ([90, 90, 90, 95], None),
    ],
)
def test_an_accuracy_is_reached_for_good(accuracies, reached):
    assert reached_seconds(rows_of(accuracies), 95) == reached


def test_how_much_sooner_it_is_reached():
    baseline = rows_of([80, 96, 96, 96, 96, 96], epoch_seconds=3)
    assert speed_up_to_accuracy(baseline, rows_of([80, 80, 96, 96, 96, 96])) == pytest.approx(4 * 3 / 5)
    assert speed_up_to_accuracy(baseline, rows_of([80] * 6)) is None
