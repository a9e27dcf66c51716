"""Every experiment runs in small, and leaves rows, a figure and verdicts; `make test` runs one of each paper."""

import json
import os
import re
from pathlib import Path

import pytest

from paceline.cli.main import main
from reproduction import find_experiments, load_experiment
from reproduction.rows import read_rows

FOLDER = Path(__file__).parents[2] / "experiments"
MISSING = re.compile(r"^paceline: (dataset '.+' was not found|a testbed needs )", re.M)
ONE_OF_EACH_PAPER = {"sb-download", "dab-vs-csa", "mel-staleness", "med-tasks", "gossip-aggregation", "fpl-convergence"}
QUICK_RUNS = [
    pytest.param(name, marks=() if name in ONE_OF_EACH_PAPER else pytest.mark.long) for name in find_experiments(FOLDER)
]


@pytest.mark.parametrize("name", QUICK_RUNS)
def test_quick_run(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["reproduce", name, "--quick", "--experiments", str(FOLDER), "--json"])
    printed = capsys.readouterr()
    if MISSING.search(printed.err) and os.environ.get("PACELINE_REQUIRE_ALL") != "1":
        pytest.skip(printed.err.splitlines()[-1])
    assert ended.value.code == 0, printed.err
    told = json.loads(printed.out)
    output = tmp_path / "runs/reproduce" / name
    assert output.samefile(told["output"])
    assert told["is_quick"] is True
    assert len(read_rows(output / "results.csv")) == told["rows"] > 0
    assert "<svg" in (output / "figure.svg").read_text()
    answers = {verdict["measure"]: verdict["reproduced"] for verdict in told["verdicts"]}
    assert set(answers) == {expected.measure for expected in load_experiment(name, FOLDER).expectations}
    assert set(answers.values()) != {"not measured"}


@pytest.mark.parametrize("name", find_experiments(FOLDER))
def test_readme_tells_how_long_it_takes_and_how_to_run_it(name):
    text = (FOLDER / name / "README.md").read_text()
    experiment = load_experiment(name, FOLDER)
    assert f"paceline reproduce {name}" in text
    assert experiment.about.duration in text
    assert experiment.about.figure in text
