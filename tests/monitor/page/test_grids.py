"""Grids: a cell where there was work, the worst of a few rounds where there are very many."""

from paceline.monitor.page.grids import Cell, Grid, draw_grid
from tests.monitor.page.reading import read_page


def grid(rows, rounds):
    page = read_page(
        draw_grid(Grid(name="g", caption="Shards", note="all", description="about", rows=rows, rounds=rounds))
    )
    return page, page.all("rect", class_="cell")


def cell(value, **more):
    return Cell(shade=value / 10, text=str(value), tip=f"{value} shards", **more)


def test_cells_stand_at_their_round():
    page, cells = grid([("pi", {1: cell(2), 3: cell(9)}), ("jetson", {2: cell(4)})], [1, 2, 3, 4])
    assert [one.attributes["x"] for one in cells] == ["0%", "50%", "25%"]
    assert [text.text for text in page.all("text", class_="digits")] == ["2", "9", "4"]
    shades = [float(one.attributes["fill-opacity"]) for one in cells]
    assert shades[0] < shades[2] < shades[1] <= 0.6
    assert "2 shards" in [mark.one("title").text for mark in page.all("g", class_="tip")]


def test_bad_cells_do_not_differ_by_colour_alone():
    page, cells = grid([("pi", {1: cell(1), 2: Cell(shade=1, text="×", tip="none came", kind="bad")})], [1, 2])
    assert [("bad" in one.attributes["class"]) for one in cells] == [False, True]
    assert page.all("text", class_="digits")[1].text == "×"


def test_long_names_are_cut_and_told_in_full_on_hover():
    name = "a-very-long-name-of-a-device"
    page, _ = grid([(name, {1: cell(1)})], [1])
    mark = page.one("g", class_="y")
    assert mark.one("title").text == name
    assert mark.one("text").text == "a-very-long-nam…"


def test_very_many_rounds_share_cells_and_the_worst_shows():
    cells = {number: cell(number % 7) for number in range(1, 1001)}
    cells[500] = Cell(shade=0, text="×", tip="none came", kind="bad")
    page, drawn = grid([("pi", cells)], list(range(1, 1001)))
    assert len(drawn) <= 120
    assert len([one for one in drawn if "bad" in one.attributes["class"]]) == 1
    assert "each cell is the highest of 9 rounds" in page.one("figcaption").text


def test_digits_are_left_out_where_there_is_no_room():
    densities = []
    for num_rounds in (3, 20, 60):
        page, _ = grid(
            [("pi", {number: cell(88) for number in range(1, num_rounds + 1)})], list(range(1, num_rounds + 1))
        )
        densities.append(page.one("svg").attributes["class"])
    assert densities == ["heat", "heat wide", "heat bare"]
