"""Gossip job files: what they mean, and one line for everything that can be wrong with them."""

import json

import pytest

from paceline import config
from paceline.allocation.gossip import AllDataAllocation, EdgeGossipAllocation
from paceline.errors import ConfigError
from paceline.learning.partitions import PartitionSpec
from paceline.learning.points import PointsSpec
from paceline.topologies.gossip import GossipJob

JOB = """\
[gossip]
exchange = "push-sum"
epochs = 3
push_probability = 0.5
[data]
name = "digits"
[partition]
kind = "dirichlet"
alpha = 0.3
replicas = 2
[points]
[allocation]
policy = "edge-gossip"
max_failed = 0.5
"""


@pytest.fixture
def load(tmp_path):
    """Load a gossip job of this text."""

    def load(text, name="job.toml"):
        path = tmp_path / name
        path.write_text(text)
        return config.load_gossip(path)

    return load


def test_a_file_makes_a_job(load):
    job = load(JOB)
    assert (job.exchange, job.epochs, job.push_probability) == ("push-sum", 3, 0.5)
    assert job.partition == PartitionSpec(kind="dirichlet", alpha=0.3, replicas=2)
    assert job.points == PointsSpec()
    assert job.allocation == EdgeGossipAllocation(max_failed=0.5)


def test_an_empty_table_is_a_job_with_defaults(load):
    assert load("[gossip]") == GossipJob()
    assert load("[gossip]").allocation == AllDataAllocation()


def test_what_a_run_keeps_is_read_again(load):
    job = load(JOB)
    assert load(json.dumps(job.described()), "gossip.json") == job


@pytest.mark.parametrize(("text", "is_gossip"), [(JOB, True), ("[job]\ndeadline_seconds = 3\n", False), ("", False)])
def test_gossip_jobs_are_told_from_others(tmp_path, text, is_gossip):
    path = tmp_path / "job.toml"
    path.write_text(text)
    assert config.is_gossip(path) == is_gossip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gossip]\nepoch = 3", "[gossip]: unknown key 'epoch'; did you mean 'epochs'?"),
        ("[gosip]", "unknown table 'gosip'; did you mean 'gossip'?"),
        ("[gossip]\n[job]", "unknown table 'job'"),
        ("[gossip]\nepochs = 'many'", "[gossip] epochs"),
        ("[gossip]\nepochs = 0", "[gossip]: epochs is 0; it must be at least 1"),
        ("[gossip]\nexchange = 'mixin'", "[gossip] exchange"),
        ("[gossip]\ngraph = 'rng'", "[gossip] graph"),
        ("[gossip]\nexchange = 'push-sum'\noverlaps = true", "overlaps and compression are for mixing"),
        ("[gossip]\n[partition]\nkind = 'even'", "[partition] kind"),
        ("[gossip]\n[partition]\nreplicas = 0", "[partition]: replicas is 0; it must be at least 1"),
        ("[gossip]\n[allocation]\npolicy = 'dab'", "this policy needs an orchestrator"),
        ("[gossip]\n[allocation]\npolicy = 'edge-gosip'", "did you mean 'edge-gossip'?"),
        ("gossip = 3", "gossip"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(load, text, said):
    with pytest.raises(ConfigError) as caught:
        load(text)
    told = str(caught.value)
    assert "job.toml: " in told
    assert said in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", '{"gossip": ', "[" * 5000], ids=["nothing", "a list", "half", "too deep"]
)
def test_json_that_is_none_is_told_in_one_line(load, text):
    with pytest.raises(ConfigError, match="gossip.json: not JSON: ") as caught:
        load(text, "gossip.json")
    assert "\n" not in str(caught.value)


def test_a_gossip_table_is_no_job_for_an_orchestrator(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("[gossip]\n")
    with pytest.raises(ConfigError, match="unknown table 'gossip'"):
        config.load_job(path)
