"""Few packages are needed to learn. The others come with extras, and one line says which extra is missing."""

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
    "onnx": ["onnx", "onnxscript"],
    "parquet": ["pyarrow"],
    "points": ["sklearn", "threadpoolctl"],
    "redis": ["redis"],
    "solvers": ["highspy", "scipy"],
}
OPTIONAL = [package for packages in EXTRAS.values() for package in packages]
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


@pytest.mark.parametrize("module", ["paceline.topologies.parallel.learner", "paceline.cli.join", "paceline.cli.demo"])
def test_a_learner_loads_no_optional_package_and_not_the_rarely_used_half_of_axon(module):
    result = python_without([], f"import {module}; print(*sys.modules)")
    loaded = set(result.stdout.split())
    assert module in loaded
    assert loaded.isdisjoint([*OPTIONAL, *AXON_CORNER, "ortools", "pandas", "ray"])


@pytest.mark.parametrize("folder", [".", "split"])
def test_training_needs_no_extra(tmp_path, folder):
    files = EXAMPLES / folder / "job.toml", EXAMPLES / folder / "fleet.toml"
    result = paceline_without(OPTIONAL, "simulate", *files, "--folder", tmp_path / "run")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("extra", "source"),
    [
        ("energy", "from paceline.devices.energy import _new_tracker; _new_tracker()"),
        ("huggingface", f"{SOURCES}; s.FORMATS['huggingface'].read(Path('x'), s.ReadOptions())"),
        ("images", f"{SOURCES}; p = Path('x'); ImageTable([p], np.zeros(1), None)"),
        ("onnx", "from paceline.learning import onnx_file; onnx_file.write('x.onnx', None, None)"),
        ("parquet", f"{SOURCES}; s.FORMATS['parquet'].read(Path('x.parquet'), s.ReadOptions())"),
        ("experiments", f"{EXPERIMENTS}; import reproduction.statistics as s; s.estimate([1.0, 2.0])"),
        ("redis", "import paceline.topologies.gossip.redis_store"),
        ("solvers", "import paceline.allocation.csa.relaxed"),
        ("solvers", "import paceline.allocation.med.solver"),
    ],
)
def test_a_missing_extra_is_named(extra, source):
    last_line = python_without(OPTIONAL, source).stderr.splitlines()[-1]
    assert last_line.startswith("paceline.errors.ConfigError: ")
    assert last_line.endswith(f" is not installed; run pip install 'paceline[{extra}]'")


def test_commands_name_a_missing_extra_in_one_line(tmp_path):
    result = paceline_without(OPTIONAL, "allocate", "-", input=MED)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "highspy is not installed; run pip install 'paceline[solvers]'" in result.stderr
    files = EXAMPLES / "gossip/job.toml", EXAMPLES / "gossip/fleet.toml"
    result = paceline_without(OPTIONAL, "simulate", *files, "--folder", tmp_path / "run")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "sklearn is not installed; run pip install 'paceline[points]'" in result.stderr


def test_experiments_are_listed_without_any_extra(tmp_path):
    result = paceline_without([*OPTIONAL, "torch"], "reproduce", "--list", "--json", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert '"name": "mel-staleness"' in result.stdout
