"""Few packages are needed to learn. The others come with extras, and one line says which extra is missing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
EXPERIMENTS = f"sys.path.append({str(EXAMPLES.parent / 'experiments')!r})"
SOURCES = """import numpy as np; from pathlib import Path; import paceline.learning.sources as s
from paceline.learning.sources.image_folder import ImageTable"""
EXTRAS = {
    "energy": ["codecarbon"],
    "experiments": ["matplotlib"],
    "huggingface": ["datasets"],
    "images": ["PIL"],
    "lora": ["peft", "transformers"],
    "mlflow": ["mlflow"],
    "onnx": ["onnx", "onnxscript"],
    "parquet": ["pyarrow"],
    "points": ["sklearn", "threadpoolctl"],
    "redis": ["redis"],
    "solvers": ["highspy", "scipy"],
    "tensorboard": ["tensorboard"],
    "wandb": ["wandb"],
}
OPTIONAL = [package for packages in EXTRAS.values() for package in packages]
FOR_FEW_JOBS = [
    "paceline.learning.aggregated_points.aggregation",
    "paceline.learning.aggregation.fedavg",
    "paceline.learning.model_parts",
    "paceline.learning.privacy.masks",
    "paceline.learning.sources.loading",
    "paceline.topologies.reporting",
]
AXON_CORNER = [f"paceline.axon.{name}" for name in ("duplex", "fanout", "processes", "stubs")]
MED = """{"policy": "med",
 "tasks": [{"name": "a", "shards": 2, "deadline_seconds": 9, "model_bytes": 1e3, "shard_bytes": 1e3}],
 "learners": [{"name": "w0", "states": [{"bytes_per_second": 4e6, "shards_per_second": {"a": 2.0}}]}]}"""


def python_without(packages, source, *arguments, **options):
    """Run Python source in a process where these packages are not installed."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
    command = [sys.executable, "-c", hidden + source, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, **options)


def paceline_without(packages, *arguments, **options):
    return python_without(packages, "from paceline.cli import main; main()", *arguments, **options)


@pytest.fixture(scope="module")
def loaded():
    """Modules that a learner has loaded, and those that are loaded once the commands for it are, too."""
    learner, commands = "paceline.topologies.parallel.learner", "paceline.cli.join, paceline.cli.demo"
    result = python_without([], f"import {learner}; print(*sys.modules)\nimport {commands}; print(*sys.modules)")
    first, all_of_them = (set(line.split()) for line in result.stdout.splitlines())
    assert learner in first
    assert all_of_them.issuperset(commands.split(", "))
    return first, all_of_them


def test_a_learner_loads_no_optional_package_and_not_the_rarely_used_half_of_axon(loaded):
    assert loaded[1].isdisjoint([*OPTIONAL, *AXON_CORNER, "ortools", "pandas", "ray"])


def test_a_learner_loads_what_few_jobs_need_when_one_needs_it(loaded):
    assert loaded[0].isdisjoint(FOR_FEW_JOBS)


# One process tries all: loading PyTorch takes longer than any of them.
RUN_ALL = """
import contextlib, io, json
from paceline.cli import main
for arguments in json.loads(sys.argv[1]):
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, told.getvalue()]))
"""


@pytest.fixture(scope="module")
def simulated_without_extras(tmp_path_factory):
    """Exit code and errors of simulations, by the folder of the example."""
    tmp_path, commands = tmp_path_factory.mktemp("runs"), {}
    for name in ("", "split", "gossip"):
        job = tmp_path / f"{name or 'parallel'}.toml"
        job.write_text(
            re.sub("^(rounds|epochs) = .*", r"\1 = 1", (EXAMPLES / name / "job.toml").read_text(), flags=re.M)
        )
        commands[name] = [
            "simulate",
            str(job),
            str(EXAMPLES / name / "fleet.toml"),
            "--folder",
            str(tmp_path / job.stem),
        ]
    result = python_without(OPTIONAL, RUN_ALL, json.dumps([*commands.values()]), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    return dict(zip(commands, map(json.loads, result.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("folder", ["", "split"])
def test_training_needs_no_extra(folder, simulated_without_extras):
    assert simulated_without_extras[folder] == [0, ""]


TRY_ALL = """
import json
for source in json.loads(sys.argv[1]):
    try:
        exec(source, {})
    except Exception as error:
        print(f"{type(error).__module__}.{type(error).__name__}: {error}")
    else:
        print("no error")
"""


@pytest.fixture(scope="module")
def errors_without_extras():
    """The error, in one line, of each of `MISSING`."""
    result = python_without(OPTIONAL, TRY_ALL, json.dumps([source for _, source in MISSING]))
    return dict(zip(MISSING, result.stdout.splitlines(), strict=True))


MISSING = [
    ("energy", "from paceline.devices.energy import _new_tracker; _new_tracker()"),
    ("huggingface", f"{SOURCES}; s.FORMATS['huggingface'].read(Path('x'), s.ReadOptions())"),
    ("images", f"{SOURCES}; p = Path('x'); ImageTable([p], np.zeros(1), None)"),
    ("onnx", "from paceline.learning import onnx_file; onnx_file.write('x.onnx', None, None)"),
    ("parquet", f"{SOURCES}; s.FORMATS['parquet'].read(Path('x.parquet'), s.ReadOptions())"),
    ("experiments", f"import sys; {EXPERIMENTS}; import reproduction.statistics as s; s.estimate([1.0, 2.0])"),
    ("redis", "import paceline.topologies.gossip.redis_store"),
    *[
        (name, f"import paceline.report.trackers as t; t.find_trackers([{name!r}])")
        for name in ("mlflow", "tensorboard", "wandb")
    ],
    ("solvers", "import paceline.allocation.csa.relaxed"),
    ("solvers", "import paceline.allocation.med.solver"),
]


@pytest.mark.parametrize(("extra", "source"), MISSING)
def test_a_missing_extra_is_named(extra, source, errors_without_extras):
    error = errors_without_extras[extra, source]
    assert error.startswith("paceline.errors.ConfigError: ")
    assert error.endswith(f" is not installed; run pip install 'paceline[{extra}]'")


def test_commands_name_a_missing_extra_in_one_line(simulated_without_extras):
    result = paceline_without(OPTIONAL, "allocate", "-", input=MED)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "highspy is not installed; run pip install 'paceline[solvers]'" in result.stderr
    code, errors = simulated_without_extras["gossip"]
    assert (code, errors.count("\n")) == (2, 1)
    assert "sklearn is not installed; run pip install 'paceline[points]'" in errors


def test_experiments_are_listed_without_any_extra(tmp_path):
    result = paceline_without([*OPTIONAL, "torch"], "reproduce", "--list", "--json", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert '"name": "mel-staleness"' in result.stdout
