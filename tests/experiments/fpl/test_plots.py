"""Bars of schemes."""

from papers.fpl.plots import draw_bars
from papers.fpl.setting import IMAGES, SPLIT
from reproduction.style import new_figure


def test_a_bar_is_the_mean_over_seeds():
    _, (axes,) = new_figure()
    draw_bars(axes, {IMAGES: [1.0, 3.0], SPLIT: [5.0]}, name="here")
    assert [bar.get_height() for bar in axes.patches] == [2.0, 5.0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["images", "SL"]
    assert axes.get_legend_handles_labels()[1] == ["here"]
