"""Commands are loaded when they are asked for, and no sooner."""

import json
import subprocess
import sys

import pytest

import paceline
from paceline import errors
from paceline.cli.main import COMMANDS, EXIT_BAD_INPUT, EXIT_FAILED, EXIT_REFUSED, function_of

LIST_HEAVY_MODULES = """\
import sys
from paceline.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    heavy = sorted({"torch", "numpy", "sklearn", "paceline.axon"} & set(sys.modules))
    print(ended.code, *heavy, file=sys.stderr)
"""
PROBLEM = {
    "policy": "eta",
    "samples": 10,
    "cycle_seconds": 1,
    "learners": [{"name": "w0", "c2": 0.01, "c1": 0, "c0": 0}],
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--help"], "0\n"),
        (["--version"], "0\n"),
        (["allocate", "--help"], "0\n"),
        (["allocate", "-"], "0\n"),
        (["allocate", "-", "--json"], "0\n"),
        (["alocate"], "paceline: No such command 'alocate'. Did you mean 'allocate'?\n2\n"),
        (["axon", "call", "--help"], "0 numpy paceline.axon\n"),
    ],
)
def test_what_needs_no_pytorch_starts_without_it(arguments, expected):
    command = [sys.executable, "-c", LIST_HEAVY_MODULES, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, input=json.dumps(PROBLEM))
    assert result.stderr == expected


def test_version(printed):
    assert printed("--version") == f"paceline {paceline.__version__}\n"


@pytest.mark.parametrize("name", [*(name for name in COMMANDS if name != "axon"), "axon worker", "axon call"])
def test_help_fits_a_screen_and_has_an_example(name, monkeypatch, printed):
    own = name.split()[-1]
    command = function_of(own)
    summary = command.__doc__.partition("\n")[0]
    assert COMMANDS.get(name, summary) == summary
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed(*name.split(), "--help").splitlines()
    assert len(lines) <= 53
    assert any(f"Example: paceline {name}" in line for line in lines)


def test_help_lists_each_command_on_a_line(monkeypatch, printed):
    monkeypatch.setenv("COLUMNS", "80")
    out = printed()
    width = max(map(len, COMMANDS))
    assert [name for name, text in COMMANDS.items() if f"{name:<{width}}  {text}" not in out] == []
    assert "Exit codes: 0 done, 1 failed while running, 2 bad input, 3 no solution" in out


def test_an_interrupt_is_reported_in_one_line(monkeypatch, paceline_in):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("paceline.cli.allocate._read", interrupted)
    code, _, err = paceline_in("allocate", "-")
    assert (code, err.splitlines()[-1]) == (130, "paceline: interrupted")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("bad"), EXIT_BAD_INPUT),
        (errors.Unreachable("away"), EXIT_FAILED),
        (errors.Busy("full", status=503, retry_after_seconds=1), EXIT_FAILED),
        (errors.Refused("wrong token", status=401), EXIT_REFUSED),
        (errors.TlsFailed("another certificate"), EXIT_REFUSED),
        (errors.TurnedAway("revoked"), EXIT_REFUSED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_exit_code_says_whether_to_try_again(monkeypatch, refused, error, code):
    def fail(*arguments):
        raise error

    monkeypatch.setattr("paceline.cli.allocate._read", fail)
    assert refused("allocate", "-", code=code) == f"paceline: {error}"
