"""Datasets of Hugging Face, from disk."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.sources import ReadOptions, load_own, load_source
from paceline.learning.tables import Column

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # no thread that watches progress bars
    datasets.disable_progress_bars()


def reviews(size=6, **columns):
    features = {"label": np.arange(size) % 2, "ids": np.arange(3 * size).reshape(size, 3).tolist()}
    return datasets.Dataset.from_dict(features | columns)


def save(dataset, path):
    dataset.save_to_disk(str(path))
    return str(path)


def test_rows_are_pairs_in_the_types_that_are_stored(tmp_path):
    features = datasets.Features(
        {"label": datasets.ClassLabel(names=["bad", "good"]), "ids": datasets.List(datasets.Value("int32"), length=3)}
    )
    both = datasets.DatasetDict(train=reviews().cast(features), test=reviews(4).cast(features))
    train, test = load_source(save(both, tmp_path / "own"), ReadOptions(target=("label",)))
    assert (len(train), len(test), train.structure, train.is_in_memory) == (6, 4, "tuple", False)
    assert train.columns == (Column("ids", "int32", (3,)), Column("label", "int64", ()))
    assert train.labels().tolist() == [0, 1] * 3
    taken = train.take(np.array([4, 1]))
    assert taken.x.tolist() == [[12, 13, 14], [3, 4, 5]]
    assert taken.x.flags.writeable
    assert train.take(slice(1, 3)).y.tolist() == [1, 0]


def test_more_columns_are_dicts_and_a_dataset_without_tests_is_split(tmp_path):
    where = save(reviews(10, mask=np.ones((10, 3), bool).tolist()), tmp_path / "own")
    train, test = load_source(where)
    assert (len(train), len(test), train.structure) == (8, 2, "dict")
    assert [column.name for column in train.columns] == ["label", "ids", "mask"]
    assert train.columns[2] == Column("mask", "bool", (3,))
    assert len(load_own(where)) == 10


def test_a_selection_is_taken_as_it_was_saved(tmp_path):
    table = load_own(save(reviews().select([5, 0]), tmp_path / "own"), ReadOptions(target=("label",)))
    assert table.take(slice(None)).x.tolist() == [[15, 16, 17], [0, 1, 2]]


@pytest.mark.parametrize(
    ("dataset", "target", "message"),
    [
        (reviews(text=["a"] * 6), "label", "column 'text' is string; allowed: numbers, true or false, and lists of"),
        (reviews(), "lable", "target 'lable' is no column; did you mean 'label'"),
        (reviews(more=[[1], [1], [1], [1, 2], [1], [1]]), "label", "column 'more' has lists of 1 to 2 values; pad"),
        (datasets.DatasetDict(test=reviews()), "label", "lacks the split 'train'; it has test"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, dataset, target, message):
    where = save(dataset, tmp_path / "own")
    with pytest.raises(ConfigError, match=f"^{where}.*{message}") as caught:
        load_own(where, ReadOptions(target=(target,))).take(slice(None))
    assert "\n" not in str(caught.value)


def test_a_damaged_folder_is_refused_in_one_line(tmp_path):
    where = save(reviews(), tmp_path / "own")
    (tmp_path / "own" / "state.json").write_text("{")
    with pytest.raises(ConfigError, match=f"^{where}: not a readable dataset: ") as caught:
        load_source(where)
    assert "\n" not in str(caught.value)
