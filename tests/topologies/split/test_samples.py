"""What a source has of the data, in the order of all; and the schedule of an epoch, the same for all nodes."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.model_parts import epoch_order
from paceline.learning.views import ViewSpec, apply_view
from paceline.topologies.split.messages import SyncPoint
from paceline.topologies.split.samples import Minibatches, as_tensor, load_samples, view_of
from paceline.topologies.split.schedule import part, schedule_of
from tests.learning.small_data import arrays_of
from tests.topologies.split.runs import digits, small_split


def terms_of(**rules):
    return small_split(**rules).terms(1, ("3",))


def inputs(split):
    """All training samples, as they are stored."""
    return split.dataset.train.take(slice(None)).x


def written(path, **arrays):
    data = digits()
    few = {**arrays_of(data, slice(320), ["train"]), **arrays_of(data, slice(300), ["test"])}
    np.savez(path, **{**few, **arrays})
    return str(path)


def test_sources_see_the_same_samples_each_in_a_way_of_its_own():
    split = small_split()
    views = [view_of(split.dataset, split.terms(number, ()), number) for number in (1, 2, 3, 4)]
    plain, erased, flipped, again = (view.train.x for view in views)
    assert np.array_equal(plain, inputs(split))
    assert np.array_equal(flipped, inputs(split)[..., ::-1])
    assert np.array_equal(again, plain)  # the fourth begins from the first kind of view
    assert 0 < (erased != plain).mean() < 0.5
    assert all(np.array_equal(view.train.y, split.dataset.train.labels()) for view in views)
    assert all(len(view.test.x) == 300 for view in views)


def test_two_sources_of_the_same_view_draw_differently():
    split = small_split(view=(ViewSpec(kind="erase"),))
    terms = split.terms(1, ())
    one, twin, other = (view_of(split.dataset, terms, number).train.x for number in (1, 1, 2))
    assert np.array_equal(one, twin)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one[:300], view_of(split.dataset, terms, 1).test.x)


def test_a_file_is_taken_as_it_is_or_seen_as_the_trunk_says(tmp_path):
    split = small_split()
    terms, path = split.terms(3, ("3",)), written(tmp_path / "mine.npz")
    as_it_is = load_samples(terms, 3, path)
    assert np.array_equal(as_it_is.train.x, inputs(split))
    seen = load_samples(terms, 3, path, is_viewed=True)
    assert np.array_equal(seen.train.x, apply_view(inputs(split), ViewSpec(kind="flip-horizontal"), 0))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (arrays_of(digits(), slice(319), ["train"]), "x_train has 319 samples of shape"),
        (arrays_of(digits(), slice(10), ["test"]), "x_test has 10 samples"),
        ({"x_train": np.zeros((320, 1, 7, 8), np.uint8), "x_test": np.zeros((300, 1, 7, 8), np.uint8)}, "(1, 7, 8)"),
    ],
)
def test_a_file_of_other_samples_is_refused(tmp_path, arrays, said):
    path = written(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ConfigError) as caught:
        load_samples(terms_of(), 1, path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert said in message
    assert "; the trunk has 3" in message
    assert "sources see the same samples, in the same order" in message


def test_data_by_name_must_be_that_of_the_trunk():
    with pytest.raises(ConfigError, match="dataset digits: x_train has .*; the trunk has 320"):
        load_samples(terms_of(), 1)


def test_minibatches_are_the_same_for_all_and_new_in_each_epoch():
    terms = terms_of(num_samples=65, seed=3)
    minibatches, others = Minibatches(terms), Minibatches(terms)
    first = [minibatches.samples(1, number) for number in range(2)]
    assert [len(batch) for batch in first] == [minibatches.size(0), minibatches.size(1)] == [32, 33]
    assert np.array_equal(np.concatenate(first), epoch_order(65, 3, 1).numpy())
    assert not np.array_equal(minibatches.samples(2, 0), first[0])
    assert np.array_equal(others.samples(2, 1), minibatches.samples(2, 1))


def test_a_branch_begins_with_what_standardises_samples():
    split = small_split()
    how, x = split.training.normalisation, as_tensor(inputs(split)[:5])
    fed = split.chain().before("1")(x).numpy()
    expected = (x.numpy() * how.scale - how.mean[0]) / how.std[0]
    assert np.allclose(fed, expected.reshape(5, -1), atol=1e-6)


def phases(terms, epoch):
    return [f"{phase} {number}" for phase, number in schedule_of(terms, epoch)]


def test_an_epoch_has_steps_then_a_test_and_a_copy_as_often_as_the_job_says():
    usual = terms_of(num_samples=70, num_test_samples=257, epochs=3)
    assert phases(usual, 1) == ["step 0", "step 1", "step 2", "test 0", "test 1", "backup 0"]
    terms = terms_of(num_samples=32, num_test_samples=10, epochs=5, test_epochs=3, backup_epochs=2)
    phases_by_epoch = [[name[:4] for name in phases(terms, epoch)] for epoch in range(1, 7)]
    copied, tested = ["step", "back"], ["step", "test"]
    assert phases_by_epoch == [["step"], copied, tested, copied, tested, ["back"]]
    assert phases(terms_of(num_samples=32, epochs=2, backup_epochs=0), 1)[-1] == "test 1"


def test_other_schemes_have_other_schedules():
    averaged = terms_of(scheme="gfl", epochs=2)
    assert phases(averaged, 1) == ["average 0", "test 0", "backup 0"]
    images = terms_of(scheme="images", epochs=2)
    assert phases(images, 1) == ["images 0", "images 1", "images 2", "images 3"]
    assert phases(images, 2) == phases(images, 3) == []
    assert schedule_of(images, 1)[0] == SyncPoint("images", 0)
    assert [len(range(300)[part(number)]) for number in (0, 1, 2)] == [256, 44, 0]
