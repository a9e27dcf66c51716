"""Points that were made before: found by what they were made of, never a file that is damaged or of others."""

import msgspec
import numpy as np
import pytest

from paceline.learning.aggregated_points import PointsSpec, cache, cached, remembered
from tests.learning.aggregated_points.samples import heaps

SPEC = PointsSpec(reduction="hash", division="lsh", ratio=5)


def same(one, other):
    return (
        np.array_equal(one.x, other.x)
        and np.array_equal(one.y, other.y)
        and np.array_equal(one.sets.offsets, other.sets.offsets)
        and np.array_equal(one.sets.indices, other.sets.indices)
    )


def test_points_are_made_once(tmp_path):
    x, y, _ = heaps()
    told = []
    made, found = (cached(x, y, SPEC, tmp_path / "new" / "folder", lambda *step: told.append(step)) for _ in range(2))
    assert (made.is_cached, found.is_cached) == (False, True)
    assert same(made.points, found.points)
    assert (made.points.y.dtype, found.points.x.dtype) == (y.dtype, np.float32)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 1


def test_other_data_and_other_specs_are_other_points(tmp_path):
    x, y, _ = heaps()
    other_x, other_y = x.copy(), y.copy()
    other_x[0, 0, 0, 0] += 1
    other_y[0] = (other_y[0] + 1) % 3
    cases = [
        (x, y, SPEC),
        (other_x, y, SPEC),
        (x, other_y, SPEC),
        (x.reshape(len(x), 1, 4, 9), y, SPEC),
        (x.view(np.int8), y, SPEC),
        (x, y, msgspec.structs.replace(SPEC, seed=1)),
        (x, y, msgspec.structs.replace(SPEC, ratio=4)),
        (x, y, msgspec.structs.replace(SPEC, reduction="svd")),
    ]
    assert [cached(*case, tmp_path).is_cached for case in cases] == [False] * len(cases)
    assert [cached(*case, tmp_path).is_cached for case in cases] == [True] * len(cases)


@pytest.mark.parametrize("damage", ["cut", "empty", "zeros", "text"])
def test_a_damaged_file_is_made_anew(tmp_path, damage):
    x, y, _ = heaps()
    made = cached(x, y, SPEC, tmp_path).points
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[:-40], "empty": b"", "zeros": bytes(len(whole)), "text": b"points"}[damage])
    again = cached(x, y, SPEC, tmp_path)
    assert not again.is_cached
    assert same(again.points, made)
    assert cached(x, y, SPEC, tmp_path).is_cached


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", lambda x: x[:-1]),
        ("y", lambda y: y[1:]),
        ("offsets", lambda offsets: np.int64(3)),
        ("offsets", lambda offsets: offsets[::-1]),
        ("indices", lambda indices: indices + 1),
        ("indices", lambda indices: np.zeros_like(indices)),
        ("indices", None),
    ],
)
def test_a_file_that_does_not_fit_the_samples_is_made_anew(tmp_path, name, change):
    x, y, _ = heaps()
    cached(x, y, SPEC, tmp_path)
    (path,) = tmp_path.iterdir()
    with np.load(path) as file:
        arrays = dict(file)
    arrays = {key: array for key, array in arrays.items() if key != name or change}
    if change:
        arrays[name] = change(arrays[name])
    np.savez(path, **arrays)
    assert not cached(x, y, SPEC, tmp_path).is_cached
    assert cached(x, y, SPEC, tmp_path).is_cached


def test_a_folder_that_cannot_be_written_to_costs_no_points(tmp_path):
    x, y, _ = heaps()
    (tmp_path / "file").write_text("")
    found = cached(x, y, SPEC, tmp_path / "file")
    assert not found.is_cached
    assert found.points.sets.is_whole(len(y))


def test_what_is_broken_off_leaves_nothing(tmp_path, monkeypatch):
    def savez(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", savez)
    x, y, _ = heaps()
    with pytest.raises(KeyboardInterrupt):
        cached(x, y, SPEC, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_process_remembers_the_points_that_it_asked_for_last(monkeypatch):
    x, y, _ = heaps()
    specs = [msgspec.structs.replace(SPEC, seed=seed) for seed in range(3)]
    first = remembered(x, y, specs[0])
    assert remembered(x.copy(), y.copy(), specs[0]) is first
    monkeypatch.setattr(cache, "_MAX_REMEMBERED_BYTES", 2 * first.x.nbytes)
    second = remembered(x, y, specs[1])
    assert remembered(x, y, specs[0]) is first
    remembered(x, y, specs[2])  # the second was asked for longest ago
    assert remembered(x, y, specs[0]) is first
    assert remembered(x, y, specs[1]) is not second
