"""The command line that the benchmarks share: pick systems and size, measure, write the results."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from repeats import Case, Measurements, Progress, interleave
from report import Page, as_json, markdown, print_report, versions
from targets import Target, judge

RESULTS = Path(__file__).parent / "results"

Measure: TypeAlias = Callable[[Sequence[str], Any, Progress], Measurements]
"""Measures the chosen systems by the benchmark's settings."""


def interleaved(cases_of: Callable[[Sequence[str], Any], Mapping[str, Case]]) -> Measure:
    """Measure the cases that `cases_of` makes of systems and settings, interleaved."""
    return lambda systems, settings, progress: interleave(cases_of(systems, settings), settings, progress)


@dataclass(frozen=True)
class Command:
    """A benchmark as a command.

    Attributes:
        name: name of the JSON file among the results.
        description: help text.
        systems: what can be measured.
        packages: packages whose versions are recorded, besides `other_versions`.
    """

    name: str
    description: str | None
    systems: Iterable[str]
    packages: Sequence[str]
    other_versions: Callable[[], Mapping[str, str | None]] = dict

    def run(
        self,
        sizes: tuple[Any, Any],
        measure: Measure,
        page_of: Callable[[Measurements], Page],
        targets_of: Callable[[Any], Sequence[Target]] = lambda settings: (),
    ) -> None:
        """Measure, show and write; exit with 1 if a system could not be measured. Missed targets are only shown.

        Args:
            sizes: the settings of a full and of a quick run, dataclasses with `num_repeats`.
        """
        full, quick = sizes
        options = self._parse(full.num_repeats)
        settings = quick if options.quick else full
        if options.repeats:
            settings = dataclasses.replace(settings, num_repeats=options.repeats)
        with Console(stderr=True).status("starting") as status:
            measurements = measure(options.systems, settings, status.update)
        page, verdicts = page_of(measurements), [judge(target, measurements) for target in targets_of(settings)]
        # A piped table keeps its columns; on a terminal it takes the terminal's width.
        console = Console()
        print_report(page, measurements, verdicts, console if console.is_terminal else Console(width=150))
        found = {**versions(self.packages), **self.other_versions()}
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(as_json(measurements, verdicts, found))
        if options.markdown:
            options.markdown.write_text(markdown(page, measurements, verdicts))
        sys.exit(1 if measurements.failures else 0)

    def _parse(self, num_repeats: int) -> argparse.Namespace:
        parser, systems = argparse.ArgumentParser(description=self.description), list(self.systems)

        def known(text: str) -> list[str]:
            names = text.split(",")
            unknown = [name for name in names if name not in systems]
            if unknown:
                raise argparse.ArgumentTypeError(f"no system {unknown[0]!r}; there are {', '.join(systems)}")
            return names

        output = RESULTS / f"{self.name}.json"
        parser.add_argument("--systems", type=known, default=systems, help=f"of {','.join(systems)}")
        parser.add_argument("--repeats", type=int, help=f"how often each system is measured (default {num_repeats})")
        parser.add_argument("--quick", action="store_true", help="one repeat at a small size: a test, not a result")
        parser.add_argument("--output", type=Path, default=output, help="the JSON file (default %(default)s)")
        parser.add_argument("--markdown", type=Path, help="a Markdown file with the tables")
        return parser.parse_args()
