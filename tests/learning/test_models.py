"""Models: the papers' sizes, other shapes, and import paths that are allowed or not."""

import re
import sys

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from paceline import plugins
from paceline.axon import modules as axon_modules
from paceline.errors import ConfigError
from paceline.learning.models import MODELS, TOKEN_MODELS, ModelSpec, build
from paceline.learning.tasks import TaskSpec
from tests.learning.small_tasks import fit_model, make_dataset

IMAGE_MODELS = [name for name in MODELS if name not in TOKEN_MODELS]
MNIST, DIGITS, CIFAR10 = (1, 28, 28), (1, 8, 8), (3, 32, 32)
PAPERS = {
    "two-nn": (40_480, ["784-50", "50-20", "20-10"]),
    "three-nn": (573_910, ["784-500", "500-300", "300-100", "100-10"]),
    "conv-net": (102_250, ["1-6 3×3+0", "6-16 3×3+0", "400-200", "200-100", "100-10"]),
    "fashion-net": (2_079_310, ["1-16 3×3+1", "16-32 3×3+1", "1568-1000", "1000-500", "500-10"]),
    "deadline-net": (1_663_370, ["1-32 5×5+2", "32-64 5×5+2", "3136-512", "512-10"]),
    "mel-net": (280_934, ["784-300", "300-124", "124-60", "60-10"]),
    "lenet-5": (61_706, ["1-6 5×5+2", "6-16 5×5+0", "400-120", "120-84", "84-10"]),
}
"""Parameters and layers of each model, as published."""
SMALLEST = {"conv-net": 10, "lenet-5": 12, "alexnet": 29, "squeezenet": 8, "leaf-cnn": 4}  # pixels a side


def describe(layer):
    if isinstance(layer, nn.Linear):
        return f"{layer.in_features}-{layer.out_features}"
    height, width = layer.kernel_size
    return f"{layer.in_channels}-{layer.out_channels} {height}×{width}+{layer.padding[0]}"


@pytest.fixture
def own_imports(monkeypatch, tmp_path):
    """Modules in a folder that is gone from the import path, with all that it brought in, after the test."""
    modules = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(axon_modules, "init_returns", axon_modules.init_returns)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write_package(folder, name, source="import torch\ndef Net(): return torch.nn.Linear(3, 2)\n"):
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    (folder / name / "nets.py").write_text(source)


def by_import(path):
    return ModelSpec(import_path=path)


@pytest.mark.parametrize("name", PAPERS)
def test_sizes_are_those_of_the_papers(name):
    model = build(ModelSpec(name=name), MNIST, 10)
    layers = [describe(layer) for layer in model if isinstance(layer, nn.Linear | nn.Conv2d)]
    assert (sum(parameter.numel() for parameter in model.parameters()), layers) == PAPERS[name]


@pytest.mark.parametrize("shape", [DIGITS, CIFAR10, (1, 13, 40)])
@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_a_step_of_training_lowers_the_loss_or_the_shape_is_refused(name, shape):
    spec = ModelSpec(name=name)
    smallest = SMALLEST.get(name, 1)
    if min(shape[1:]) < smallest:
        with pytest.raises(ConfigError, match=rf"{name}.*{re.escape(str(shape))}.*at least {smallest}×{smallest}$"):
            build(spec, shape, 10)
        return
    torch.manual_seed(0)
    model, loss_of = build(spec, shape, 7), nn.functional.cross_entropy
    x, y = torch.randn(8, *shape), torch.arange(8) % 7
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    before = loss_of(model(x), y)
    before.backward()
    optimizer.step()
    assert model(x).shape == (8, 7)
    assert loss_of(model(x), y) < before


def test_spec_travels_under_the_names_of_the_job_file():
    spec = ModelSpec(import_path="nets.py:Net")
    encoded = msgspec.to_builtins(spec)
    assert encoded == {"name": None, "import": "nets.py:Net", "start": None}
    assert msgspec.convert(encoded, ModelSpec) == spec
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=ModelSpec) == spec


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "two-nn", "import": "nets:Net"}, "either a name or an import, not name 'two-nn' and import 'nets:N"),
        ({"name": "two-n"}, "'two-n' is unknown; did you mean 'two-nn'. Allowed: two-nn, three-nn, "),
        ({"name": "zzz"}, "llowed: two-nn, three-nn, conv-net, fashion-net, deadline-net, mel-net, lenet-5"),
        ({"name": "two-nn", "loss": "mse"}, "unknown field `loss`"),
        ({"import": "nets"}, "'nets' must read package.module:Name or path/to/file.py:Name"),
        ({"import": "nets:"}, "must read"),
        ({"import": ":Net"}, "must read"),
        ({"import": "nets:a.b"}, "must read"),
        ({"import": "../nets:Net"}, "must read"),
        ({"import": ".nets:Net"}, "must read"),
    ],
)
def test_bad_specs_are_refused(fields, message):
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(fields, ModelSpec)


