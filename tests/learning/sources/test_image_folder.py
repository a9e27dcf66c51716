"""Folders of images, one sub-folder for each class."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.sources import ReadOptions, load_own, load_source
from paceline.learning.tables import Column

Image = pytest.importorskip("PIL.Image")


def paint(path, colour, size=(8, 6), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def pets(root, parts=("train", "test"), mode="RGB", colours=((255, 0, 0), (0, 0, 255))):
    for part in parts:
        for number in range(3):
            for name, colour in zip(("dog", "cat"), colours, strict=True):
                paint(root / part / name / f"{number}.{'png' if number else 'BMP'}", colour, mode=mode)
    (root / parts[0] / "dog" / "notes.txt").write_text("not an image")
    return str(root)


def test_images_are_bytes_with_channels_first_and_classes_are_sorted(tmp_path):
    train, test = load_source(pets(tmp_path))
    assert (len(train), len(test), train.is_in_memory) == (6, 6, False)
    assert train.columns == (Column("x", "uint8", (3, 6, 8)), Column("y", "uint8", ()))
    assert train.labels().tolist() == [0, 0, 0, 1, 1, 1]
    x, y = train.take(np.array([0, 5]))
    assert y.tolist() == [0, 1]
    assert x[:, :, 0, 0].tolist() == [[0, 0, 255], [255, 0, 0]]  # cats are blue


def test_grey_images_have_one_channel(tmp_path):
    train, _ = load_source(pets(tmp_path, mode="L", colours=(7, 9)))
    assert train.take(slice(0, 1)).x.shape == (1, 1, 6, 8)
    assert train.take(slice(0, 1)).x.max() == 9


def test_a_folder_of_classes_alone_is_split(tmp_path):
    pets(tmp_path, parts=("photos",))
    where = str(tmp_path / "photos")
    train, test = load_source(where, ReadOptions(test_share=0.5))
    assert (len(train), len(test)) == (3, 3)
    assert sorted([*train.labels(), *test.labels()]) == [0, 0, 0, 1, 1, 1]
    again = load_source(where, ReadOptions(test_share=0.5))[1]
    assert np.array_equal(again.take(slice(None)).x, test.take(slice(None)).x)
    assert len(load_own(where)) == 6


def test_images_of_other_sizes_are_refused_or_made_of_one(tmp_path):
    where = pets(tmp_path)
    paint(tmp_path / "train" / "dog" / "tall.png", (255, 0, 0), size=(10, 30))
    train, _ = load_source(where)
    with pytest.raises(ConfigError, match=r"tall.png has shape \(3, 30, 10\), .*BMP has \(3, 6, 8\): set image_size"):
        train.take(slice(None))
    train, test = load_source(where, ReadOptions(image_size=5))
    assert train.take(slice(None)).x.shape == (7, 3, 5, 5)
    assert test.columns[0].shape == (3, 5, 5)
    assert (train.take(np.array([6])).x[0, 0] == 255).all()


def test_grey_among_colour_is_taken_and_colour_among_grey_is_refused(tmp_path):
    where = pets(tmp_path / "colour")
    paint(tmp_path / "colour" / "train" / "cat" / "9.png", 50, mode="L")
    assert load_source(where)[0].take(np.array([3])).x[0, :, 0, 0].tolist() == [50, 50, 50]
    where = pets(tmp_path / "grey", mode="L", colours=(1, 2))
    paint(tmp_path / "grey" / "train" / "dog" / "9.png", (1, 2, 3))
    with pytest.raises(ConfigError, match=r"9.png has shape \(3, 6, 8\), .* has \(1, 6, 8\): convert images"):
        load_source(where)[0].take(slice(None))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: (root / "train/cat/0.BMP").write_bytes(b"BM12"), "0.BMP: not a readable image: "),
        (lambda root: paint(root / "train/cat/0.png", 9, mode="I;16"), "0.png: not a readable image: its mode is I;16"),
        (
            lambda root: paint(root / "test/cow/1.png", (1, 2, 3)),
            "test: class 'cow' is not in the training data; it ha",
        ),
    ],
)
def test_what_is_no_image_is_named(tmp_path, damage, message):
    where = pets(tmp_path)
    damage(tmp_path)
    with pytest.raises(ConfigError, match=message) as caught:
        load_source(where)[0].take(slice(None))
    assert "\n" not in str(caught.value)
