"""Any kind of task in any topology: it learns, and its saved model is as good, in plain PyTorch, as the run says."""

import math
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import paceline
from paceline.axon import modules
from paceline.errors import ConfigError

PATH = list(sys.path)
tasks = modules.load(str(Path(__file__).parents[1] / "benchmarks/tasks.py"))
sys.path[:] = PATH  # other modules there have names that are taken

# What cannot be cut is refused; all else is done in every topology.
UNCUT = {
    "text classification, built in": "BagOfTokens cannot be cut: its children in sequence give another output",
    "text classification, a task of one's own": r"task '.*task.py:Sentences' has optimizer\(\) of its own, but",
    "language model of letters": "samples are x; a model that is cut takes pairs of an input and a target",
}


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The examples with their data."""
    return tasks.write_examples(tmp_path_factory.mktemp("tasks"))


def accuracy(outputs, labels):
    return (outputs.argmax(1) == labels).double().mean().item()


def r2(outputs, labels):
    errors, spread = outputs[:, 0].double() - labels, labels.double() - labels.double().mean()
    return 1 - (errors.square().sum() / spread.square().sum()).item()


def micro_f1(outputs, labels):
    found, right = outputs > 0, labels > 0
    return (2 * (found & right).sum() / (found.sum() + right.sum())).item()


def perplexity(outputs, labels):
    return math.exp(nn.functional.cross_entropy(outputs.transpose(1, 2), labels).item())


METRICS = {"accuracy": accuracy, "r2": r2, "micro_f1": micro_f1, "perplexity": perplexity}


def measured(case, topology, folder, test):
    """What plain PyTorch finds with a saved model, on test data as it is stored."""
    columns = [torch.from_numpy(column) for column in test.take(slice(None))]
    inputs, labels = columns if len(columns) == 2 else (columns[0][:, :-1], columns[0][:, 1:])
    if topology == "split":
        inputs = dict.fromkeys(("laptop", "pi"), inputs)
    with torch.inference_mode():
        return METRICS[case.metric](paceline.load(folder)(inputs), labels)


# Those that take seconds are trained in one topology each by `make test`, and in the others by `make test-long`.
LARGE = {
    "classification: CNN, augmentation, cosine": "federated",
    "text classification, built in": "gossip",
    "language model of letters": "pool",
}
TRIED = [
    pytest.param(name, topology, marks=[pytest.mark.long] if LARGE.get(name, topology) != topology else [])
    for name in tasks.CASES
    for topology in tasks.TOPOLOGIES
    if topology != "split" or name not in UNCUT
]


@pytest.mark.parametrize(("name", "topology"), TRIED)
def test_a_task_is_learned_in_a_topology(name, topology, examples, tmp_path):
    case = tasks.CASES[name]
    run = tasks.run_case(case, topology, examples, tmp_path / "run")
    test = tasks.test_data(case, examples).test
    found = run.metrics[case.metric]
    assert case.is_learned(found, case.trivial(test.labels()))
    assert found == pytest.approx(measured(case, topology, run.folder, test), rel=1e-6)
    if name.startswith("table"):
        assert found >= 0.95


@pytest.mark.parametrize("name", UNCUT)
def test_what_cannot_be_cut_is_refused(name, examples, tmp_path):
    with pytest.raises(ConfigError, match=UNCUT[name]) as caught:
        tasks.run_case(tasks.CASES[name], "split", examples, tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_the_table_of_tasks_and_topologies_is_the_one_that_was_measured():
    root = Path(__file__).parents[1]
    table = (root / "benchmarks/results/tasks.md").read_text()
    assert table in (root / "docs/reference/tasks.md").read_text()
    for name in tasks.CASES:
        assert f"| {name} |" in table
