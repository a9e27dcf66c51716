"""Curves of several runs."""

from papers.gossip.plots import draw_accuracy
from reproduction.style import new_figure


def test_a_curve_is_the_mean_as_far_as_all_runs_go():
    _, (axes,) = new_figure()
    runs = [
        [{"seconds": 1.0, "accuracy": 50.0}, {"seconds": 2.0, "accuracy": 80.0}],
        [{"seconds": 3.0, "accuracy": 60.0}],
    ]
    draw_accuracy(axes, runs, name="both", index=0)
    (line,) = axes.get_lines()
    assert line.get_xdata().tolist() == [2.0]
    assert line.get_ydata().tolist() == [55.0]
    assert line.get_label() == "both"
