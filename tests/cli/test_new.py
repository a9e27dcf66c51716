"""A new project runs as it is, and is never written over anything."""

import subprocess
import sys

import pytest

from paceline.cli import main


def ended_with(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def test_a_new_project_learns_and_its_test_passes(tmp_path, capsys):
    assert ended_with("new", str(tmp_path / "spirals")) == 0
    assert "paceline simulate job.toml fleet.toml" in capsys.readouterr().out
    assert (tmp_path / "spirals" / "README.md").read_text().startswith("# spirals\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    tested = subprocess.run(command, cwd=tmp_path / "spirals", capture_output=True, text=True, timeout=300)
    assert "1 passed" in tested.stdout, tested.stdout


def test_what_is_there_is_kept(tmp_path, capsys):
    (tmp_path / "mine.txt").touch()
    assert ended_with("new", str(tmp_path)) == 2
    assert f"{tmp_path} is not empty: name a new folder" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]
