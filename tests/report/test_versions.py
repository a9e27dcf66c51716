"""What a run was made with."""

import importlib.metadata
import platform
import shutil
import subprocess

import pytest

import paceline
from paceline.report import versions


def test_versions_of_this_process():
    told = versions.read_versions({"job": {"seed": 3}})
    assert told["paceline"] == paceline.__version__
    assert told["torch"] == importlib.metadata.version("torch")
    assert (told["python"], told["host"], told["seed"]) == (platform.python_version(), platform.node(), 3)


def test_the_seed_of_a_pool():
    assert versions.read_versions({"pool": {"seed": 4}, "allocation": {}})["seed"] == 4
    assert versions.read_versions({"pool": {}, "job": 1})["seed"] is None


def test_a_job_without_a_seed_and_a_package_that_is_not_there():
    assert versions.read_versions({})["seed"] is None
    assert versions._installed("no-such-package") is None


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_commit_is_of_the_files_own_checkout(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

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
