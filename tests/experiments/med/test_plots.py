"""The figure has every measure and scheme."""

from papers.med.plots import AXES, SCHEMES, plot_measures
from tests.experiments.med.test_measures import SECONDS, rows_of


def test_small_multiples():
    rows = [row for seed in range(3) for size in (4, 5) for row in rows_of(SECONDS, seed=seed, size=size)]
    figure = plot_measures(
        rows, over="learners", titles={column: column for column in AXES}, thesis={("seconds", "med"): (4, 20.0)}
    )
    panels = figure.axes
    assert [panel.get_title() for panel in panels[:5]] == list(AXES)
    assert [panel.get_ylabel() for panel in panels[:5]] == list(AXES.values())
    assert all(len(panel.lines) == len(SCHEMES) for panel in panels[:5])
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()][:4] == [name for name, _ in SCHEMES.values()]
