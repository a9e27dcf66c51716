"""Text is escaped wherever it stands."""

import json

from paceline.monitor.page.markup import Markup, element, embedded_json, joined, number, percent
from tests.monitor.page.reading import read_page

NASTY = "</script><script>alert('\"1\"')</script>&amp;"


def test_text_is_escaped_in_content_and_attributes():
    page = read_page(element("p", NASTY, title=NASTY))
    assert page.one("p").text == NASTY
    assert page.one("p").attributes == {"title": NASTY}
    assert page.all("script") == []


def test_markup_is_not_escaped_twice():
    assert element("b", element("i", "a < b"), Markup("<br>"), None) == "<b><i>a &lt; b</i><br></b>"
    assert joined("a&b", element("br")) == "a&amp;b<br>"


def test_attributes():
    made = element(
        "svg", class_="x", aria_hidden="true", viewBox="0 0 1 1", hidden=True, id=None, lang=False, width=1.5
    )
    assert made == '<svg class="x" aria-hidden="true" viewBox="0 0 1 1" hidden width="1.5"></svg>'


def test_embedded_json_cannot_end_its_element():
    node = read_page(embedded_json("data", {"name": NASTY, "comment": "<!--"})).one("script")
    assert json.loads(node.text) == {"name": NASTY, "comment": "<!--"}
    assert "<" not in node.text


def test_coordinates_are_short():
    assert [number(value) for value in (1 / 3, 0.0, 1e-9, 100.0)] == ["0.333333", "0", "0", "100"]
    assert percent(0.5) == "50%"
