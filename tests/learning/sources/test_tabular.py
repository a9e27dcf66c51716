"""CSV and Parquet: features as float32, labels as class numbers or targets."""

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.learning.sources import ReadOptions, load_own, load_source
from paceline.learning.tables import Column

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

WINE = ReadOptions(target=("kind",), test_share=0.5)


def save_csv(path, columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n")
    return str(path.with_suffix(".csv"))


def save_parquet(path, columns):
    pyarrow.parquet.write_table(pa.table(columns), path.with_suffix(".parquet"))
    return str(path.with_suffix(".parquet"))


BOTH = pytest.mark.parametrize("save", [save_csv, save_parquet])


def wine(**changed):
    return {"acid": [1.5, 2.5, 3.0, 4.0], "sweet": [True, False, True, True], "kind": list("rwrw")} | changed


@BOTH
def test_features_are_numbers_and_texts_are_classes(tmp_path, save):
    train, test = load_source(save(tmp_path / "wine", wine()), WINE)
    assert (len(train), len(test)) == (2, 2)
    assert train.columns == (Column("x", "float32", (2,)), Column("y", "uint8", ()))
    rows = [tuple(row) for table in (train, test) for row in np.c_[table.take(slice(None)).x, table.labels()].tolist()]
    assert sorted(rows) == [(1.5, 1, 0), (2.5, 0, 1), (3, 1, 0), (4, 1, 1)]


@BOTH
@pytest.mark.parametrize(
    ("target", "dtype", "shape"),
    [
        ({"kind": [3, 0, 7, 1]}, "uint8", ()),
        ({"kind": [300, 0, 7, 1]}, "int32", ()),
        ({"kind": [1.5, 0.0, 7.0, 1.0]}, "float32", ()),
        ({"kind": [-1, 0, 7, 1]}, "float32", ()),
        ({"kind": [250_000, 0, 7, 1]}, "float32", ()),
        ({"kind": [0, 1, 1, 0], "dry": [1, 1, 0, 0]}, "uint8", (2,)),
        ({"kind": [0.5, 1, 1, 0], "dry": [1, 1, 0, 0]}, "float32", (2,)),
    ],
)
def test_targets_are_class_numbers_where_they_can_be_and_floats_elsewhere(tmp_path, save, target, dtype, shape):
    where = save(tmp_path / "wine", wine(**target))
    y = load_own(where, ReadOptions(target=tuple(target)))
    assert y.columns == (Column("x", "float32", (2,)), Column("y", dtype, shape))
    assert np.array_equal(y.labels(), np.squeeze(np.array(list(target.values())).T))


@BOTH
def test_a_folder_has_its_test_part_in_a_file(tmp_path, save):
    save(tmp_path / "train", wine())
    save(tmp_path / "test", wine(kind=["w", "w", "w", "x"]))
    train, test = load_source(str(tmp_path), WINE)
    assert train.labels().tolist() == [0, 1, 0, 1]
    assert test.labels().tolist() == [1, 1, 1, 2]  # numbered by all of them
    save(tmp_path / "test", wine(colour=[1, 2, 3, 4]))
    with pytest.raises(ConfigError, match="test.* has the features acid, sweet, colour, .*train.* has acid, sweet"):
        load_source(str(tmp_path), WINE)


@BOTH
@pytest.mark.parametrize(
    ("changed", "target", "message"),
    [
        ({}, (), "name the column of the labels, as target in .data.; allowed: acid, sweet, kind"),
        ({}, ("kid",), "target 'kid' is no column of it; did you mean 'kind'"),
        ({}, ("acid", "kind"), "of several target columns, all must be numbers"),
        ({}, ("acid", "sweet", "kind"), "all columns are targets"),
        ({"acid": ["a", "2", "3", "4"]}, ("kind",), "column 'acid' is ('a'|string)"),
        ({"acid": [1.0, float("nan"), 3.0, 4.0]}, ("kind",), "column 'acid' (is 'nan'|has values that are not finite)"),
        ({"acid": [1.0, 1e300, 3.0, 4.0]}, ("kind",), "column 'acid' (is '1e.300'|has values that are not finite)"),
        ({"kind": [1.0, float("inf"), 3.0, 4.0]}, ("kind",), "a target column has values that are missing or not fin"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_what_does_not_fit_is_named(tmp_path, save, changed, target, message):
    where = save(tmp_path / "wine", wine(**changed))
    with pytest.raises(ConfigError, match=f"^{where}: .*{message}") as caught:
        load_source(where, ReadOptions(target=target))
    assert "\n" not in str(caught.value)


@BOTH
def test_texts_of_a_device_cannot_be_numbered_as_others_number_theirs(tmp_path, save):
    with pytest.raises(ConfigError, match="the target column holds texts, which other devices may number in another"):
        load_own(save(tmp_path / "wine", wine()), WINE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,y\n1,0\n,1\n", "line 3: column 'a' is empty; features are finite numbers: encode texts and missing"),
        ("a,y\n1,0\n2\n", "line 3 has 1 values, and the first line 2 names"),
        ("a,y\n1,0\n2,\n", "column 'y' is empty in row 2; a label is needed"),
        ("a,y\n", "there are no rows below the line of names"),
        ("a,a,y\n1,2,3\n", "two columns are called 'a'"),
        ("", "target 'y' is no column of it; allowed: none"),
        ('a,y\n"1', "not a readable .csv file: unexpected end of data|line 2 has 1 values"),
        ("a,y\n1,\xff\n".encode("latin-1"), "not a readable .csv file: .*invalid start byte"),
    ],
)
def test_damaged_csv_files_are_refused_with_the_line(tmp_path, text, message):
    path = tmp_path / "own.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=f"^{path}: ({message})"):
        load_source(str(path), ReadOptions(target=("y",)))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_marks_and_blank_lines_are_understood(tmp_path, delimiter):
    path = tmp_path / "own.csv"
    lines = ["a;y", "1;0", "", '"2";1', "True; 1"]
    path.write_text("\n".join(lines).replace(";", delimiter), encoding="utf-8-sig")
    table = load_own(str(path), ReadOptions(target=("y",)))
    assert table.take(slice(None)).x.tolist() == [[1], [2], [1]]
    assert table.labels().tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1.0, None, 2.0, 3.0]), "column 'acid' has 1 missing values; fill them in"),
        (pa.array([[1.0], [2.0], [3.0], [4.0]]), "column 'acid' holds lists; features are numbers"),
        (pa.array([[1.0], [2.0, 3.0], [], [4.0]]), "column 'acid' has lists of 0 to 2 values"),
        (pa.array([1, 2, 3, 4], pa.timestamp("s")), "column 'acid' is timestamp.*; allowed: numbers"),
    ],
)
def test_columns_of_parquet_that_are_no_numbers_are_refused(tmp_path, column, message):
    with pytest.raises(ConfigError, match=message):
        load_source(save_parquet(tmp_path / "own", wine(acid=column)), WINE)


def test_categories_of_parquet_are_texts(tmp_path):
    kinds = pa.array(list("rwrw")).dictionary_encode()
    train, test = load_source(save_parquet(tmp_path / "own", wine(kind=kinds)), WINE)
    assert sorted([*train.labels(), *test.labels()]) == [0, 0, 1, 1]


def test_what_is_no_parquet_file_is_refused(tmp_path):
    path = tmp_path / "own.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(ConfigError, match=f"^{path}: not a readable .parquet file: "):
        load_source(str(path), WINE)
