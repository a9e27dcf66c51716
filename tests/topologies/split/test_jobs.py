"""Split job files: what they mean, and one line for everything that can be wrong with them."""

import json

import pytest

from paceline.errors import ConfigError
from paceline.learning.datasets import DataSpec
from paceline.learning.junction import JunctionSpec
from paceline.learning.models import ModelSpec
from paceline.learning.optimizers import OptimizerSpec
from paceline.learning.tasks import TaskSpec
from paceline.learning.views import ViewSpec
from paceline.topologies.job_files import load_job
from paceline.topologies.split.jobs import AveragingSpec, SplitJob
from paceline.topologies.split.prepared import prepare_split

RULES = {"scheme": "gfl", "cut": "f1", "epochs": 7, "batch_size": 48, "sources": 2, "depth": 3, "bits": 8, "seed": 11}
RULES |= {
    "patience_seconds": 4.5,
    "abandon_seconds": 90.0,
    "backup_epochs": 2,
    "test_epochs": 3,
    "patience": 4,
    "watch": "max accuracy",
}
RULES |= {"target": "accuracy >= 0.9"}
RULES["precision"] = "bfloat16"
TABLES = """
[junction]
form = "low-rank"
rank = 6
groups = 2
start = "plain"
[averaging]
layers = ["f1", "f2"]
mu = 0.5
[task]
loss = "cross-entropy-of-softmax"
[model]
name = "resnet-8"
[optimizer]
name = "Adam"
schedule = "cosine"
lr = 0.002
[data]
name = "mnist"
[[view]]
kind = "blur"
sigma_pixels = 0.5
[[view]]
kind = "erase"
erased_share = 0.3
"""
JOB = "\n".join(["[split]", *(f"{key} = {json.dumps(value)}" for key, value in RULES.items())]) + TABLES


@pytest.fixture
def load(tmp_path):
    """Load a split job of this text."""

    def load(text, name="job.toml"):
        path = tmp_path / name
        path.write_text(text)
        return load_job(path)

    return load


def test_a_file_makes_a_job(load):
    job, usual = load(JOB), SplitJob()
    assert job == SplitJob(
        **RULES,
        junction=JunctionSpec(form="low-rank", rank=6, groups=2, start="plain"),
        averaging=AveragingSpec(layers=("f1", "f2"), mu=0.5),
        task=TaskSpec(loss="cross-entropy-of-softmax"),
        model=ModelSpec(name="resnet-8"),
        optimizer=OptimizerSpec(name="Adam", schedule="cosine", options={"lr": 0.002}),
        data=DataSpec(name="mnist"),
        view=(ViewSpec(kind="blur", sigma_pixels=0.5), ViewSpec(kind="erase", erased_share=0.3)),
    )
    assert [name for name in SplitJob.__struct_fields__ if getattr(job, name) == getattr(usual, name)] == []


@pytest.mark.parametrize("text", [JOB, "[split]", '[split]\n[data]\npath = "x.npz"'])
def test_what_a_run_keeps_is_read_again(load, text):
    job = load(text)
    assert load(json.dumps(job.described()), "split.json") == job


WRONG = [
    ("[split]\nepoch = 3", "[split]: unknown key 'epoch'; did you mean 'epochs'? Allowed: scheme, cut, epochs,"),
    ("[split]\nscheme = 'fp'", "[split]: scheme is 'fp'; did you mean 'fpl'? Allowed: fpl, split-learning,"),
    ("[split]\ncut = 3", "[split]: cut is 3; it must be text"),
    ("[split]\nbits = 7", "[split]: bits is 7; allowed: 32, 16, 8, 4"),
    *((f"[split]\n{key} = 0", f"{key} is 0") for key in ("epochs", "batch_size", "sources", "depth", "test_epochs")),
    *((f"[split]\n{key} = -1", f"{key} is -1") for key in ("backup_epochs", "seed")),
    ("[split]\ndepth = 65", "depth is 65; allowed: 1 to 64"),
    *((f"[split]\npatience_seconds = {wrong}", f"patience_seconds is {wrong}") for wrong in ("0.0", "inf", "nan")),
    ("[split]\npatience = 0", "patience is 0; it must be at least 1"),
    ("[split]\ntarget = 'accuracy >= 90'", "target is 'accuracy >= 90'; accuracy is a ratio, from 0 to 1"),
    ("[split]\nscheme = 'split-learning'", '[split]: cut is "auto", which weighs junctions; split-learning needs'),
    (
        "[split]\nprecision = 'float8'",
        "precision is 'float8'; did you mean 'float32'? Allowed: float32, bfloat16, float16",
    ),
    ("[split]\nprecision = 'float16'", '[split]: precision is "float16", but the parts of a model (fpl) cannot share'),
    ("[split]\n[junction]\nform = 'ful'", "[junction]: form is 'ful'; did you mean 'full'? Allowed: full, low-"),
    ("[split]\n[junction]\nrank = 0", "rank is 0; it must be at least 1"),
    ("[split]\n[averaging]\nlayers = [1]", "[averaging]: layers 1 is 1; it must be text"),
    ("[split]\n[averaging]\nmu = -1", "mu is -1"),
    ("[split]\n[[view]]\n[[view]]\nkind = 'blurr'", "[view]: entry 2: view 'blurr' is unknown; did you mean 'blur'?"),
    ("[split]\n[[view]]\nkin = 'blur'", "[view]: entry 1: unknown key 'kin'; did you mean 'kind'?"),
    ("[split]\n[[view]]\nerased_share = 1", "erased_share is 1"),
    ("view = [3]\n[split]", "[view]: entry 1: it must be a name, a table, or a ViewSpec, not 3"),
    ("view = []\n[split]", '[split]: there is no [[view]]; a source sees something, such as kind = "plain"'),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_wrong_is_said_in_one_line(load, text, said):
    with pytest.raises(ConfigError) as caught:
        load(text)
    message = str(caught.value)
    assert "job.toml: " in message
    assert said in message
    assert "\n" not in message


def test_what_changes_batches_is_for_models_that_are_whole():
    transform = {"name": "digits", "transform": "tests.learning.tasks.own_tasks:double"}
    with pytest.raises(ConfigError, match="own_tasks:double' changes batches of samples and labels, which no part of"):
        prepare_split(SplitJob(data=transform))
