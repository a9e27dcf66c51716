"""Checkpoints: whole or not at all, the newest few kept, and damaged ones told in one line."""

import random
import resource
import signal
import stat
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from paceline.errors import ConfigError, DiskError
from paceline.learning import checkpoints
from paceline.learning.checkpoints import NUM_KEPT
from tests.learning.own_models import Tied
from tests.learning.small_tasks import are_equal


def state_of(round):
    return {"w": torch.full((2, 3), float(round)), "n": torch.tensor(round)}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int64, torch.bool, torch.complex64])
def test_a_state_comes_back_as_it_was(tmp_path, dtype):
    state = {
        "0.weight": torch.arange(6).view(2, 3).to(dtype),
        "scalar": torch.ones((), dtype=dtype),
        "none": torch.zeros(0, 3, dtype=dtype),
        "turned": torch.arange(6).view(2, 3).to(dtype).t(),
    }
    path = checkpoints.save(tmp_path / "deep" / "folder", 7, state)
    assert path.parent == tmp_path / "deep" / "folder"
    loaded = checkpoints.load(path.parent, 7)
    assert loaded.keys() == state.keys()
    for name, tensor in state.items():
        assert loaded[name].dtype == dtype
        assert torch.equal(loaded[name], tensor)


def test_tied_weights_come_back_under_both_names(tmp_path):
    model, other = Tied(), Tied()
    checkpoints.save(tmp_path, 1, model.state_dict())
    loaded = checkpoints.load(tmp_path, 1)
    assert torch.equal(loaded["first.weight"], loaded["second.weight"])
    other.load_state_dict(loaded)
    assert other.first.weight is other.second.weight
    assert are_equal(other.state_dict(), model.state_dict())


def test_the_newest_are_kept(tmp_path):
    for number in range(1, 7):
        checkpoints.save(tmp_path, number, state_of(number))
        newest = list(range(max(1, number - NUM_KEPT + 1), number + 1))
        assert checkpoints.rounds(tmp_path) == newest
        assert [int(checkpoints.load(tmp_path, kept)["n"]) for kept in newest] == newest
    assert len(list(tmp_path.iterdir())) == NUM_KEPT


CRASHING = """
import os, sys
from pathlib import Path
import torch
from paceline.learning import checkpoints

for moment in sys.argv[2:]:
    child = os.fork()
    if not child:
        folder = Path(sys.argv[1]) / moment
        for number in range(1, 4):
            checkpoints.save(folder, number, {"n": torch.tensor(number)})
        sys.addaudithook(lambda event, arguments: os._exit(7) if event == moment else None)
        checkpoints.save(folder, 4, {"n": torch.tensor(4)})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_crash_leaves_whole_files_only(tmp_path):
    """Killed when the file is written and not yet renamed, and when it is and old ones are not yet removed."""
    moments = {"os.rename": [1, 2, 3], "os.remove": [1, 2, 3, 4]}
    subprocess.run([sys.executable, "-c", CRASHING, str(tmp_path), *moments], check=True)
    for moment, rounds in moments.items():
        folder = tmp_path / moment
        assert checkpoints.rounds(folder) == rounds
        assert [int(checkpoints.load(folder, number)["n"]) for number in rounds] == rounds
        checkpoints.save(folder, 4, state_of(4))
        assert sorted(path.name for path in folder.iterdir()) == [f"round-0000{n}.safetensors" for n in (2, 3, 4)]


def test_damaged_files_are_refused_in_one_line_whatever_the_damage(tmp_path):
    path = checkpoints.save(tmp_path, 1, state_of(1), {"model": "of sorts"})
    expected = checkpoints.read_whole(path)
    whole, chance, refusals = path.read_bytes(), random.Random(0), []
    for position in range(len(whole)):
        flipped = whole[:position] + bytes((whole[position] ^ chance.randrange(1, 256),)) + whole[position + 1 :]
        for content in (whole[:position], flipped):
            path.write_bytes(content)
            try:
                state, header = checkpoints.read_whole(path)
            except ConfigError as error:
                refusals.append(str(error))
            else:  # what was damaged says nothing, such as a space at the end of the header
                assert are_equal(state, expected.state)
                assert header == expected.header
    assert len(refusals) >= 2 * len(whole) - 8
    assert all(refusal.startswith(f"{path}: cannot be read as a checkpoint: ") for refusal in refusals)
    assert not any("\n" in refusal for refusal in refusals)


def test_files_of_elsewhere_have_no_digest_and_ours_are_read_elsewhere(tmp_path):
    save_file(state_of(1), tmp_path / "round-00001.safetensors")
    with pytest.raises(ConfigError, match="it has no digest, so it is damaged or not of a run"):
        checkpoints.load(tmp_path, 1)
    assert are_equal(checkpoints.read(tmp_path / "round-00001.safetensors", is_foreign=True), state_of(1))
    assert are_equal(load_file(checkpoints.save(tmp_path, 2, state_of(2))), state_of(2))


def test_files_are_private_also_where_others_may_read_what_a_crash_left(tmp_path):
    (tmp_path / "round-00001.safetensors.new").write_text("cut short")
    path = checkpoints.save(tmp_path / "new", 1, state_of(1))
    checkpoints.save(tmp_path, 1, state_of(1))
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, tmp_path / path.name)]
    assert modes == [0o600, 0o700, 0o600]


def test_a_full_disk_is_told_in_its_own_words(tmp_path):
    state = {"w": torch.zeros(100_000)}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(DiskError, match="round-00001.safetensors cannot be written: File too large$"):
            checkpoints.save(tmp_path, 1, state)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_told_in_one_line(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(DiskError, match="round-00001.safetensors cannot be written") as raised:
        checkpoints.save(tmp_path / "taken", 1, state_of(1))
    assert "\n" not in str(raised.value)
