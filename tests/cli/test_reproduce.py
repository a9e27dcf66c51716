"""``paceline reproduce`` as a user sees it."""

import json

import pytest

from paceline.cli.main import main
from tests.reproduction.coin import write_coin


@pytest.fixture
def invoke(tmp_path, monkeypatch, capsys):
    write_coin(tmp_path / "experiments/coin-toss")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["reproduce", *map(str, arguments)])
        reported = capsys.readouterr()
        return ended.value.code, reported.out, reported.err

    return invoke


def test_list(invoke):
    code, out, _ = invoke("--list")
    assert code == 0
    assert all(word in out for word in ("coin-toss", "Nobody, Fig. 1", "Coins fall.", "no time"))
    _, out, _ = invoke("--list", "--json")
    assert json.loads(out) == [
        {"name": "coin-toss", "figure": "Nobody, Fig. 1", "claim": "Coins fall.", "duration": "no time"}
    ]


def test_a_quick_run_ends_with_a_table_and_touches_nothing_that_is_kept(invoke, tmp_path):
    code, out, err = invoke("coin-toss", "--quick")
    assert code == 0
    assert "Nobody, Fig. 1 (quick run, 2 seeds)" in out
    assert "1.05 ± 0.635" in out
    assert "1 not measured" in out
    assert "coin-toss: seed 2 of 2" in err
    assert (tmp_path / "runs/reproduce/coin-toss/figure.svg").exists()
    assert not (tmp_path / "experiments/coin-toss/results").exists()


def test_verdicts_as_json_elsewhere_and_with_other_seeds(invoke, tmp_path):
    code, out, _ = invoke("coin-toss", "--seeds", 3, "--output", "out", "--json")
    reported = json.loads(out)
    assert (code, reported["num_seeds"], reported["rows"], reported["output"]) == (0, 3, 9, "out")
    assert reported["verdicts"][0]["reproduced"] == "yes"
    assert reported["verdicts"][0]["here"] == pytest.approx(1.1)
    assert (tmp_path / "out/verdict.csv").exists()
    code, out, _ = invoke("coin-toss", "--redraw", "--output", "out", "--json")
    assert (code, json.loads(out)) == (0, reported)


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
def test_bad_input_is_reported_in_one_line(invoke, arguments, message):
    code, out, err = invoke(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
