"""Pool files and jobs that are submitted: what they mean, and one line for everything that can be wrong with them."""

import pytest

from paceline import config
from paceline.allocation import MedAllocation, MmttAllocation
from paceline.errors import ConfigError
from paceline.learning.datasets import DataSpec
from paceline.topologies.multitask import PoolSpec
from paceline.topologies.parallel import Job

JOB = "[job]\ndeadline_seconds = 3\n"
FILES = {
    "small.toml": JOB,
    "other.toml": JOB + 'name = "small"\n',
    "named.toml": JOB + 'name = "large"\n[data]\npath = "own.npz"\n',
    "decided.toml": JOB + '[allocation]\npolicy = "dab"\n',
    "local.toml": JOB + '[data]\nplacement = "local"\n',
    "two words.toml": JOB,
    "wrong.toml": JOB + "rouds = 3\n",
}


@pytest.fixture
def pool(tmp_path):
    """Load a pool file of this text, with some job files beside it."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def load(text):
        path = tmp_path / "pool.toml"
        path.write_text(text)
        return config.load_pool(path)

    return load


def test_a_table_is_all_that_a_pool_needs(pool):
    assert pool("[pool]") == (PoolSpec(), [])


def test_every_key_is_understood(pool, tmp_path):
    spec, jobs = pool(
        """
        [pool]
        jobs = ["small.toml", "named.toml"]
        min_learners = 3
        total_budget = 100
        patience_seconds = 1.5
        idle_seconds = 60
        moves_learners = false
        max_model_bytes = 1000
        seed = 7
        [allocation]
        policy = "med"
        budget = 10.5
        min_shards = 0
        max_steps = 2000
        held_back = 0.5
        """
    )
    policy = MedAllocation(budget=10.5, min_shards=0, max_steps=2000, held_back=0.5)
    assert spec == PoolSpec(
        allocation=policy,
        min_learners=3,
        total_budget=100,
        patience_seconds=1.5,
        idle_seconds=60,
        moves_learners=False,
        max_model_bytes=1000,
        seed=7,
    )
    data = DataSpec(path=str(tmp_path / "own.npz"))
    assert jobs == [
        Job(deadline_seconds=3, name="small", allocation=policy),  # called as its file
        Job(deadline_seconds=3, name="large", allocation=policy, data=data),
    ]


def test_the_policy_is_med_unless_another_is_named(pool):
    assert pool("[pool]\n[allocation]\nheld_back = 0.25")[0].allocation == MedAllocation(held_back=0.25)
    ideal = '[pool]\n[allocation]\npolicy = "mmtt"\nknowledge = "ideal"'
    assert pool(ideal)[0].allocation == MmttAllocation(knowledge="ideal")


def test_a_pool_is_known_by_its_table(pool, tmp_path):
    pool("[pool]")
    assert config.is_pool(tmp_path / "pool.toml")
    assert not config.is_pool(tmp_path / "small.toml")
    with pytest.raises(ConfigError, match=r"absent.toml: cannot be read: No such file"):
        config.is_pool(tmp_path / "absent.toml")


KEYS = "jobs, min_learners, total_budget, patience_seconds, idle_seconds, moves_learners, max_model_bytes, seed"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[pools]", "pool.toml: unknown table 'pools'; did you mean 'pool'? Allowed: pool, allocation"),
        ("[pool]\n[job]", "pool.toml: unknown table 'job'; allowed: pool, allocation"),
        ("pool = 3", "pool.toml: pool is 3; it must be a table, [pool]"),
        ("pool = ", "pool.toml: not TOML: Invalid value (at end of document)"),
        ("[pool]\njob = []", f"pool.toml: [pool]: unknown key 'job'; did you mean 'jobs'? Allowed: {KEYS}"),
        ("[pool]\nallocation = 'med'", f"pool.toml: [pool]: unknown key 'allocation'; allowed: {KEYS}"),
        ("[pool]\nmin_learners = 0", "pool.toml: [pool]: min_learners is 0; it must be at least 1"),
        ("[pool]\nmin_learners = '2'", "pool.toml: [pool] min_learners = '2': Expected `int`, got `str`"),
        ("[pool]\ntotal_budget = -1", "pool.toml: [pool]: total_budget is -1.0; it must be at least 0"),
        ("[pool]\ntotal_budget = nan", "pool.toml: [pool]: total_budget is nan; it must be at least 0"),
        ("[pool]\npatience_seconds = inf", "pool.toml: [pool]: patience_seconds is inf; it must be at least 0"),
        ("[pool]\nidle_seconds = -1", "pool.toml: [pool]: idle_seconds is -1.0; it must be at least 0"),
        ("[pool]\nmoves_learners = 'no'", "pool.toml: [pool] moves_learners = 'no': Expected `bool`, got `str`"),
        ("[pool]\nmax_model_bytes = 0", "pool.toml: [pool]: max_model_bytes is 0; allowed: 1 to 17179869184"),
        ("[pool]\nseed = -1", "pool.toml: [pool]: seed is -1; it must be at least 0"),
        ("[pool]\njobs = 'small.toml'", "pool.toml: [pool] jobs = 'small.toml': Expected `array`, got `str`"),
        ("[pool]\njobs = [3]", "pool.toml: [pool] jobs = [3]: Expected `str`, got `int`"),
        ("[pool]\njobs = ['none.toml']", "none.toml: cannot be read: No such file or directory"),
        ("[pool]\njobs = ['small.toml', 'small.toml']", "pool.toml: 2 jobs are called 'small'; names must differ"),
        ("[pool]\njobs = ['small.toml', 'other.toml']", "pool.toml: 2 jobs are called 'small'; names must differ"),
        (
            "[pool]\njobs = ['decided.toml']",
            "decided.toml: [allocation]: learners of a pool are allocated by the pool; leave this table out",
        ),
        ("[pool]\njobs = ['local.toml']", 'local.toml: [data] placement is "local"; jobs of a pool are "served"'),
        ("[pool]\njobs = ['two words.toml']", "two words.toml: [job]: name is 'two words'; allowed: 1 to 64 letters"),
        ("[pool]\njobs = ['wrong.toml']", "wrong.toml: [job]: unknown key 'rouds'; did you mean 'rounds'? Allowed: "),
        (
            "[pool]\n[allocation]\npolicy = 'dab'",
            "pool.toml: [allocation]: policy 'dab' is for one job alone; a pool's is one of med, mmtt",
        ),
        (
            "[pool]\n[allocation]\npolicy = 'edge-gossip'",
            "pool.toml: [allocation]: policy 'edge-gossip' is for one job alone; a pool's is one of med, mmtt",
        ),
        (
            "[pool]\n[allocation]\npolicy = 'medd'",
            "pool.toml: [allocation]: policy is 'medd'; did you mean 'med'? Allowed: ",
        ),
        (
            "[pool]\n[allocation]\nheld_bak = 0.5",
            "pool.toml: [allocation]: med has no field 'held_bak'; did you mean 'held_back'? Allowed: ",
        ),
        (
            "[pool]\n[allocation]\nheld_back = 1",
            "pool.toml: [allocation]: med: held_back is 1; it must be at least 0 and below 1",
        ),
        ("[pool]\n[allocation]\nbudget = -1", "pool.toml: [allocation]: med: budget is -1; it must be at least 0"),
        (
            "[pool]\n[allocation]\npolicy = 'mmtt'\nknowledge = 'none'",
            "pool.toml: [allocation]: mmtt: knowledge is 'none': Invalid enum value 'none'",
        ),
    ],
)
def test_what_is_wrong_with_a_pool_is_told_in_one_line(pool, tmp_path, text, told):
    with pytest.raises(ConfigError) as caught:
        pool(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/{told}")


RULES = {"deadline_seconds": 3, "name": "later"}


def test_a_job_can_be_submitted_as_the_tables_of_its_file(tmp_path):
    path = tmp_path / "later.toml"
    path.write_text(JOB + '[data]\nname = "mnist"\nshard_size = 50\n')
    tables = config.read_tables(path)
    assert tables == {"job": RULES, "data": {"name": "mnist", "shard_size": 50}}
    policy = MmttAllocation()
    assert config.parse_submitted(tables, policy) == Job(
        deadline_seconds=3, name="later", data=DataSpec(name="mnist", shard_size=50), allocation=policy
    )


def test_a_job_keeps_the_name_that_its_file_gives_it(tmp_path):
    path = tmp_path / "file.toml"
    path.write_text(JOB + 'name = "own"\n')
    assert config.read_tables(path)["job"]["name"] == "own"


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        (
            {"job": RULES, "data": {"path": "/etc/passwd"}},
            "[data] path: a job that is submitted cannot have files loaded; name a dataset",
        ),
        (
            {"job": RULES, "model": {"import": "nets.py:Net"}},
            "[model] import: a job that is submitted cannot have files loaded; name a model",
        ),
        (
            {"job": RULES, "model": {"name": "two-nn", "import": None}},
            "[model] import: a job that is submitted cannot have files loaded; name a model",
        ),
        ({"job": {"deadline_seconds": 3}}, "[job] name is missing; a job that is submitted needs one"),
        ({"job": {"deadline_seconds": 3, "name": ""}}, "[job] name is missing; a job that is submitted needs one"),
        ({"job": {**RULES, "name": "../up"}}, "[job]: name is '../up'; allowed: 1 to 64 letters, digits"),
        ({"job": {**RULES, "name": 3}}, "[job] name = 3: Expected `str`, got `int`"),
        ({"job": {"name": "later"}}, "[job]: deadline_seconds is missing"),
        ({"job": 3}, "job is 3; it must be a table, [job]"),
        ({"job": RULES, "model": 3}, "model is 3; it must be a table, [model]"),
        ({"job": RULES, "pool": {}}, "unknown table 'pool'; allowed: job, model"),
        ({"job": RULES, "allocation": {"policy": "med"}}, "[allocation]: learners of a pool are allocated by the pool"),
        ({"job": RULES, "data": {"placement": "local"}}, '[data] placement is "local"; jobs of a pool are "served"'),
        ({"job": RULES, "data": {"name": "mnits"}}, "[data]: dataset 'mnits' is unknown; did you mean 'mnist'?"),
    ],
)
def test_what_is_wrong_with_a_submitted_job_is_told_in_one_line(tables, told):
    with pytest.raises(ConfigError) as caught:
        config.parse_submitted(tables, MedAllocation())
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"the job: {told}")
