"""A folder of its own for the commands of each test."""

import pytest

from paceline.cli import main


@pytest.fixture
def paceline_in(tmp_path, monkeypatch, capsys):
    """Run a command in this process, in a new folder; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PACELINE_TOKEN", raising=False)

    def run(*arguments):
        with pytest.raises(SystemExit) as exit:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return exit.value.code, captured.out, captured.err

    run.folder = tmp_path
    return run
