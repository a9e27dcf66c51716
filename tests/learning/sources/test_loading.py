"""Which format a path is of, the user's own sources, and objects of this process."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning import datasets
from paceline.learning.datasets import DataSpec
from paceline.learning.sources import FORMATS, ReadOptions, check_options, is_import, load_own, load_source
from tests.learning.sources import own_sources
from tests.learning.sources.own_sources import Squares

MODULE = own_sources.__name__


@pytest.mark.parametrize("name", ["Squares", "tensors"])
@pytest.mark.parametrize("where", [MODULE, own_sources.__file__])
def test_a_source_of_the_users_own_is_split(where, name):
    train, test = load_source(f"{where}:{name}", ReadOptions(test_share=0.3))
    assert (len(train), len(test)) == (7, 3)
    x = [*train.take(slice(None)).x[:, 0], *test.take(slice(None)).x[:, 0]]
    assert sorted(x) == list(range(10))


def test_a_function_may_return_both_parts_and_an_object_is_a_source_too():
    train, test = load_source(f"{MODULE}:both")
    assert (len(train), len(test)) == (6, 4)
    assert sum(map(len, load_source(f"{MODULE}:not_a_function"))) == 5
    assert len(load_own(f"{MODULE}:both")) == 6


def test_tensors_are_taken_without_copying_them_one_by_one():
    assert load_own(f"{MODULE}:tensors").is_in_memory
    assert not load_own(f"{MODULE}:Squares").is_in_memory


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (f"{MODULE}:nothing", r"nothing\(\) made a int; it must be a source, with __len__ and __getitem__, or a pair"),
        (f"{MODULE}:failing", r"calling failing\(\) failed: OSError: no disk"),
        (f"{MODULE}:missing", "has no 'missing'"),
        (f"{MODULE}:unequal", r"the samples for training and tests differ: a tuple of x float32 \(1,\), y"),
        ("nowhere.py:Source", "nowhere.py: no such file"),
        ("missing/folder", "missing/folder: no such file or folder"),
        ("__objects__:objects_0", "was made of objects in another process; to use it elsewhere, make it by a function"),
    ],
)
def test_what_cannot_be_opened_is_named(where, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load_source(where)
    assert "\n" not in str(caught.value)


def test_an_unknown_format_is_refused_with_those_that_are_known(tmp_path):
    (tmp_path / "data.xlsx").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("data.xlsx", "empty"):
        with pytest.raises(ConfigError, match=f"^{tmp_path / name}: not data of a known format; allowed: ") as caught:
            load_source(str(tmp_path / name))
        assert all(known.description in str(caught.value) for known in FORMATS.values())


def test_options_that_would_do_nothing_are_refused_for_a_job_and_ignored_by_devices(tmp_path):
    path = str(tmp_path / "own.npz")
    np.savez(path, x_train=np.zeros((10, 2), np.float32), y_train=np.arange(10))
    for options in (ReadOptions(target=("y",)), ReadOptions(image_size=8)):
        for where in (path, f"{MODULE}:Squares"):
            with pytest.raises(ConfigError, match=r"(target|image_size) does nothing for .*: leave it out of \[data\]"):
                check_options(where, options)
            assert len(load_own(where, options)) == 10


def test_too_few_samples_cannot_be_split(tmp_path):
    np.savez(tmp_path / "own.npz", x_train=np.zeros((1, 2)), y_train=np.zeros(1))
    with pytest.raises(ConfigError, match=r"test_share is 0.2; of 1 samples, none would be left to train on"):
        load_source(str(tmp_path / "own.npz"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("own.py:Data", True), ("a.b:Data", True), ("/x/own.py:Data", True), ("own.npz", False), ("a/b:c", False)],
)
def test_import_paths_are_told_from_paths_of_files(text, expected):
    assert is_import(text) is expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"path": "a.npz", "import_path": "a:b"}, "either a name, a path or an import, not path 'a.npz' and import"),
        ({"import_path": "ab"}, "import 'ab' must read package.module:Name"),
        ({"transform": "flip"}, "import 'flip' must read package.module:Name"),
        ({"target": "y"}, "target and image_size do nothing for the dataset 'digits'"),
        ({"path": "a", "test_share": 1.0}, "test_share is 1.0; it must be above 0 and below 1"),
        ({"path": "a", "image_size": 0}, "image_size is 0; allowed: 1 to 8192"),
        ({"path": "a", "target": 3}, "target is 3; it must be text or a list"),
    ],
)
def test_specs_are_checked_when_they_are_made(fields, message):
    with pytest.raises(ValueError, match=message):
        DataSpec(**fields)


def test_a_spec_of_objects_finds_them_in_this_process():
    train, test = Squares(6), Squares(3)
    spec = DataSpec.of(train, test, shard_size=2)
    assert spec == DataSpec.of(train, test, shard_size=2)
    assert spec != DataSpec.of(train, Squares(3), shard_size=2)
    data = datasets.load(spec)
    assert (len(data.train), len(data.test)) == (6, 3)
    with pytest.raises(ConfigError, match="the data is objects of this process, and devices that are other processes"):
        datasets.importable(spec)
    assert len(datasets.load(DataSpec.of(train)).test) == 1
    with pytest.raises(ValueError, match="test is a int; it needs __len__ and __getitem__"):
        DataSpec.of(train, 3)


def test_a_spec_of_a_function_or_class_is_its_import_path():
    assert DataSpec.of(Squares).import_path == f"{MODULE}:Squares"
    assert datasets.importable(DataSpec.of(own_sources.both)) == f"{MODULE}:both"
    assert datasets.importable(DataSpec(name="digits")) is None
