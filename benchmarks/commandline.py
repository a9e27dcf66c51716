"""The command line both benchmarks share: pick systems and size, measure, write the results."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from measure import QUICK, Settings, measure
from report import as_json, markdown, print_report
from targets import Target, judge


def run(
    description: str,
    systems: Mapping[str, str],
    *,
    output: Path,
    packages: Sequence[str],
    targets: Sequence[Target] = (),
    argv: Sequence[str] | None = None,
) -> int:
    """Measure as the command line says. Returns the exit code: 1 if a system could not be measured."""
    options = _parse(description, systems, output, argv)
    settings = QUICK if options.quick else Settings()
    if options.repeats:
        settings = dataclasses.replace(settings, num_repeats=options.repeats)
    progress = Console(stderr=True)
    chosen = {name: systems[name] for name in options.systems}
    with progress.status("starting") as status:
        measurements = measure(chosen, settings, status.update)
    verdicts = [judge(target, measurements) for target in targets]
    # A piped table keeps its columns; on a terminal it takes the terminal's width.
    console = Console()
    print_report(measurements, verdicts, console if console.is_terminal else Console(width=150))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(as_json(measurements, verdicts, packages))
    if options.markdown:
        options.markdown.write_text(markdown(measurements, verdicts))
    return 1 if measurements.failures else 0


def _parse(
    description: str, systems: Mapping[str, str], output: Path, argv: Sequence[str] | None
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)

    def known(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in systems]
        if unknown:
            raise argparse.ArgumentTypeError(f"no system {unknown[0]!r}; there are {', '.join(systems)}")
        return names

    parser.add_argument("--systems", type=known, default=list(systems), help=f"of {','.join(systems)}")
    parser.add_argument("--repeats", type=int, help="how often each system is measured (default 5)")
    parser.add_argument("--quick", action="store_true", help="one short repeat with 10 MB: a test, not a result")
    parser.add_argument("--output", type=Path, default=output, help="the JSON file (default %(default)s)")
    parser.add_argument("--markdown", type=Path, help="a Markdown file with the tables")
    return parser.parse_args(argv)
