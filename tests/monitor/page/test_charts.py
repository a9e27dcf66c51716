"""Charts: axes that fit their values, a mark per point, gaps, and words for those who cannot see them."""

import itertools

import pytest

from paceline.monitor.page.charts import Chart, Point, column_chart, line_chart, ticks, whole_ticks
from tests.monitor.page.reading import read_page

CHART = Chart(name="c", caption="Accuracy", note="50 %", description="It rises.", say=lambda value: f"{value:g}")


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.33, 0.97), (-0.06, 0.02), (5, 5), (0, 0), (1e-7, 3e-7), (12, 9999)]
)
def test_ticks_hold_the_values_and_are_few(low, high):
    found = ticks(low, high)
    assert found[0] <= low <= high <= found[-1] + 1e-12
    assert 2 <= len(found) <= 8
    steps = [second - first for first, second in itertools.pairwise(found)]
    assert steps == pytest.approx([steps[0]] * len(steps))


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 8), (1, 10), (1, 300), (17, 23), (100, 123_456)])
def test_whole_ticks(first, last):
    found = whole_ticks(first, last)
    assert 1 <= len(found) <= 8
    assert first <= found[0] <= found[-1] <= last


def points(values):
    return [Point(number, value, f"round {number}: {value}") for number, value in enumerate(values, 1)]


def test_a_line_has_a_hover_text_and_a_dot_for_each_point():
    page = read_page(line_chart(CHART, points([0.1, 0.4, 0.6])))
    assert [mark.one("title").text for mark in page.all("g", class_="tip")] == [
        "round 1: 0.1",
        "round 2: 0.4",
        "round 3: 0.6",
    ]
    assert [mark.attributes["data-round"] for mark in page.all("g", class_="tip")] == ["1", "2", "3"]
    assert [dot.attributes["cx"] for dot in page.all("circle")] == ["0%", "50%", "100%"]
    heights = [float(dot.attributes["cy"].rstrip("%")) for dot in page.all("circle")]
    assert heights == sorted(heights, reverse=True)
    assert len(page.all("polyline")) == 1


def test_what_is_not_known_is_a_gap():
    page = read_page(line_chart(CHART, points([0.1, 0.2, None, 0.4, 0.5])))
    assert len(page.all("polyline")) == 2
    assert len(page.all("circle")) == 4
    assert len(page.all("g", class_="tip")) == 5


def test_a_single_round_can_be_drawn():
    (dot,) = read_page(line_chart(CHART, points([0.3]))).all("circle")
    assert dot.attributes["cx"] == "50%"


def test_words_for_a_chart():
    drawing = read_page(line_chart(CHART, points([1, 2]))).all("svg")[0]
    title, description = drawing.one("title", id="c-title"), drawing.one("desc", id="c-about")
    assert (title.text, description.text) == ("Accuracy", "It rises.")
    assert drawing.attributes["aria-labelledby"] == "c-title c-about"
    assert drawing.attributes["role"] == "img"


def test_columns_stand_on_zero_and_bad_ones_look_different():
    late = [Point(1, -0.05, "early"), Point(2, 0.02, "late", is_bad=True), Point(3, 0.0, "in time")]
    page = read_page(column_chart(CHART, late))
    zero = float(page.one("line", class_="zero").attributes["y1"].rstrip("%"))
    early, bad, even = page.all("rect", class_="column")
    assert float(early.attributes["y"].rstrip("%")) == pytest.approx(zero)
    assert float(bad.attributes["y"].rstrip("%")) + float(bad.attributes["height"].rstrip("%")) == pytest.approx(zero)
    assert [("bad" in column.attributes["class"]) for column in (early, bad, even)] == [False, True, False]


def test_very_many_points_are_thinned_and_it_says_so():
    many = points([index / 5000 for index in range(5000)])
    page = read_page(line_chart(CHART, many))
    assert len(page.all("circle")) <= 400
    assert page.all("g", class_="tip")[-1].attributes["data-round"] == "5000"
    assert "every 13th round" in page.one("figcaption").text
    spike = [Point(number, 1.0 if number == 777 else -0.1, "") for number in range(1, 5001)]
    page = read_page(column_chart(CHART, spike))
    assert "777" in [mark.attributes["data-round"] for mark in page.all("g", class_="tip")]
    assert "each column is the highest of 13" in page.one("figcaption").text
