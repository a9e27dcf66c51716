"""Running an experiment, and what is kept of it."""

import json

import pytest

from paceline.errors import ConfigError
from reproduction import load_experiment, redraw, reproduce
from reproduction.rows import read_rows

KEPT = ["figure.svg", "made.json", "results.csv", "verdict.csv", "verdict.md"]


@pytest.fixture
def coin(experiments):
    return load_experiment("coin-toss", experiments)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_full_run_is_kept_beside_the_experiment(coin):
    outcome = reproduce(coin)
    assert outcome.output == coin.folder / "results"
    assert names(outcome.output) == KEPT
    assert names(coin.folder) == ["README.md", "expected.csv", "plot.py", "results", "run.py"]
    rows = read_rows(outcome.output / "results.csv")
    assert len(rows) == outcome.num_rows == 4 * 3
    assert rows[3] == {"seed": 1, "size": 1, "side": "heads", "value": 1.1, "extra": None}
    assert [verdict.answer for verdict in outcome.verdicts] == ["yes", "not judged", "not measured"]
    assert outcome.verdicts[0].here.mean == pytest.approx(1.15)
    made = json.loads((outcome.output / "made.json").read_text())
    assert (made["is_quick"], made["num_seeds"]) == (False, 4)
    assert made["versions"]["paceline"]
    assert "host" not in made
    table = (outcome.output / "verdict.md").read_text()
    assert table.startswith("1 of 2 figures reproduced, 1 not measured.\n\n| measure | paper |")
    assert "a \\| note" in table


def test_a_quick_run_goes_elsewhere_and_is_marked(coin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = reproduce(coin, is_quick=True)
    assert (tmp_path / "runs/reproduce/coin-toss").samefile(outcome.output)
    assert not coin.results.exists()
    assert outcome.num_rows == 2 * 2
    assert "(quick run)" in (outcome.output / "verdict.md").read_text()


def test_the_watcher_is_told_of_each_row(coin, tmp_path):
    told = []
    reproduce(coin, output=tmp_path / "out", num_seeds=2, watch=lambda seed, num_rows: told.append((seed, num_rows)))
    assert told == [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6)]


def test_the_same_rows_give_the_same_figure(coin, tmp_path):
    first, second = (reproduce(coin, output=tmp_path / name).output for name in ("a", "b"))
    svg = (first / "figure.svg").read_bytes()
    assert svg == (second / "figure.svg").read_bytes()
    assert b"value (s)" in svg
    assert b"<dc:date>" not in svg


def test_redrawing_judges_anew_and_runs_nothing(coin, experiments):
    made = reproduce(coin).made
    (experiments / "coin-toss/expected.csv").write_text(
        'measure,unit,paper,low,high,source,note\n"value, size 1",,9,9,9,,\nodd,,,,,,\n'
    )
    run = experiments / "coin-toss/run.py"
    run.write_text(run.read_text().replace("    for size in", "    raise AssertionError\n    for size in"))
    outcome = redraw(load_experiment("coin-toss", experiments))
    assert outcome.verdicts[0].answer == "no"
    assert (outcome.made, outcome.num_rows) == (made, 12)
    assert names(outcome.output) == KEPT


def test_redrawing_needs_rows(coin):
    with pytest.raises(ConfigError, match="no such file; run the experiment first: paceline reproduce coin-toss"):
        redraw(coin)


def test_a_run_that_fails_leaves_the_last_results_alone(coin, experiments):
    reproduce(coin)
    before = (coin.results / "results.csv").read_bytes()
    run = experiments / "coin-toss/run.py"
    run.write_text(run.read_text().replace("(1, 2, 3)", "(1, None)"))
    with pytest.raises(TypeError):
        reproduce(load_experiment("coin-toss", experiments))
    assert (coin.results / "results.csv").read_bytes() == before
    reproduce(coin)
    assert not coin.results.with_name("results.new").exists()


def test_an_output_that_cannot_be_written(coin, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="results cannot be kept there"):
        reproduce(coin, output=tmp_path / "file/out")
