import itertools

import pytest

from paceline.monitor.page.charts import Chart
from paceline.monitor.page.curves import Curve, Mark, draw_curves
from tests.monitor.page.reading import read_page


def chart(over="seconds", **more):
    return Chart(
        **{
            "name": "c",
            "caption": "Accuracy",
            "note": "n",
            "description": "d",
            "say": "{:g}".format,
            "over": over,
            **more,
        }
    )


def points(line):
    return [tuple(float(place) for place in point.split(",")) for point in line.attributes["points"].split()]


def drawn(*arguments, **options):
    return read_page(draw_curves(*arguments, **options))


def test_thin_lines_lie_below_the_thick_one():
    peers = [Curve(marks=[Mark(0.0, 0.2), Mark(10.0, 0.8)], tip="pi"), Curve(marks=[Mark(5.0, 0.4)], tip="tx")]
    average = Curve(marks=[Mark(0.0, 0.4, "first"), Mark(10.0, 1.0, "last")], is_thick=True)
    page = drawn(chart(floor=0.0, ceiling=1.0), [average, *peers])
    lines = page.all("polyline")
    assert [line.attributes["class"] for line in lines] == ["near", "thin", "near", "thin", "line"]
    assert points(lines[1]) == [(0, 1000), (1000, 250)]  # from 0.2 up to 0.8, on an axis from 0.2 to 1
    assert points(lines[4])[-1] == (1000, 0)
    assert [mark.one("title").text for mark in page.all("g", class_="tip")] == ["pi", "tx", "first", "last"]
    assert [mark.text for mark in page.all("text", class_="x")] == ["0", "2", "4", "6", "8", "10"]
    assert page.one("text", class_="axis").text == "seconds"


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ((0.3, 0.004), ["0.001", "0.01", "0.1", "1"]),
        ((0.3, 0.04), ["0.02", "0.05", "0.1", "0.2", "0.5"]),
        ((0.1, 0.05), ["0.05", "0.1"]),
        ((0.1, 0.1), ["0.1", "0.2"]),
        ((10.0, 1e-5), ["1e-05", "0.0001", "0.001", "0.01", "0.1", "1", "10"]),
        ((1.0, 1e-14), ["1e-15", "1e-12", "1e-09", "1e-06", "0.001", "1"]),
    ],
)
def test_logarithms(values, rows):
    marks = [Mark(float(epoch), value) for epoch, value in enumerate(values, 1)]
    page = drawn(chart("epoch"), [Curve(marks=marks, is_thick=True)], is_log=True)
    assert [mark.text for mark in page.all("text", class_="y")] == rows
    places = points(page.one("polyline", class_="line"))
    assert all(0 <= y <= 1000 for _, y in places)
    assert [mark.text for mark in page.all("text", class_="x")] == ["1", "2"]


def test_equal_ratios_are_equally_far_apart():
    marks = [Mark(float(epoch), 0.5**epoch) for epoch in range(1, 9)]
    places = points(drawn(chart("epoch"), [Curve(marks=marks, is_thick=True)], is_log=True).one(class_="line"))
    steps = {round(after[1] - before[1]) for before, after in itertools.pairwise(places)}
    assert max(steps) - min(steps) <= 1


def test_a_single_value_is_in_the_middle():
    page = drawn(chart(), [Curve(marks=[Mark(3.0, 0.5)], is_thick=True), Curve(marks=[])])
    assert page.one("circle").attributes["cx"] == "50%"


def test_very_many_values_are_thinned_and_the_last_is_kept():
    marks = [Mark(float(at), at / 5000) for at in range(5001)]
    page = drawn(chart(), [Curve(marks=marks, is_thick=True)])
    places = points(page.one("polyline", class_="line"))
    assert len(places) <= 400
    assert places[-1] == (1000, 0)
    assert "hidden" in page.one("g", class_="dots").attributes["class"]
