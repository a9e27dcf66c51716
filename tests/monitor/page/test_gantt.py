"""A Gantt chart: blocks at their time, told apart by more than colour."""

from paceline.monitor.page.charts import TimeAxis
from paceline.monitor.page.gantt import Block, Gantt, draw_gantt
from tests.monitor.page.reading import read_page


def drawn(lanes, span, jobs=("a", "b")):
    chart = Gantt(
        name="g", caption="Lanes", note="all", description="about", lanes=lanes, jobs=jobs, axis=TimeAxis(*span)
    )
    return read_page(draw_gantt(chart))


def block(start, end, job=0, kind="stay"):
    return Block(start=start, end=end, job=job, kind=kind, tip=f"{start} to {end}")


def test_blocks_stand_at_their_time_and_end_at_the_edge():
    page = drawn([("pi", [block(10, 15), block(12, 13, kind="work"), block(18, 99, job=1)])], (10.0, 20.0))
    places = [(one.attributes["x"], one.attributes["width"]) for one in page.all("rect", class_="block")]
    assert places == [("0%", "50%"), ("20%", "10%"), ("80%", "20%")]
    assert [one.attributes["class"] for one in page.all("rect", class_="block")] == [
        *("block stay job-1", "block work job-1", "block stay job-2")
    ]
    assert "12 to 13" in [mark.one("title").text for mark in page.all("g", class_="tip")]


def test_jobs_are_told_apart_by_numbers_where_there_is_room():
    page = drawn([("pi", [block(0, 50), block(50, 50.1, job=1), block(60, 90, job=1)])], (0.0, 100.0))
    assert [text.text for text in page.all("text", class_="job-label")] == ["1", "2"]
    assert [item.text for item in page.one("ul", class_="legend").all("li")] == ["1 a", "2 b"]


def test_colours_come_again_and_numbers_do_not():
    jobs = [f"j{index}" for index in range(10)]
    page = drawn([("pi", [block(0, 50, job=8)])], (0.0, 100.0), jobs=jobs)
    assert page.one("rect", class_="block").attributes["class"] == "block stay job-1"
    assert page.one("text", class_="job-label").text == "9"


def test_the_axis_has_a_unit_that_suits_it():
    for end, label, last in ((100.0, "seconds", "100"), (3000.0, "minutes", "50"), (36_000.0, "hours", "10")):
        page = drawn([("pi", [block(0, end)])], (0.0, end))
        assert page.one("text", class_="axis").text == label
        assert page.all("text", class_="x")[-1].text == last


def test_a_chart_of_no_time_is_drawn_all_the_same():
    page = drawn([("pi", [block(5, 5)])], (5.0, 5.0))
    assert page.one("rect", class_="block").attributes["width"] == "0%"
