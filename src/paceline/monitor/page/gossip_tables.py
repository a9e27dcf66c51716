"""Tables of the report of a gossip run: its peers, its epochs, and what was missing."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.monitor.gossip_figures import EpochSummary, GossipSummary, Outage, PeerSummary
from paceline.monitor.page.markup import Child, Markup, element
from paceline.monitor.page.tables import MAX_ROWS, NONE, Column, left_out, table
from paceline.monitor.summary import mean
from paceline.monitor.wording import printable, say_bytes, say_known, say_names, say_ratio, say_seconds


def peers_table(peers: Sequence[PeerSummary]) -> Markup:
    """A row per peer: what it trained, means of its epochs, and what became of it."""
    columns = [
        *(Column("peer", is_number=False), Column("accuracy"), Column("epochs"), Column("own")),
        *(Column("trained"), Column("kept"), Column("expected"), Column("epoch"), Column("train"), Column("rank")),
        *(Column("exchange"), Column("at the end", is_number=False)),
    ]
    rows = (_peer_row(peer) for peer in peers[:MAX_ROWS])
    return table(
        "A row per peer, with its own samples; times are means of its epochs" + left_out(len(peers)), columns, rows
    )


def _peer_row(peer: PeerSummary) -> list[Child]:
    means = (peer.mean_seconds, peer.mean_train_seconds, peer.mean_rank_seconds, peer.mean_exchange_seconds)
    expected = mean(one.samples_per_second for one in peer.epochs)
    return [
        element("bdi", printable(peer.name)),
        say_known(peer.accuracy, say_ratio),
        f"{len(peer.epochs):,}",
        NONE if peer.own_samples is None else f"{peer.own_samples:,}",
        f"{peer.num_samples:,}",
        say_known(peer.mean_ratio, say_ratio),
        say_known(expected, lambda rate: f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s"),
        *(say_known(seconds, say_seconds) for seconds in means),
        _end_of(peer),
    ]


def _end_of(peer: PeerSummary) -> str:
    if peer.ended is not None:
        return peer.ended.reason
    return "there" if peer.lost_because is None else f"gone: {printable(peer.lost_because)}"


def epochs_table(epochs: Sequence[EpochSummary]) -> Markup:
    """A row per epoch, over all peers that ended it."""
    columns = [
        *(Column("epoch"), Column("ended at"), Column("peers"), Column("samples"), Column("kept")),
        *(Column("took"), Column("at most"), Column("sent"), Column("peers' accuracy")),
        *(Column("average's accuracy"), Column("average's loss"), Column("distance")),
    ]
    rows = (_epoch_row(one) for one in epochs[:MAX_ROWS])
    return table("A row per epoch of all peers that ended it" + left_out(len(epochs)), columns, rows)


def _epoch_row(one: EpochSummary) -> list[Child]:
    consensus = one.consensus
    return [
        f"{one.epoch:,}",
        say_seconds(one.ended_at),
        f"{one.num_learners:,}",
        f"{one.num_samples:,}",
        say_ratio(one.mean_ratio),
        say_seconds(one.mean_seconds),
        say_seconds(one.max_seconds),
        say_bytes(one.bytes_sent),
        say_known(one.mean_accuracy, say_ratio),
        say_known(consensus.accuracy if consensus else None, say_ratio),
        say_known(consensus.loss if consensus else None, "{:.4f}".format),
        say_known(consensus.distance if consensus else None, "{:.3g}".format),
    ]


def missing_tables(summary: GossipSummary) -> list[Markup]:
    """What was missing for some time: data of peers that failed, and the shared store; none if nothing was."""
    tables = []
    if summary.taken_over or summary.missing:
        columns = [
            *(Column("from epoch"), Column("whose", is_number=False), Column("samples")),
            *(Column("failed"), Column("trained by", is_number=False)),
        ]
        taken = [
            [str(one.epoch), printable(one.other), f"{one.num_samples:,}", NONE, printable(one.learner)]
            for one in summary.taken_over
        ]
        lacking = [
            [str(one.epoch), say_names(one.others), f"{one.num_samples:,}", say_ratio(one.share_failed), "nobody"]
            for one in summary.missing
        ]
        rows = [*taken[:MAX_ROWS], *lacking[:MAX_ROWS]]
        tables.append(table("Data of peers that failed", columns, rows))
    if summary.outages:
        columns = [
            *(Column("peer", is_number=False), Column("store", is_number=False), Column("from"), Column("for")),
            Column("reason", is_number=False),
        ]
        tables.append(
            table(
                "Peers without the shared store" + left_out(len(summary.outages)),
                columns,
                map(_outage_row, summary.outages[:MAX_ROWS]),
            )
        )
    return tables


def _outage_row(outage: Outage) -> list[Child]:
    lasted = "to the end" if outage.end is None else say_seconds(outage.end - outage.start)
    return [
        element("bdi", printable(outage.learner)),
        printable(outage.store),
        say_seconds(outage.start),
        lasted,
        printable(outage.reason),
    ]
