"""Job files of all kinds: what they mean, and one line for everything that can be wrong with them."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import GossipJob, Job, Pool, SplitJob
from paceline.allocation import AdaptiveDabAllocation, DabAllocation, EqualAllocation, MedAllocation, MmttAllocation
from paceline.allocation.edge_gossip import EdgeGossipAllocation
from paceline.errors import ConfigError
from paceline.learning.aggregated_points import PointsSpec
from paceline.learning.aggregation import FedAvgAggregation, FedProxAggregation
from paceline.learning.datasets import DATASETS, DataSpec
from paceline.learning.models import MODELS, ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.partitions import PartitionSpec
from paceline.learning.tasks import TASKS, TaskSpec
from paceline.topologies.job_files import load_job, parse_job, parse_submitted

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
def load(tmp_path):
    """Load a job file of this text, with some others beside it."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def load(text, name="job.toml"):
        path = tmp_path / name
        path.write_text(text)
        return load_job(path)

    return load


def test_every_key_of_a_job_is_understood(load, tmp_path):
    assert load(
        """
        [job]
        deadline_seconds = 2.5
        overtime = 0.5
        rounds = 4
        local_epochs = 3
        batch_size = 16
        seed = 7
        min_learners = 2
        benchmark_shards = 5
        audit_rate = 0.5
        target = "accuracy >= 0.9"
        patience = 5
        watch = "max accuracy"
        name = "own"
        [task]
        kind = "classification"
        loss = "cross-entropy-of-softmax"
        outputs = 12
        target = "y"
        [model]
        import = "nets/own.py:Net"
        [optimizer]
        name = "Adam"
        schedule = "cosine"
        lr = 0.01
        betas = [0.8, 0.9]
        amsgrad = true
        [data]
        path = "../data/own.npz"
        shard_size = 50
        transform = "nets/own.py:flip"
        [allocation]
        policy = "adaptive-dab"
        window = 3
        [aggregation]
        method = "fedprox"
        mu = 0.1
        exchange = ["*", "!*.bn*"]
        """
    ) == Job(
        deadline_seconds=2.5,
        overtime=0.5,
        rounds=4,
        local_epochs=3,
        batch_size=16,
        seed=7,
        min_learners=2,
        benchmark_shards=5,
        audit_rate=0.5,
        target="accuracy >= 0.9",
        patience=5,
        watch="max accuracy",
        name="own",
        task=TaskSpec(loss="cross-entropy-of-softmax", outputs=12, target="y"),
        model=ModelSpec(import_path=f"{tmp_path}/nets/own.py:Net"),
        optimizer=OptimizerSpec(
            name="Adam", schedule="cosine", options={"lr": 0.01, "betas": [0.8, 0.9], "amsgrad": True}
        ),
        data=DataSpec(path=f"{tmp_path.parent}/data/own.npz", shard_size=50, transform=f"{tmp_path}/nets/own.py:flip"),
        allocation=AdaptiveDabAllocation(window=3),
        aggregation=FedProxAggregation(mu=0.1, exchange=("*", "!*.bn*")),
    )


