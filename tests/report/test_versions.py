"""What a run was made with."""

import importlib.metadata
import platform
import shutil
import subprocess

import pytest

import paceline
from paceline.report import versions


def test_versions_of_this_process():
    found = versions.read_versions({"job": {"seed": 3}})
    assert found["paceline"] == paceline.__version__
    assert found["torch"] == importlib.metadata.version("torch")
    assert (found["python"], found["host"], found["seed"]) == (platform.python_version(), platform.node(), 3)
    assert versions.read_versions({"pool": {"seed": 4}, "allocation": {}})["seed"] == 4
    assert versions.read_versions({"pool": {}, "job": 1})["seed"] is None
    assert versions._installed("no-such-package") is None


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_commit_is_of_the_files_own_checkout(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        command = ["git", "-C", tmp_path, *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    package, installed = tmp_path / "package", tmp_path / "installed"
    for folder in (package, installed):
        folder.mkdir()
        (folder / "__init__.py").write_text("")
    assert versions._commit_of(package) is None
    git("init", "--quiet")
    git("add", "package")
    git("commit", "--quiet", "--message", "first")
    assert versions._commit_of(package) == git("rev-parse", "HEAD")
    assert versions._commit_of(installed) is None
    (package / "__init__.py").write_text("changed = True")
    assert versions._commit_of(package) == git("rev-parse", "HEAD") + "-dirty"
