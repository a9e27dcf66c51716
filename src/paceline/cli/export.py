"""``paceline export``: what a run learned as an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from paceline import run as runs
from paceline.cli.options import ResultAsJson


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a file of its checkpoints.")],
    output: Annotated[Path, typer.Argument(metavar="FILE", help="File to write (.onnx).")],
    as_json: ResultAsJson = False,
) -> None:
    """Write the model that a run learned as an ONNX file.

    It takes samples as the data has them, any number at once.

    Example: paceline export runs/digits digits.onnx
    """
    inputs = runs.export(run, output)
    if as_json:
        print(json.dumps({"file": str(output), "inputs": inputs}))
    else:
        print(f"The model is in {output}; it takes {', '.join(inputs)}")