def test_every_key_of_a_pool_is_understood(load, tmp_path):
    pool = load(
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
        held_back = 0.5
        """
    )
    assert pool == Pool(
        jobs=(
            Job(deadline_seconds=3, name="small"),  # called as its file
            Job(deadline_seconds=3, name="large", data=DataSpec(path=str(tmp_path / "own.npz"))),
        ),
        allocation=MedAllocation(budget=10.5, min_shards=0, held_back=0.5),
        min_learners=3,
        total_budget=100,
        patience_seconds=1.5,
        idle_seconds=60,
        moves_learners=False,
        max_model_bytes=1000,
        seed=7,
    )


REGRESSION = TaskSpec(kind="regression", loss="mae")
FALLING = OptimizerSpec(schedule="linear", options={})


@pytest.mark.parametrize(
    ("text", "job"),
    [
        (JOB, Job(deadline_seconds=3)),
        ("[pool]", Pool()),
        ("[pool]\n[allocation]\nheld_back = 0.25", Pool(allocation=MedAllocation(held_back=0.25))),
        ('[pool]\n[allocation]\npolicy = "mmtt"', Pool(allocation=MmttAllocation())),
        ("[gossip]", GossipJob()),
        ("[gossip]\n[points]", GossipJob(points=PointsSpec())),
        ("[gossip]\n[partition]\nreplicas = 2", GossipJob(partition=PartitionSpec(replicas=2))),
        (
            '[gossip]\nepochs = 3\n[allocation]\npolicy = "edge-gossip"\nmax_failed = 0.5',
            GossipJob(epochs=3, allocation=EdgeGossipAllocation(max_failed=0.5)),
        ),
        ("[split]", SplitJob()),
        (f"{JOB}[task]", Job(deadline_seconds=3)),
        (f'{JOB}[task]\nkind = "regression"\nloss = "mae"', Job(deadline_seconds=3, task=REGRESSION)),
        ('[gossip]\n[task]\nkind = "regression"\nloss = "mae"', GossipJob(task=REGRESSION)),
        ('[split]\n[task]\nkind = "regression"\nloss = "mae"', SplitJob(task=REGRESSION)),
        (f'{JOB}[optimizer]\nschedule = "linear"', Job(deadline_seconds=3, optimizer=FALLING)),
        ('[gossip]\n[optimizer]\nschedule = "linear"', GossipJob(optimizer=FALLING)),
        ('[split]\n[optimizer]\nschedule = "linear"', SplitJob(optimizer=FALLING)),
        (f"{JOB}[optimizer]\nlr = 1", Job(deadline_seconds=3, optimizer=OptimizerSpec(options={"lr": 1}))),
        (
            f'{JOB}[optimizer]\nname = "RMSprop"',
            Job(deadline_seconds=3, optimizer=OptimizerSpec(name="RMSprop", options={})),
        ),
        (f'{JOB}[allocation]\npolicy = "eta"', Job(deadline_seconds=3, allocation=EqualAllocation())),
        (f"{JOB}[allocation]\nwindow = 3", Job(deadline_seconds=3, allocation=AdaptiveDabAllocation(window=3))),
    ],
)  # fmt: skip
def test_a_table_announces_the_kind_of_job(load, text, job):
    assert load(text) == job


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a:b/nets.py:Net", "{base}/a:b/nets.py:Net"),
        ("x/../nets.py:Net", "{base}/nets.py:Net"),
        ("/abs/nets.py:Net", "/abs/nets.py:Net"),
        ("package.nets:Net", "package.nets:Net"),
    ],
)
def test_files_are_looked_for_beside_the_job(load, tmp_path, path, expected):
    found = expected.format(base=tmp_path)
    assert load(f'{JOB}[model]\nimport = "{path}"').model.import_path == found
    assert load(f'{JOB}[task]\nimport = "{path}"').task.import_path == found
    assert load(f'{JOB}[data]\ntransform = "{path}"').data.transform == found


def test_a_split_job_that_classifies_has_a_model_with_named_layers_and_others_that_of_their_task(load):
    assert load("[split]").model == ModelSpec(name="leaf-cnn")
    assert load('[split]\n[model]\nstart = "/run"').model == ModelSpec(name="leaf-cnn", start="/run")
    assert load('[split]\n[task]\nkind = "regression"').model == ModelSpec()
    assert load('[split]\n[task]\nimport = "tasks:Own"').model == ModelSpec()


def test_paths_in_the_record_of_a_run_are_left_as_they_are():
    tables = {"job": {"deadline_seconds": 1}, "data": {"path": "own.npz"}, "model": {"import": "nets.py:Net"}}
    parsed = parse_job(tables, "record")
    assert (parsed.data.path, parsed.model.import_path) == ("own.npz", "nets.py:Net")


def test_a_path_that_no_system_has_does_not_break_the_job(load):
    assert load(f'{JOB}[data]\npath = "a\\u0000b"').data.path.endswith("a\0b")


TABLES = "job, task, model, optimizer, data, partition, allocation, aggregation"
KINDS = "job, pool, gossip, split"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"no table says what kind of job this is; allowed: {KINDS}"),
        ("[jobs]\n", f"no table says what kind of job this is; did you mean 'job'? Allowed: {KINDS}"),
        ("[gosip]\n", "no table says what kind of job this is; did you mean 'gossip'?"),
        ("[job]\nrounds = 3", "[job]: deadline_seconds is missing"),
        (JOB + "[zzz]\n", f"unknown table 'zzz'; allowed: {TABLES}"),
        (JOB + '"a\\nb" = 3', "[job]: unknown key 'a\\nb'; allowed: deadline_seconds,"),
        ("[pool]\n[job]", f"unknown table 'pool'; allowed: {TABLES}"),
        ("job = 3", "job is 3; it must be a table, [job]"),
        ("[[job]]\ndeadline_seconds = 3", "job is [{'deadline_seconds': 3}]; it must be a table, [job]"),
        ("allocation = []\n" + JOB, "allocation is []; it must be a table, [allocation]"),
        (JOB + "round = 3", "[job]: unknown key 'round'; did you mean 'rounds'? Allowed: deadline_seconds, name,"),
        (JOB + "model = 'two-nn'", "[job]: unknown key 'model'; allowed: deadline_seconds, name,"),
        (JOB + "rounds = '3'", "[job]: rounds is '3'; it must be a whole number"),
        (JOB + "rounds = 2020-01-01", "[job]: rounds is datetime.date(2020, 1, 1); it must be a whole number"),
        (JOB + "rounds = 0", "[job]: rounds is 0; allowed: 1 to 1000000"),
        (JOB + "seed = -1", "[job]: seed is -1; it must be at least 0"),
        (JOB + "audit_rate = 2", "[job]: audit_rate is 2; allowed: 0 to 1"),
        (JOB + "audit_rate = 0.1\n[data]\nplacement = 'local'", '[job]: placement is "local", but audit_rate is above'),
        (JOB + "name = '../up'", "[job]: name is '../up'; allowed: 1 to 64 letters, digits, and . _ -, not starting"),
        (
            JOB + "target = 'accuracy > 0.9'",
            "[job]: target is 'accuracy > 0.9'; it must be a metric, >= or <=, and a number, such as "
            '"accuracy >= 0.97" or "loss <= 0.1"',
        ),
        ("[job]\ndeadline_seconds = inf", "[job]: deadline_seconds is inf; it must be above 0"),
        ("[job]\ndeadline_seconds = " + "9" * 400, "[job]: deadline_seconds is 999"),
        (JOB + "[model]\nname = 'two'", "[model]: model 'two' is unknown; did you mean 'two-nn'? Allowed: "),
        (
            JOB + "[model]\nname = 'two-nn'\nimport = 'nets:Net'",
            "[model]: a model has either a name or an import, not name 'two-nn' and import 'nets:Net'",
        ),
        (JOB + "[model]\nimport = 'nets'", "[model]: import 'nets' must read package.module:Name or path/to/file.p"),
        (JOB + "[model]\nlayers = 3", "[model]: unknown key 'layers'; allowed: name, import"),
        (JOB + "[task]\nkind = 'regresion'", "[task]: task 'regresion' is unknown; did you mean 'regression'"),
        (JOB + "[task]\nimport = 'tasks'", "[task]: import 'tasks' must read package.module:Name or path/to/file.py"),
        (
            JOB + "[task]\nkind = 'regression'\nimport = 'tasks:Own'",
            "[task]: a task has either a kind or an import, not 'regression' and 'tasks:Own'",
        ),
        (JOB + "[task]\nloss = 'mse'", "[task]: loss of classification 'mse' is unknown; allowed: cross-"),
        (JOB + "[task]\nlosss = 'mse'", "[task]: unknown key 'losss'; did you mean 'loss'? Allowed: kind, import,"),
        (JOB + "[task]\noptions = {size = 3}", "[task]: options are for a task of your own"),
        (JOB + "[task]\nimport = 'tasks:Own'\nloss = 'mse'", "[task]: loss, outputs and target are for built-in tasks"),
        (JOB + "[task]\noutputs = 0", "[task]: outputs is 0; allowed: 1 to 1048576"),
        (JOB + "[data]\nname = 'digit'", "[data]: dataset 'digit' is unknown; did you mean 'digits'? Allowed: "),
        (JOB + "[data]\nname = 'digits'\npath = 'x'", "[data]: data has either a name, a path or an import, not name"),
        (JOB + "[data]\nshard_size = 0", "[data]: shard_size is 0; allowed: 1 to 16777216"),
        (JOB + "[data]\nplacement = 'remote'", "[data]: placement is 'remote'; allowed: served, local"),
        (JOB + "[optimizer]\nname = 'sgd'", "[optimizer]: optimizer 'sgd' is unknown; did you mean 'SGD'? Allowed: AS"),
        (JOB + "[optimizer]\nshedule = 'cosine'", "[optimizer]: SGD has no option 'shedule'; did you mean 'schedule'"),
        (JOB + "[optimizer]\nschedule = 'cos'", "[optimizer]: schedule is 'cos'; "),
        (JOB + "[optimizer]\nname = 3", "[optimizer]: name is 3; it must be text"),
        (JOB + "[optimizer]\nmomentun = 1", "[optimizer]: SGD has no option 'momentun'; did you mean 'momentum'? Allo"),
        (JOB + "[optimizer]\nlr = -1", "[optimizer]: SGD does not work with lr = -1: Invalid learning rate: -1"),
        (JOB + "[optimizer]\nlr = '0.1'", "[optimizer]: SGD does not work with lr = '0.1': '<' not supported"),
        (JOB + "[optimizer]\nlr = nan", "[optimizer]: SGD: lr is nan; allowed: finite numbers"),
        (JOB + "[optimizer]\nlr = {a = 1}", "[optimizer]: lr is {'a': 1}; it must be true or false or a whole"),
        (JOB + "[allocation]\npolicy = 'dap'", "[allocation]: policy 'dap' is unknown; did you mean 'dab'? Allowed: "),
        (JOB + "[allocation]\npolicy = ['dab']", "[allocation]: policy is ['dab']; "),
        (JOB + "[allocation]\npolicy = 'dab'\nwindow = 3", "[allocation]: dab: unknown key 'window'; allowed: none"),
        (JOB + "[allocation]\nwindow = 0", "[allocation]: adaptive-dab: window is 0; it must be"),
        (JOB + "[allocation]\npolicy = 'edge-gossip'", "[job]: edge-gossip is a policy of peers, which train without"),
        (JOB + "[aggregation]\nmethod = 'fedprox'", "[aggregation]: fedprox: mu is missing"),
        (JOB + "[aggregation]\nmu = 0.1", "[aggregation]: fedavg: unknown key 'mu'; "),
        ("[pool]\njob = []", "[pool]: unknown key 'job'; did you mean 'jobs'? Allowed: jobs, "),
        ("[pool]\nallocation = 'med'", "[pool]: unknown key 'allocation'; allowed: jobs, "),
        ("[pool]\nmin_learners = 0", "[pool]: min_learners is 0; it must be at least 1"),
        ("[pool]\nmax_model_bytes = 0", "[pool]: max_model_bytes is 0; allowed: 1 to 17179869184"),
        ("[pool]\njobs = 'small.toml'", "[pool]: jobs is 'small.toml'; it must be a list"),
        ("[pool]\njobs = ['none.toml']", "none.toml: cannot be read: No such file or directory"),
        ("[pool]\njobs = ['small.toml', 'other.toml']", "[pool]: 2 jobs are called 'small'; in a pool each needs a na"),
        ("[pool]\njobs = ['decided.toml']", "decided.toml: [allocation] is for the [pool] to decide; leave it out"),
        ("[pool]\njobs = ['local.toml']", '[pool]: job local: [data] placement is "local"; jobs of a pool are "served'),
        ("[pool]\njobs = ['two words.toml']", "two words.toml: [job]: name is 'two words'; allowed: 1 to 64 letters"),
        ("[pool]\njobs = ['wrong.toml']", "wrong.toml: [job]: unknown key 'rouds'; did you mean 'rounds'? Allowed: "),
        ("[pool]\n[allocation]\npolicy = 'dab'", "[allocation]: policy 'dab' is not for such a job; allowed: med, mm"),
        ("[pool]\n[allocation]\nheld_back = 1", "[allocation]: med: held_back is 1; it must be at least 0 and below 1"),
        ("[gossip]\nepoch = 3", "[gossip]: unknown key 'epoch'; did you mean 'epochs'?"),
        ("[gossip]\nexchange = 'mixin'", "[gossip]: exchange is 'mixin'; did you mean 'mixing'? Allowed: mixing,"),
        ("[gossip]\nexchange = 'push-sum'\noverlaps = true", "[gossip]: overlaps and compression are for mixing"),
        ("[gossip]\n[partition]\nreplicas = 0", "[partition]: replicas is 0; it must be at least 1"),
        ("[gossip]\n[allocation]\npolicy = 'dab'", "[gossip]: this policy is for an orchestrator"),
        ("view = 3\n[split]", "view is 3; it is a list of tables, [[view]]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_job_is_refused_in_one_line(load, tmp_path, text, message):
    with pytest.raises(ConfigError) as caught:
        load(text)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 700
    assert said.removeprefix(f"{tmp_path}/").removeprefix("job.toml: ").startswith(message)


def possible_job(**fields):
    """A job whose policy can be had with its data: what devices have, the orchestrator cannot divide."""
    if fields["data"].placement == "local" and fields["allocation"].decided_by == "orchestrator":
        fields["allocation"] = DabAllocation()
    return Job(**fields)


tasks = st.builds(
    TaskSpec, kind=st.sampled_from(list(TASKS.members)), outputs=st.none() | st.integers(1, 100)
) | st.just(TaskSpec(import_path="package.tasks:Own", options={"size": 3}))
jobs = st.builds(
    possible_job,
    task=tasks,
    deadline_seconds=st.floats(1e-3, 1e6),
    rounds=st.integers(1, 10**6),
    local_epochs=st.integers(1, 100),
    seed=st.integers(0, 2**62),
    target=st.none() | st.floats(0, 1).map("accuracy >= {}".format),
    model=st.builds(ModelSpec, name=st.sampled_from(list(MODELS)))
    | st.just(ModelSpec(import_path="package.nets:Net"))
    | st.just(ModelSpec(import_path="/abs/nets.py:Net")),
    optimizer=st.just(OptimizerSpec())
    | st.builds(lambda lr: OptimizerSpec(options={"lr": lr, "momentum": 0.5, "nesterov": True}), st.floats(1e-6, 10))
    | st.just(OptimizerSpec(name="Adam", options={"betas": [0.5, 0.9]}))
    | st.just(OptimizerSpec(name="Rprop", options={})),
    data=st.builds(
        DataSpec,
        name=st.sampled_from(list(DATASETS)),
        shard_size=st.integers(1, 10_000),
        placement=st.sampled_from(["served", "local"]),
    )
    | st.just(DataSpec(path="/abs/own.npz")),
    allocation=st.just(DabAllocation())
    | st.just(EqualAllocation())
    | st.builds(AdaptiveDabAllocation, window=st.integers(1, 50)),
    aggregation=st.just(FedAvgAggregation()) | st.builds(lambda mu: FedProxAggregation(mu=mu), st.floats(1e-6, 100)),
)


@given(jobs)
def test_a_job_is_what_it_describes(job):
    described = job.described()
    assert parse_job(described, "record") == job
    assert parse_job(json.loads(msgspec.json.encode(described)), "record") == job


RULES = {"deadline_seconds": 3, "name": "later"}


def test_a_job_can_be_submitted_as_the_tables_of_its_file():
    job = parse_submitted({"job": RULES, "data": {"name": "mnist", "shard_size": 50}}, Pool)
    assert job == Job(deadline_seconds=3, name="later", data=DataSpec(name="mnist", shard_size=50))


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"job": RULES, "data": {"path": "/etc/passwd"}}, "[data] path: a submitted job cannot load files; choose by"),
        ({"job": RULES, "model": {"import": "nets.py:Net"}}, "[model] import: a submitted job cannot load files;"),
        ({"job": RULES, "model": {"start": "runs/other"}}, "[model] start: a submitted job cannot load files;"),
        ({"job": RULES, "task": {"import": "tasks:Own"}}, "[task] import: a submitted job cannot load files;"),
        ({"job": RULES, "data": {"transform": "os:system"}}, "[data] transform: a submitted job cannot load files;"),
        ({"job": RULES, "model": {"name": "two-nn", "import": None}}, "[model] import: a submitted job cannot load"),
        ({"job": {"deadline_seconds": 3, "name": ""}}, "[job] name is missing; a submitted job needs one"),
        ({"job": {**RULES, "name": "../up"}}, "[job]: name is '../up'; allowed: 1 to 64 letters, digits"),
        ({"job": {"name": "later"}}, "[job]: deadline_seconds is missing"),
        ({"job": 3}, "job is 3; it must be a table, [job]"),
        ({"job": RULES, "pool": {}}, "unknown table 'pool'; allowed: job, task, model"),
        ({"job": RULES, "allocation": {"policy": "med"}}, "[allocation] is for the [pool] to decide; leave it out"),
        ({"job": RULES, "data": {"name": "mnits"}}, "[data]: dataset 'mnits' is unknown; did you mean 'mnist'?"),
    ],
)
def test_what_is_wrong_with_a_submitted_job_is_refused_in_one_line(tables, message):
    with pytest.raises(ConfigError) as caught:
        parse_submitted(tables, Pool)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"the job: {message}")
