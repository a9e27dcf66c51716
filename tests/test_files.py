"""Durable writes: whole or not at all, synced in the right order, and disks that fail on purpose."""

import errno
import os
import random
import stat

import pytest

from paceline import files
from paceline.testing.disks import Crash, FaultyDisk


def kinds(disk):
    return [(change.kind, change.path.name) for change in disk.changes]


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path):
    disk = FaultyDisk()
    with files.written_to(disk):
        files.replace(tmp_path / "a", b"new")
    assert kinds(disk) == [("fill", "a.new"), ("sync", "a.new"), ("rename", "a"), ("sync", tmp_path.name)]
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize("kind", ["fill", "sync", "rename"])
def test_a_write_that_fails_leaves_what_was_there(kind, tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with files.written_to(FaultyDisk({kind: errno.EIO})), pytest.raises(OSError, match="Input/output error"):
        files.replace(tmp_path / "a", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_waiting_for_the_disk_can_be_left_out(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(os, "fsync", waited.append)
    files.replace(tmp_path / "a", b"")
    assert len(waited) == 2
    with files.unsynced():
        files.replace(tmp_path / "a", b"")
    assert len(waited) == 2
    files.replace(tmp_path / "a", b"")
    assert len(waited) == 4


@pytest.mark.parametrize(("number", "is_raised"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_file_systems_that_cannot_sync_are_no_fault(number, is_raised, tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    if is_raised:
        with pytest.raises(OSError, match="Input/output"):
            files.replace(tmp_path / "a", b"")
    else:
        files.replace(tmp_path / "a", b"")


def test_folders_are_private_and_those_of_others_are_left_as_they_are(tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o755)
    files.make_folder(tmp_path / "theirs/runs/new")
    files.make_folder(tmp_path / "theirs/runs/new")
    modes = [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("theirs", "theirs/runs", "theirs/runs/new")]
    assert modes == [0o755, 0o700, 0o700]
    with pytest.raises(FileExistsError):
        files.make_folder(tmp_path / "theirs/runs/new", exist_ok=False)


@pytest.mark.parametrize("seed", range(20))
def test_a_piece_is_added_whole_or_not_at_all(seed, tmp_path):
    """Whatever fails, and also where cutting off what was torn fails at first."""
    chance, path = random.Random(seed), tmp_path / "lines"
    path.write_bytes(b"0\n")
    disk = FaultyDisk(lambda change: errno.ENOSPC if chance.random() < 0.4 else None, chance)
    added = ["0"]
    file = files.GrowingFile(path)
    with files.written_to(disk):
        for number in range(1, 60):
            try:
                file.append(f"{number}\n".encode())
            except OSError:
                continue
            added.append(str(number))
            assert path.read_text().split() == added
    file.append(b"end\n")
    file.close()
    assert path.read_text().split() == [*added, "end"]
    assert 10 < len(added) < 60


def test_what_was_synced_survives_a_loss_of_power_and_what_was_not_may_not(tmp_path):
    outcomes = set()
    for seed in range(30):
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / "log").write_bytes(b"")
        disk = FaultyDisk(lambda change: Crash if change.number == 6 else None, random.Random(seed))
        log = files.GrowingFile(folder / "log")
        with files.written_to(disk):
            log.append(b"synced ")
            files.disk().sync(folder / "log")
            log.append(b"not synced")
            files.replace(folder / "model", b"whole", is_synced=False)
            with pytest.raises(Crash):
                log.append(b"!")
        log.close()
        disk.lose_power()
        text = (folder / "log").read_text()
        assert text.startswith("synced ")
        model = (folder / "model").read_text() if (folder / "model").exists() else None
        assert model is None or "whole".startswith(model)
        outcomes |= {("log", len(text) > 7), ("model", model)}
    assert outcomes >= {("log", True), ("log", False), ("model", None), ("model", "whole")}
    assert any(model not in (None, "whole") for kind, model in outcomes if kind == "model")
