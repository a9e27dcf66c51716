"""The live table, rendered at chosen moments of a run."""

import io

import pytest
from rich.console import Console

from paceline.report import LiveTable, show_progress
from paceline.topologies.events import LearnerJoined, PhaseStarted
from paceline.topologies.parallel.events import RoundClosed, RoundOpened
from paceline.topologies.parallel.report import RunReporting
from tests.report.synthetic import FakeLearner, run_events

SEVENTH, CLOSED = (
    next(event.at for event in run_events() if isinstance(event, kind) and event.round == 7)
    for kind in (RoundOpened, RoundClosed)
)


def console(width=80, height=40, **options):
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, record=True, **options)


def shown_at(now, events=None, **options):
    """Return what the table shows, as lines, when so many seconds of the run have passed."""
    screen = console(**options)
    table = LiveTable(screen, RunReporting().live_table(), lambda: now)
    for event in run_events() if events is None else events:
        if event.at <= now:
            table.feed(event)
    screen.print(table.render())
    assert ("\x1b[" in screen.file.getvalue()) == (options.get("color_system", "auto") is not None)
    return [line.rstrip() for line in screen.export_text().splitlines()]


def row(lines, name):
    return next(line for line in lines if line.startswith(name))


def bar_of(line):
    return line[: line.index("│")].split(" ", 1)[1].strip()


@pytest.mark.parametrize("width", [80, 120])
def test_every_line_fits_and_names_are_whole(width):
    lines = shown_at(SEVENTH + 0.5, width=width)
    assert max(map(len, lines)) <= width
    names = [line.split()[0] for line in lines[1:7]]
    assert sorted(names) == sorted(["laptop", "pi-zero", "jetson", "pi-4", "guest", "old-pc"])
    assert lines[0].split() == ["learner", "round", "7", "1.00", "s", "▾", "shards", "samples", "status"]
    assert shown_at(SEVENTH + 0.5, width=width, color_system=None) == lines


def test_bars_grow_with_the_clock_and_show_phases_in_order_or_just_work():
    laptops = [row(shown_at(SEVENTH + seconds, width=120), "laptop") for seconds in (0.2, 0.5, 0.9)]
    lengths = [len(bar_of(line)) for line in laptops]
    assert lengths[0] < lengths[1] < lengths[2]
    assert lengths[1] == pytest.approx((laptops[1].index("│") - len("pi-zero ")) / 2, abs=1)
    lines = shown_at(CLOSED, width=120)
    phases = bar_of(row(lines, "laptop")).strip("·")
    assert phases == "".join(sorted(phases, key="▂▆▄".index))
    assert set(phases) == set("▂▆▄")
    assert set(bar_of(row(lines, "guest"))) <= set("▅·")


def test_status_counts_and_footer():
    lines = shown_at(SEVENTH + 0.5)
    assert row(lines, "laptop").split()[-2:] == ["51", "training"]
    assert row(lines, "guest").endswith("working")
    assert "gone: not hear" in row(lines, "pi-4")
    assert "round 7 of 10   0.500 s left" in lines
    assert any(line.startswith("loss 0.442   accuracy 83.6 % ▁") and line.endswith("21,952 samples") for line in lines)
    assert "pi-4 left: not heard of for 1.1 s" in lines
    assert row(shown_at(CLOSED), "laptop").split()[-3:] == ["51", "1,632", "idle"]
    assert row(shown_at(CLOSED + 0.01), "pi-zero").endswith("late")
    assert "round 10 of 10   finished: rounds done" in shown_at(1000)


def test_before_the_first_round():
    lines = shown_at(0.2)
    assert "waiting for devices: 0 of 2 ready" in lines
    assert row(lines, "laptop").endswith("benchmarking")
    assert set(bar_of(row(lines, "laptop"))) == {"▃"}


def test_a_large_fleet_is_cut():
    events = run_events([FakeLearner(name=f"d{index:03}", shards_per_second=9) for index in range(200)], rounds=1)
    assert "… and 180 more" in shown_at(1.0, events, height=40)
    for height, count in ((40, 20), (18, 9)):
        assert len([line for line in shown_at(1.0, events, height=height) if line.startswith("d")]) == count


def test_names_cannot_act_on_the_terminal():
    name = "\x1b[2J[red]机\n"
    lines = shown_at(1.0, [LearnerJoined(at=0, learner=name), PhaseStarted(at=0, learner=name, round=0, phase="idle")])
    assert row(lines, "\\x1b").startswith("\\x1b[2J[red] …")  # the wide letter does not fit any more


def test_on_a_terminal_progress_is_a_table_and_its_last_state_stays():
    screen = console()
    with show_progress(screen, RunReporting(), lambda: 0.0) as watch:
        for event in run_events():
            watch(event)
    text = screen.file.getvalue()
    assert "finished: rounds done" in text
    assert "\x1b[?25l" in text  # the cursor was hidden
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # and is back


@pytest.mark.parametrize("terminal", ["none", "dumb", "ascii"])
def test_elsewhere_progress_is_lines(terminal):
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii" if terminal == "ascii" else "utf-8")
    environment = {"TERM": "dumb"} if terminal == "dumb" else {}
    screen = Console(
        file=file, force_terminal=terminal != "none", color_system=None, _environ=environment, legacy_windows=False
    )
    with show_progress(screen, RunReporting(), lambda: 0.0) as watch:
        for event in run_events(rounds=2):
            watch(event)
    file.seek(0)
    text = file.read()
    assert "\x1b" not in text
    assert "round 2/2" in text
