"""Memory that a device gives: stated, compared with what a model needs, and not exceeded."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from paceline.devices.machines import LiveMachine
from paceline.errors import ConfigError
from paceline.learning import memory
from paceline.learning.memory import check_trainable, free_bytes, parse_bytes
from paceline.learning.npz import read_npz
from tests.learning.small_tasks import make_spec, pairs


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("512M", 512 << 20), ("1.5G", 3 << 29), ("2gb", 2 << 30), ("536870912", 512 << 20)]
)
def test_sizes_are_read(text, num_bytes):
    assert parse_bytes("--max-memory", text) == num_bytes


@pytest.mark.parametrize("text", ["", "much", "1T", "-1G", "1K", "0", "nan", "1e9", "9" * 50])
def test_other_sizes_are_refused_in_a_line(text):
    with pytest.raises(ConfigError, match=r"^--max-memory is '.*'; allowed: at least 512M, written like 512M or 1.5G$"):
        parse_bytes("--max-memory", text)


def test_what_is_free_is_bounded_by_the_control_group(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    everything = free_bytes()
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert free_bytes() > everything / 2
    (tmp_path / "memory.max").write_text("5000\n")
    assert free_bytes() == 4000


def test_a_model_that_takes_more_than_a_device_gives_is_not_made():
    spec = make_spec("two-nn", columns=pairs((1 << 20,)))  # 52 million parameters
    assert spec.num_parameters > 50_000_000
    reason = "model 'two-nn' takes at least 800M to train; this device gives 128M (--max-memory)"
    with pytest.raises(ConfigError) as raised:
        LiveMachine(max_memory_bytes=128 << 20).trainer(spec)
    assert str(raised.value) == reason
    check_trainable(spec, 1 << 30)


def test_models_of_the_users_own_are_trusted():
    check_trainable(make_spec("Line"), 1)


TRAIN = """
import asyncio, json
import numpy as np
from paceline.errors import OutOfMemory
from paceline.learning.memory import bounded_process
from paceline.learning.shards import Shard
from paceline.learning.trainers import ThreadTrainer
from tests.learning.small_tasks import make_model, pairs

trainer = ThreadTrainer(make_model("two-nn", columns=pairs((1 << 20,)), batch_size=4))
shards = [Shard(np.zeros((4, 1 << 20), np.float32), np.zeros(4, np.uint8))]

def train():
    try:
        return asyncio.run(trainer.train(trainer.initial_parameters(), shards)).num_samples
    except OutOfMemory as error:
        return str(error)

with bounded_process(800 << 20):
    bounded = train()
print(json.dumps([bounded, train()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
def test_a_process_does_not_take_more_than_it_may_and_says_so():
    result = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, timeout=120, check=True)
    bounded, unbounded = json.loads(result.stdout)
    assert bounded.startswith("training took more memory than there is: ")
    assert bounded.endswith("; try smaller batches, or give it more (--max-memory)")
    assert unbounded == 4


def test_an_archive_that_unpacks_to_more_than_there_is_is_refused_unread(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x_train=np.zeros((4000, 1000), np.uint8), y_train=np.zeros(4000, np.uint8))
    assert path.stat().st_size < 20_000
    assert read_npz(path, ["x_train"])["x_train"].nbytes == 4_000_000
    monkeypatch.setattr("paceline.learning.npz.free_bytes", lambda: 1 << 20)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *arguments, **options: pytest.fail("it was read"))
    reason = r"unpacked, its arrays take 3.8\dM, and 1M of memory are free; a folder of .npy files is mapped instead"
    with pytest.raises(ConfigError, match=reason):
        read_npz(path, ["x_train", "y_train"])
