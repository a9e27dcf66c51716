"""What learners used: a row for each that told, the sum, and by what it is reckoned."""

from paceline.monitor.footprint import Footprint, Metered
from paceline.monitor.page import energy, tables
from tests.monitor.page.reading import read_page, rows_of

PI = {"source": "model", "busy_watts": 0.9, "idle_watts": 0.0, "joules_per_byte": 0.0}
JETSON = {"source": "codecarbon", "busy_watts": 0.9, "idle_watts": 1.0, "joules_per_byte": 2e-4}


def learner(name, power=None, **figures):
    return Metered(name=name, footprint=Footprint(**figures), power=power)


TOLD = [
    learner("pi", PI, bytes_sent=2_000_000, bytes_received=5_000, cpu_seconds=50.0, joules=45.0),
    learner("jetson", JETSON, bytes_sent=1_000_000, bytes_received=7_000, cpu_seconds=10.0, joules=7200.0),
]


def section_of(*learners, grams_per_kwh=250.0):
    return read_page(energy.energy_section(learners, "in their rounds", grams_per_kwh)).one("section")


def test_each_learner_has_a_row_and_all_have_one():
    rows = rows_of(section_of(*TOLD).one("table"))
    assert rows[1:] == [
        ["pi", "2 MB", "5 kB", "50.0 s", "12.5 mWh", "3.12 mg", "0.9 W per busy core"],
        ["jetson", "1 MB", "7 kB", "10.0 s", "2 Wh", "500 mg", "CodeCarbon, 0.0002 J per byte"],
        ["all", "3 MB", "12 kB", "60.0 s", "2.01 Wh", "503 mg", ""],
    ]


def test_the_power_models_and_the_intensity_are_stated():
    said = section_of(*TOLD).one("p").text
    assert "What learners used in their rounds." in said
    assert "Energy is told by: 0.9 W per busy core; CodeCarbon, 0.0002 J per byte." in said
    assert "A power model is an assumption, not a measurement." in said
    assert "Each kWh is taken to emit 250 g of CO₂ equivalents." in said
    assert "themselves" not in said


def test_of_many_models_some_are_stated():
    many = [learner(f"d{n}", {**PI, "busy_watts": n}, joules=1.0) for n in range(1, 7)]
    said = section_of(*many).one("p").text
    assert "1 W per busy core; 2 W per busy core; 3 W per busy core and 3 more." in said


def test_who_tells_nothing_is_named_and_no_zero_is_shown():
    one = section_of(*TOLD, learner("guest"))
    assert "guest keeps its figures to itself." in one.one("p").text
    assert [row[0] for row in rows_of(one.one("table"))[1:]] == ["pi", "jetson", "all"]
    assert "guest, other keep their figures to themselves." in (
        section_of(*TOLD, learner("guest"), learner("other")).one("p").text
    )
    nobody = section_of(learner("guest"))
    assert nobody.all("table") == []
    assert "No learner told what it used" in nobody.text
    assert energy.energy_card(Footprint(), 243.0) == ("energy", "–", "not told")
    assert energy.bytes_card(Footprint()) == ("sent", "–", "not told")


def test_what_is_known_in_part_is_told_in_part():
    rows = rows_of(section_of(learner("pi", bytes_sent=10)).one("table"))
    assert rows[1] == ["pi", "10 B", "–", "–", "–", "–", "–"]


def test_what_a_device_says_of_its_power_is_text():
    rows = rows_of(section_of(learner("<b>", {"source": 3, "busy_watts": "<b>"}, joules=1.0)).one("table"))
    assert (rows[1][0], rows[1][-1]) == ("<b>", "nothing is counted")


def test_of_many_learners_the_first_are_shown(monkeypatch):
    monkeypatch.setattr(energy, "MAX_ROWS", 1)
    monkeypatch.setattr(tables, "MAX_ROWS", 1)
    table = section_of(*TOLD).one("table")
    assert table.one("caption").text == "What each learner used (1 more in events.jsonl)"
    assert [row[0] for row in rows_of(table)[1:]] == ["pi", "all"]
