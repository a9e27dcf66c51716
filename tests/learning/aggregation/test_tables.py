"""Methods are made of tables, in files and in Python; what does not fit is refused in one line."""

import math
import sys
from pathlib import Path

import pytest

from paceline import Job, load_job
from paceline.errors import ConfigError
from paceline.learning import aggregation
from paceline.learning.aggregation import (
    AGGREGATIONS,
    FedAvgAggregation,
    FedProxAggregation,
    MedianAggregation,
    TrimmedMeanAggregation,
)

OWN = Path(__file__).with_name("own_methods.py")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"method": "fedprox"}, "fedprox: mu is missing"),
        ({"method": "fedprox", "mu": 0}, "fedprox: mu is 0; it must be above 0"),
        ({"method": "fedprox", "mu": math.inf}, "fedprox: mu is inf; "),
        ({"method": "fedprox", "mu": math.nan}, "fedprox: mu is nan; "),
        ({"mu": 0.1}, "fedavg: unknown key 'mu'; "),
        ({"method": "fedadamm"}, "aggregation 'fedadamm' is unknown; did you mean 'fedadam'?"),
        ({"method": 3}, "method is 3; "),
        ({"weight": "size"}, "fedavg: weight is 'size'; "),
        ({"late": "keep"}, "fedavg: late is 'keep'; "),
        ({"compression": "int2"}, "fedavg: compression is 'int2'; "),
        ({"compression": "top-k", "kept_share": 0.6}, "fedavg: kept_share is 0.6; it must be above 0 and at most 0.5"),
        ({"method": "median", "weight": "work"}, "median: weight is 'work'; "),
        ({"method": "trimmed-mean", "trim": 0.5}, "trimmed-mean: trim is 0.5; it must be at least 0 and below 0.5"),
        ({"method": "krum", "num_byzantine": 1.5}, "krum: num_byzantine is 1.5; it must be a whole number"),
        ({"method": f"{OWN}:NotOne"}, f"aggregation '{OWN}:NotOne' is no dataclass derived from "),
        ({"method": f"{OWN}:Nothing"}, f"aggregation '{OWN}:Nothing': {OWN} has no 'Nothing'"),
        ({"method": "no/such.py:Thing"}, "aggregation 'no/such.py:Thing': no/such.py: no such file"),
        ({"method": "a b:c"}, "import 'a b:c' must read "),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_alike_everywhere(table, reason):
    with pytest.raises(ConfigError) as in_file:
        aggregation.from_config(table)
    with pytest.raises(ValueError, match="^aggregation: ") as in_python:
        Job(deadline_seconds=1, aggregation=table)
    assert str(in_python.value) == f"aggregation: {in_file.value}"
    assert str(in_file.value).startswith(reason)
    assert "\n" not in str(in_file.value)


def test_values_are_checked_in_python_too():
    with pytest.raises(ValueError, match="^weight is 'size'; "):
        FedAvgAggregation(weight="size")
    with pytest.raises(ValueError, match="^weight is 'samples'; "):
        MedianAggregation(weight="samples")
    with pytest.raises(ValueError, match=r"^trim is 0.5; "):
        TrimmedMeanAggregation(trim=0.5)
    with pytest.raises(ValueError, match=r"^mu is -1(.0)?; it must be above 0"):
        FedProxAggregation(mu=-1)


@pytest.mark.parametrize(
    "given",
    ["median", {"method": "median"}, MedianAggregation, MedianAggregation()],
    ids=["name", "table", "class", "it"],
)
def test_a_job_takes_a_name_a_table_a_class_or_a_method(given):
    assert Job(deadline_seconds=1, aggregation=given).aggregation == MedianAggregation()


def test_a_name_that_needs_a_field_says_so():
    with pytest.raises(ValueError, match="^aggregation: fedprox: mu is missing"):
        Job(deadline_seconds=1, aggregation="fedprox")
    with pytest.raises(ValueError, match="^aggregation: it must be a name, a table, or"):
        Job(deadline_seconds=1, aggregation=3)


def test_the_default_averages_by_work_as_it_always_did():
    method = Job(deadline_seconds=1).aggregation
    assert aggregation.describe(method) == {
        "method": "fedavg",
        "weight": "work",
        "max_weight": 10.0,
        "clip": 1.5,
        "late": "drop",
        "staleness_exponent": 0.5,
        "exchange": "all",
        "compression": "none",
        "kept_share": 0.05,
    }
    assert [method.weight_of(10, 30), FedAvgAggregation(weight="samples").weight_of(10, 30)] == [30.0, 10.0]
    assert FedAvgAggregation(weight="equal").weight_of(10, 30) == 1.0


def test_a_method_of_a_users_own_is_found_beside_the_job_file(tmp_path):
    (tmp_path / "mine.py").write_text(OWN.read_text())
    (tmp_path / "job.toml").write_text(
        "[job]\ndeadline_seconds = 1\n[aggregation]\nmethod = 'mine.py:PartOfTheWay'\npart = 0.25\n"
    )
    job = load_job(tmp_path / "job.toml")
    table = job.described()["aggregation"]
    assert (table["method"], table["part"]) == (f"{tmp_path}/mine.py:PartOfTheWay", 0.25)
    assert type(aggregation.from_config(table)).__name__ == "PartOfTheWay"


def test_installed_packages_add_methods(tmp_path, monkeypatch):
    (tmp_path / "averagings.py").write_text(OWN.read_text())
    (tmp_path / "averagings-1.0.dist-info").mkdir()
    entry = "[paceline.aggregations]\nhalf-way=averagings:PartOfTheWay\n"
    (tmp_path / "averagings-1.0.dist-info/entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    method = aggregation.from_config({"method": "half-way", "part": 0.5})
    assert aggregation.describe(method)["method"] == "half-way"
    assert "half-way" in AGGREGATIONS.names()
    del sys.modules["averagings"]
