"""``paceline reproduce`` as a user sees it."""

import json

import pytest

from tests.reproduction.coin import write_coin


@pytest.fixture(autouse=True)
def coin(paceline_in, monkeypatch):
    write_coin(paceline_in.folder / "experiments/coin-toss")
    monkeypatch.setenv("COLUMNS", "200")


def test_list(printed):
    out = printed("reproduce", "--list")
    assert all(word in out for word in ("coin-toss", "Nobody, Fig. 1", "Coins fall.", "no time"))
    assert json.loads(printed("reproduce", "--list", "--json")) == [
        {"name": "coin-toss", "figure": "Nobody, Fig. 1", "claim": "Coins fall.", "duration": "no time"}
    ]


def test_a_quick_run_ends_with_a_table_and_touches_nothing_that_is_kept(paceline_in, tmp_path):
    code, out, err = paceline_in("reproduce", "coin-toss", "--quick")
    assert code == 0
    assert "Nobody, Fig. 1 (quick run, 2 seeds)" in out
    assert "1.05 ± 0.635" in out
    assert "1 not measured" in out
    assert "coin-toss: seed 2 of 2" in err
    assert (tmp_path / "runs/reproduce/coin-toss/figure.svg").exists()
    assert not (tmp_path / "experiments/coin-toss/results").exists()


def test_verdicts_as_json_elsewhere_and_with_other_seeds(printed, tmp_path):
    reported = json.loads(printed("reproduce", "coin-toss", "--seeds", 3, "--output", "out", "--json"))
    assert (reported["num_seeds"], reported["rows"], reported["output"]) == (3, 9, "out")
    assert reported["verdicts"][0]["reproduced"] == "yes"
    assert reported["verdicts"][0]["here"] == pytest.approx(1.1)
    assert (tmp_path / "out/verdict.csv").exists()
    assert json.loads(printed("reproduce", "coin-toss", "--redraw", "--output", "out", "--json")) == reported


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either the name of an experiment, or --list"),
        (["coin-toss", "--list"], "give either the name of an experiment, or --list"),
        (["coin-tos"], "there is no experiment 'coin-tos'; did you mean 'coin-toss'?"),
        (["coin-toss", "--redraw"], "run the experiment first"),
        (["coin-toss", "--experiments", "nowhere"], "nowhere: no experiments there"),
        (["coin-toss", "--seeds", "0"], "--seeds"),
    ],
)
def test_bad_input_is_reported_in_one_line(refused, arguments, message):
    assert message in refused("reproduce", *arguments)
