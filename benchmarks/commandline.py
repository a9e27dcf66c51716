"""The command line that the benchmarks share: pick systems and size, measure, write the results."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from repeats import Measurements
from report import Page, as_json, markdown, print_report
from targets import Target, judge

RESULTS = Path(__file__).parent / "results"


def parse(
    description: str,
    systems: Iterable[str],
    *,
    output: Path,
    num_repeats: int,
    quick: str,
    argv: Sequence[str] | None = None,
) -> argparse.Namespace:
    """The options: systems, repeats (None: as many as the settings say), quick, output, markdown."""
    parser, systems = argparse.ArgumentParser(description=description), list(systems)

    def known(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in systems]
        if unknown:
            raise argparse.ArgumentTypeError(f"no system {unknown[0]!r}; there are {', '.join(systems)}")
        return names

    parser.add_argument("--systems", type=known, default=systems, help=f"of {','.join(systems)}")
    parser.add_argument("--repeats", type=int, help=f"how often each system is measured (default {num_repeats})")
    parser.add_argument("--quick", action="store_true", help=f"{quick}: a test, not a result")
    parser.add_argument("--output", type=Path, default=output, help="the JSON file (default %(default)s)")
    parser.add_argument("--markdown", type=Path, help="a Markdown file with the tables")
    return parser.parse_args(argv)


def measure_with_progress(measure: Callable[[Callable[[str], None]], Measurements]) -> Measurements:
    """Call `measure` with what shows its progress on standard error."""
    with Console(stderr=True).status("starting") as status:
        return measure(status.update)


def publish(
    page_of: Callable[[Measurements], Page],
    measurements: Measurements,
    *,
    targets: Sequence[Target],
    versions: Mapping[str, str | None],
    options: argparse.Namespace,
) -> int:
    """Judge, print, write the files. Returns the exit code: 1 if a system could not be measured."""
    page, verdicts = page_of(measurements), [judge(target, measurements) for target in targets]
    # A piped table keeps its columns; on a terminal it takes the terminal's width.
    console = Console()
    print_report(page, measurements, verdicts, console if console.is_terminal else Console(width=150))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(as_json(measurements, verdicts, versions))
    if options.markdown:
        options.markdown.write_text(markdown(page, measurements, verdicts))
    return 1 if measurements.failures else 0
