"""The tree is the architecture: who may import whom, what is exported, and which words are not used."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import paceline
from paceline.topologies import BUILT_IN
from paceline.topologies.base import COMMAND_WITHOUT_HOST

ROOT = Path(paceline.__file__).parent
# From the bottom up: a package may import from those before it, and from itself.
LAYERS = (
    *(
        "errors",
        "logs",
        "files",
        "spelling",
        "checks",
        "extras",
        "events",
        "axon",
        "plugins",
        "learning",
        "devices",
        "allocation",
    ),
    *("config", "topologies", "report", "fleets", "run", "testing", "cli"),
)
MODULES = sorted(info.name for info in pkgutil.walk_packages([str(ROOT)], "paceline.") if "__main__" not in info.name)


def imports_of(path):
    """The absolute names that a file imports from Paceline."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("paceline"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("paceline"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(name):
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else None


def test_imports_point_down_only():
    for path in ROOT.rglob("*.py"):
        own = layer_of(".".join(("paceline", *path.relative_to(ROOT).with_suffix("").parts)))
        for name in imports_of(path):
            other = layer_of(name)
            if own and other:
                assert LAYERS.index(other) <= LAYERS.index(own), f"{path.relative_to(ROOT)} imports {name}"


def test_every_package_has_a_layer():
    found = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} <= set(LAYERS)


def test_topologies_are_named_in_their_folder_and_the_registry_only():
    topologies = ROOT / "topologies"
    for path in ROOT.rglob("*.py"):
        if path != topologies / "__init__.py":
            own = path.relative_to(topologies).parts[0] if topologies in path.parents else None
            text = path.read_text()
            literals = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
            for name in BUILT_IN.keys() - {own}:
                assert f"topologies.{name}" not in text, path.relative_to(ROOT)
                is_command = name == COMMAND_WITHOUT_HOST and path in (topologies / "base.py", ROOT / "cli" / "main.py")
                assert name not in literals or is_command, path.relative_to(ROOT)


def test_modules_say_what_they_are_for_and_export_what_exists():
    for name in MODULES:
        module = importlib.import_module(name)
        exported = getattr(module, "__all__", ())
        assert module.__doc__, name
        assert [export for export in exported if not hasattr(module, export)] == [], name
        assert list(exported) == sorted(exported, key=lambda n: (not n.isupper(), not n[0].isupper(), n)), name


def test_only_one_file_of_axon_imports_torch():
    imports_torch = re.compile(r"^\s*(import torch|from torch)", re.M)
    importing = {path.name for path in (ROOT / "axon").rglob("*.py") if imports_torch.search(path.read_text())}
    assert importing == {"tensors.py"}


def test_nothing_unpickles():
    unpickling = re.compile(r"import (pickle|marshal|shelve|dill|cloudpickle|multiprocessing)|torch\.load")
    assert [path for path in ROOT.rglob("*.py") if unpickling.search(path.read_text())] == []


def test_changelog_is_of_this_version():
    changelog = (ROOT.parents[1] / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\]", changelog, re.M)
    assert versions[0] == "Unreleased"
    assert versions[1] == paceline.__version__