@pytest.mark.parametrize("allowed", [None, ["mypackage"], ["mypackage.nets"], ["other", "mypackage.nets:Net"]])
def test_a_module_is_imported_where_it_is_allowed(own_imports, allowed):
    write_package(own_imports, "mypackage")
    model = build(by_import("mypackage.nets:Net"), MNIST, 10, allowed=allowed)
    assert isinstance(model, nn.Linear)


@pytest.mark.parametrize("given", ["nets.py", "folder"])
def test_a_file_is_imported_where_it_is_allowed(own_imports, given):
    (own_imports / "folder").mkdir()
    path = own_imports / "folder" / "nets.py" if given == "folder" else given
    (own_imports / path).write_text("from torch import nn\ndef Net(): return nn.Linear(4, 5)\n")
    for allowed in (None, [f"{path}:Net"], [str(path)]):
        model = build(by_import(f"{path}:Net"), MNIST, 10, allowed=allowed)
        assert (model.in_features, model.out_features) == (4, 5)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("mypackage_evil.nets:Net", ["mypackage"]),
        ("mypackage.nets:Net", []),
        ("mypackage.nets:Net", ["mypackage.nets:Other", "mypackage.net", "mypackage.nets.Net", "package", ""]),
        ("mypackage.nets.py:Net", ["mypackage", "mypackage.nets"]),
        ("mypackage/nets.py:Net", ["mypackage", "mypackage.nets", "mypackage/", "nets.py"]),
        ("mypackage.x/../mypackage/nets.py:Net", ["mypackage", "mypackage/nets.py"]),
    ],
)
def test_what_is_not_allowed_is_not_imported(own_imports, path, allowed):
    for name in ("mypackage", "mypackage_evil"):
        write_package(own_imports, name, "import pathlib\npathlib.Path('ran').touch()\n")
    (own_imports / "mypackage.nets.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    modules = set(sys.modules)
    with pytest.raises(ConfigError) as caught:
        build(by_import(path), MNIST, 10, allowed=allowed)
    assert str(caught.value).endswith(f"is not allowed on this device; to allow it, pass --allow {path}")
    assert not (own_imports / "ran").exists()
    assert set(sys.modules) == modules


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "bad.nets has no 'Net'"),
        ("Net = 3", "'Net' cannot be called, it is of type int"),
        ("def Net(): return [1]", r"Net\(\) made no torch.nn.Module but a list"),
        ("def Net(width): pass", r"calling Net\(\) failed: TypeError: .*'width'"),
        ("def Net(): raise ValueError('two\\nlines')", "ValueError: two lines"),
        ("import a_module_that_is_not_there", "importing it failed: ModuleNotFoundError: .*a_module_that_is_not_there"),
        ("def Net(:", "importing it failed: SyntaxError"),
        ("raise SystemExit(3)", "importing it failed: SystemExit: 3"),
    ],
)
def test_a_factory_that_cannot_be_used_is_told_in_one_line(own_imports, source, reason):
    write_package(own_imports, "bad", source)
    with pytest.raises(ConfigError, match=f"^model 'bad.nets:Net': .*{reason}") as caught:
        build(by_import("bad.nets:Net"), MNIST, 10, allowed=None)
    assert "\n" not in str(caught.value)


FLOATS = "real numbers, or bytes as of images"


@pytest.mark.parametrize(
    ("name", "dtype", "kind", "said"),
    [
        ("two-nn", "int64", "classification", f"{FLOATS}; column 'x' is int64, as tokens are: store them as float32"),
        ("three-nn", "bool", "multi-label", f"{FLOATS}; column 'x' is bool"),
        (
            "lstm",
            "float32",
            "regression",
            "tokens; column 'x' is float32: store tokens as int64, or choose another model",
        ),
        ("bag-of-tokens", "uint8", "classification", "tokens; column 'x' is uint8: store tokens"),
    ],
)
def test_inputs_of_the_wrong_kind_are_named_in_one_line(name, dtype, kind, said):
    target = {"classification": np.arange(8) % 2, "regression": np.arange(8.0), "multi-label": np.eye(8, dtype=bool)}
    dataset = make_dataset(x=np.ones((8, 3), dtype), y=target[kind])
    with pytest.raises(ConfigError, match=f"^model '{name}' takes {said}") as raised:
        fit_model(dataset, task=TaskSpec(kind=kind), model=ModelSpec(name=name))
    assert "\n" not in str(raised.value)


def test_files_of_the_same_name_are_told_apart(tmp_path):
    paths = [tmp_path / folder / "mine.py" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_text("class Policy:\n    pass\n")
    loaded = [plugins.load_object(f"{path}:Policy", "policy") for path in paths]
    assert [plugins.path_of(policy) for policy in loaded] == [f"{path}:Policy" for path in paths]


def test_a_spec_may_leave_the_model_to_the_task():
    assert [spec.is_given for spec in (ModelSpec(), ModelSpec(name="two-nn"), by_import("nets:Net"))] == [
        False,
        True,
        True,
    ]
