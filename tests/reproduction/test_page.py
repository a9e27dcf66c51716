"""The page of results."""

from pathlib import Path

from reproduction import find_experiments, load_experiment, reproduce, wording
from reproduction.page import render
from reproduction.rows import read_rows
from reproduction.running import judge_rows

DOCS = Path(__file__).parents[2] / "docs"


def test_page_shows_what_is_kept(experiments):
    coin = load_experiment("coin-toss", experiments)
    [page] = render([coin]).values()
    assert "Not run in full yet: `coin-toss`." in page
    reproduce(coin)
    files = render([coin])
    assert list(files) == ["results.md", "results/coin-toss.svg"]
    assert "![Nobody, Fig. 1, as made here](results/coin-toss.svg)" in files["results.md"]
    assert "1 of 2 figures reproduced" in files["results.md"]
    assert "Not run" not in files["results.md"]


def test_the_page_in_the_documentation_is_of_the_results_that_are_kept():
    folder = DOCS.parent / "experiments"
    files = render([load_experiment(name, folder) for name in find_experiments(folder)])
    assert {name: (DOCS / name).read_text() for name in files} == files, "run: make results-page"
    assert {path.name for path in (DOCS / "results").glob("*")} == {Path(name).name for name in files if "/" in name}


def test_the_tables_that_are_kept_are_of_the_rows_and_expectations_that_are_kept():
    for name in find_experiments(DOCS.parent / "experiments"):
        experiment = load_experiment(name, DOCS.parent / "experiments")
        if experiment.results.exists():
            verdicts = judge_rows(experiment, read_rows(experiment.results / "results.csv"))
            kept = (experiment.results / "verdict.csv").read_text()
            assert kept == wording.as_csv(verdicts), f"run: paceline reproduce {name} --redraw"
