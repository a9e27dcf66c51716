"""The examples of README and docs run, and print what the pages say they print.

A Python block without a title is a program; the text block after it is its output. Blocks titled "client" make up one
program per page, run while the blocks titled with a file name are served by `paceline axon worker`. On a page with a
pyproject.toml, these blocks are a package instead, installed for all programs of the page.
"""

import ast
import importlib
import re
import runpy
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from paceline.config import read_tables

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r'^```(\w+)(?: title="(.+?)")?\n(.*?)^```', re.M | re.S)


@dataclass
class Program:
    source: str
    output: str = ""
    workers: dict[str, str] = field(default_factory=dict)
    package: dict[str, str] = field(default_factory=dict)


def programs_of(page):
    """Find the programs on a page, each with the output it should have."""
    programs, client, last = [], Program(""), None
    blocks = BLOCK.findall(page.read_text())
    files = {title: text for _, title, text in blocks if title.endswith((".py", ".toml"))}
    package = files if "pyproject.toml" in files else {}
    for language, title, text in blocks:
        if title in package:
            continue
        if language == "python" and title.endswith(".py"):
            client.workers[title] = text
        elif language == "python" and title == "client":
            client.source += text
            last = client
        elif language == "python":
            last = Program(text, package=package)
            programs.append(last)
        elif language == "text" and last is not None:
            last.output += text
    return [*programs, client] if client.source else programs


CASES = [
    pytest.param(program, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, program in enumerate(programs_of(page), 1)
]


def test_there_are_examples():
    assert len(CASES) >= 9


def install(package, folder):
    """Write a package to a folder as if it were installed there."""
    for name, text in package.items():
        (folder / name).write_text(text)
    (folder / "package-1.0.dist-info").mkdir()
    groups = read_tables(folder / "pyproject.toml")["project"]["entry-points"].items()
    lines = [line for group, names in groups for line in (f"[{group}]", *(f"{key}={names[key]}" for key in names))]
    (folder / "package-1.0.dist-info/entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def play(monkeypatch, capfd):
    """Run a script as `python script.py` does, in this process: loading PyTorch takes longer than most programs."""

    def play(script):
        monkeypatch.chdir(script.parent)
        monkeypatch.syspath_prepend(str(script.parent))
        monkeypatch.setattr(sys, "argv", [str(script)])
        with torch.random.fork_rng():
            runpy.run_path(str(script), run_name="__main__")
        return capfd.readouterr().out

    return play


def run_alone(script):
    """Run a script in a process of its own, where it finds what is installed beside it."""
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, cwd=script.parent)
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr
    return result.stdout


@pytest.mark.parametrize("program", CASES)
def test_example(program, tmp_path, spawn, play):
    if program.package:
        install(program.package, tmp_path)
    for name, source in program.workers.items():
        (tmp_path / name).write_text(source)
        serving = "import sys; from paceline.cli import main; main(['axon', 'worker', sys.argv[1], '--json'])"
        spawn(serving, tmp_path / name, name="serve.py").stdout.readline()
    script = tmp_path / "example.py"
    script.write_text(program.source)
    assert (run_alone if program.package else play)(script) == program.output


@pytest.mark.parametrize("program", CASES)
def test_an_example_can_be_run_twice(program):
    calls = [node for node in ast.walk(ast.parse(program.source)) if isinstance(node, ast.Call)]
    for given in ({keyword.arg for keyword in call.keywords} for call in calls):
        assert "folder" not in given or "overwrite" in given


def test_links_between_files_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


@pytest.mark.parametrize("page", [page for page in PAGES if re.match("journey|architecture", page.stem)], ids=str)
def test_explanations_name_files_that_exist(page):
    text, package = page.read_text(), ROOT / "src/paceline"
    named = {file for part in re.findall(r"\[(`[^]]+`)\]", text) for file in re.findall(r"`([\w/]+(?:\.py|/))`", part)}
    folders = [package, package / "axon", *(package / folder for folder in re.findall(r"`(topologies/\w+)/`", text))]
    assert named
    assert not {file for file in named if not any((folder / file).exists() for folder in folders)}


def test_every_exit_code_is_documented():
    cli = importlib.import_module("paceline.cli.main")
    codes = {0, cli.EXIT_FAILED, cli.EXIT_BAD_INPUT, cli.EXIT_INFEASIBLE, cli.EXIT_REFUSED}
    codes |= {cli.EXIT_INTERRUPTED, cli.EXIT_TERMINATED}
    text = (ROOT / "docs/reference/errors.md").read_text()
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.M)} == codes
