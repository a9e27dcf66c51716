"""Finding and loading experiments."""

import pytest

from paceline.errors import ConfigError
from reproduction import experiments as module
from reproduction import find_experiments, load_experiment
from reproduction.experiments import read_about


def test_found_in_the_current_folder_or_above(experiments, monkeypatch):
    below = experiments.parent / "a/b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find_experiments() == {"coin-toss": experiments / "coin-toss"}


def test_found_beside_the_source_or_told_what_to_do(experiments, tmp_path, monkeypatch):
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.setattr(module, "FOLDER", "no-such-folder")  # stands for an install without a checkout
    with pytest.raises(ConfigError, match="come with a checkout of Paceline") as raised:
        find_experiments()
    assert "\n" not in str(raised.value)
    monkeypatch.setattr(module, "FOLDER", "experiments")
    monkeypatch.setattr(module.paceline, "__file__", str(tmp_path / "src/paceline/__init__.py"))
    assert list(find_experiments()) == ["coin-toss"]


def test_a_folder_that_is_named_must_have_some(experiments, tmp_path):
    assert list(find_experiments(experiments)) == ["coin-toss"]
    with pytest.raises(ConfigError, match="no experiments there"):
        find_experiments(tmp_path)


def test_a_folder_that_lacks_a_file_is_no_experiment(experiments):
    (experiments / "coin-toss/README.md").unlink()
    with pytest.raises(ConfigError, match="no experiments there"):
        find_experiments(experiments)


def test_loading(experiments):
    experiment = load_experiment("coin-toss", experiments)
    assert (experiment.name, experiment.about.figure) == ("coin-toss", "Nobody, Fig. 1")
    assert [expected.measure for expected in experiment.expectations] == ["value, size 1", "odd", "never"]
    assert len(list(experiment.run(0, is_quick=True))) == 2


def test_unknown_names_and_broken_files(experiments):
    with pytest.raises(ConfigError, match="there is no experiment 'coin-tos'; did you mean 'coin-toss'"):
        load_experiment("coin-tos", experiments)
    plot = experiments / "coin-toss/plot.py"
    plot.write_text("import no_such_package\n")
    with pytest.raises(ConfigError, match=r"No module named 'no_such_package'.*paceline\[experiments\]"):
        load_experiment("coin-toss", experiments)
    plot.write_text("")
    with pytest.raises(ConfigError, match="plot.py: has no 'plot'"):
        load_experiment("coin-toss", experiments)


def test_a_description_is_read_without_running_the_experiment(experiments):
    run = experiments / "coin-toss/run.py"
    run.write_text(f"import no_such_package\n{run.read_text()}")
    assert read_about(run.parent).figure == "Nobody, Fig. 1"
    for text, message in [("", "has no 'ABOUT'"), ("ABOUT = About(figure=1 + f())", "use plain values")]:
        run.write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_about(run.parent)
