"""Runs in notebooks, in a real kernel: with both kinds of fleets, in loops, interrupted, and the example."""

import queue
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
SET_UP = """
from paceline import *
from torch import nn
virtual = VirtualFleet([VirtualDevice(name="pi", count=2, samples_per_second=300)])
local = LocalFleet([LocalDevice(name="pi", count=2)])
"""
ON_A_VIRTUAL_FLEET = """
runs = [train(Job(rounds=2, deadline_seconds=5, seed=seed), virtual) for seed in range(2)]
print(sorted(run.folder for run in runs) == [run.folder for run in runs])
runs[0]
"""
ON_A_LOCAL_FLEET = """
import threading
threads = set()
def note(event):
    threads.add(threading.current_thread())
run = train(Job(rounds=2, deadline_seconds=1, min_learners=2), local, callbacks=[note])
print(run.metrics["rounds"], threads == {threading.main_thread()})
"""
OWN_MODEL = """
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

run = train(Job(rounds=2, deadline_seconds=5, model=Net), virtual, progress=False)
print(type(run.model().model) is Net)
try:
    train(Job(rounds=2, deadline_seconds=1, model=Net), local)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def execute(notebook, folder):
    """Run a notebook in a folder; returns the outputs of each code cell."""
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def texts(outputs):
    return [output.text if output.output_type == "stream" else output.data["text/plain"] for output in outputs]


@pytest.mark.slow
def test_runs_in_a_notebook(tmp_path):
    cells = [nbformat.v4.new_code_cell(text) for text in (SET_UP, ON_A_VIRTUAL_FLEET, ON_A_LOCAL_FLEET, OWN_MODEL)]
    outputs = execute(nbformat.v4.new_notebook(cells=cells), tmp_path)
    assert outputs[0] == []
    first, second, printed, shown = texts(outputs[1])
    assert first.startswith("████████████████████ round 2/2  2 learners")
    assert second.startswith("████████████████████ round 2/2")
    assert printed == "True\n"
    assert shown.startswith("Run(runs/")
    assert "<progress value='1.000' max='1'></progress>" in outputs[1][0].data["text/html"]
    bar, printed = texts(outputs[2])
    assert "round 2/2" in bar
    assert printed == "2 True\n"
    (printed,) = texts(outputs[3])
    assert printed.splitlines()[0] == "True"
    assert printed.splitlines()[1].startswith("ConfigError: Net is defined in a notebook or at a prompt, where other")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A kernel whose cells can be interrupted: run one with `execute`, and read what comes with `message`."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path_factory.mktemp("kernel")))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def wait_for(client, what, seconds=60):
    """Wait for output that contains a text."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            message = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            continue
        if what in str(message["content"]):
            return
    pytest.fail(f"there was no {what!r}")


@pytest.mark.slow
@pytest.mark.parametrize("fleet", ["virtual", pytest.param("local", marks=pytest.mark.long)])
def test_a_run_in_a_notebook_can_be_interrupted(kernel, fleet):
    manager, client = kernel
    long_run = f"train(Job(rounds=100000, deadline_seconds=5), {fleet})"
    request = client.execute(SET_UP + long_run, stop_on_error=False)  # else a cell that follows closely is left out
    wait_for(client, "round 1/100000")
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=30))["parent_header"]["msg_id"] != request:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    # One text, so that it comes in one message.
    again = "train(Job(deadline_seconds=5), virtual)"
    client.execute(f"import psutil; print(f'left {{psutil.Process().children()}} {{{again}}}')")
    wait_for(client, "left [] Run(runs/")


@pytest.mark.long
def test_the_example_notebook_runs(tmp_path):
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    assert all(cell.outputs == [] for cell in notebook.cells if cell.cell_type == "code")  # results are not kept
    outputs = execute(notebook, tmp_path)
    assert texts(outputs[0])[-1].startswith("Run(runs/")
    assert "jetson" in texts(outputs[1])[0]
    assert "rounds 30" not in texts(outputs[2])[-1]
    assert "image/png" in outputs[-1][-1].data
