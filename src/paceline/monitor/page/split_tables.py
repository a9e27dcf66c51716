"""Tables of the report of a split run: the parts of its model, the cuts, its nodes and its epochs."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.monitor.page.markup import Child, Markup, element
from paceline.monitor.page.tables import MAX_ROWS, Column, end_of, left_out, table
from paceline.monitor.split_figures import NodeSummary, SplitEpochSummary, SplitSummary
from paceline.monitor.wording import printable, say_bytes, say_energy, say_known, say_ratio, say_seconds
from paceline.topologies.split.events import CutChosen


def parts_table(summary: SplitSummary) -> Markup:
    """A row per part of the model, and one for the whole."""
    columns = [Column("part", is_number=False), Column("parameters"), Column("copies"), Column("in all")]
    rows = [
        [printable(part.name), f"{part.num_parameters:,}", f"{part.num_copies:,}", f"{part.num_all_parameters:,}"]
        for part in summary.parts
    ]
    return table("Parameters by part", columns, [*rows, ["whole", "", "", f"{summary.num_parameters:,}"]])


def cuts_table(chosen: CutChosen) -> Markup:
    """A row per cut that was possible, the fastest first."""
    columns = [Column("before", is_number=False), Column("expected"), Column("", is_number=False)]
    rows = [
        [printable(cut), say_seconds(seconds), "chosen" if cut == chosen.cut else ""]
        for cut, seconds in sorted(chosen.expected_seconds.items(), key=lambda item: item[1])
    ]
    return table("Where the model could be cut, and what an epoch was expected to take", columns, rows)


def nodes_table(nodes: Sequence[NodeSummary]) -> Markup:
    """A row per node: how it spent its epochs, and what became of it."""
    columns = [
        *(Column("node", is_number=False), Column("epochs"), Column("epoch"), Column("computing"), Column("waiting")),
        *(Column("times masked"), Column("at the end", is_number=False)),
    ]
    rows = (_node_row(node) for node in nodes[:MAX_ROWS])
    caption = "A row per node; times are means of its epochs"
    return table(caption + left_out(len(nodes), "nodes.csv"), columns, rows)


def _node_row(node: NodeSummary) -> list[Child]:
    means = (node.mean_seconds, node.mean_compute_seconds, node.mean_wait_seconds)
    return [
        element("bdi", printable(node.name)),
        f"{len(node.epochs):,}",
        *(say_known(seconds, say_seconds) for seconds in means),
        f"{len(node.masks):,}",
        end_of(node.left_because),
    ]


def epochs_table(epochs: Sequence[SplitEpochSummary]) -> Markup:
    """A row per epoch of all nodes."""
    columns = [
        *(Column("epoch"), Column("ended at"), Column("sources"), Column("steps"), Column("samples")),
        *(Column("missing"), Column("training"), Column("test"), Column("moved"), Column("energy")),
        *(Column("training loss"), Column("loss"), Column("accuracy")),
    ]
    rows = (_epoch_row(one) for one in epochs[:MAX_ROWS])
    caption = "A row per epoch, with the inputs that were missing and the bytes over the network"
    return table(caption + left_out(len(epochs), "epochs.csv"), columns, rows)


def _epoch_row(one: SplitEpochSummary) -> list[Child]:
    ended = one.ended
    counts = (ended.num_sources, ended.num_steps, ended.num_samples, ended.num_masked)
    return [
        f"{ended.epoch:,}",
        say_seconds(ended.at),
        *(f"{count:,}" for count in counts),
        say_seconds(ended.seconds),
        say_seconds(ended.test_seconds),
        say_bytes(one.bytes_moved),
        say_energy(one.joules),
        *(say_known(loss, "{:.4f}".format) for loss in (ended.train_loss, ended.loss)),
        say_known(ended.accuracy, say_ratio),
    ]
