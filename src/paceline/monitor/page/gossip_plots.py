"""The plotted parts of the page of a gossip run: learning, balance, time and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from paceline.monitor.gossip_figures import EpochSummary, GossipSummary, PeerSummary
from paceline.monitor.page.charts import Chart, Point, TimeAxis, column_chart
from paceline.monitor.page.curves import Curve, Mark, draw_curves
from paceline.monitor.page.frame import section
from paceline.monitor.page.gantt import MAX_BLOCKS, Block, Gantt, draw_gantt
from paceline.monitor.page.grids import Cell, Grid, draw_grid
from paceline.monitor.page.markup import Markup, element
from paceline.monitor.page.plots import MAX_LEARNERS, of_all
from paceline.monitor.wording import printable, say_bytes, say_count, say_known, say_ratio, say_seconds
from paceline.topologies.gossip.events import EpochEnded

_MAX_EPOCHS_OF_PHASES = 12
_PHASES = {
    "train": "train",
    "exchange": "exchange models, waiting included",
    "rank": "rank samples",
    "aggregate": "make aggregated points",
    "benchmark": "benchmark",
    "download": "download",
    "upload": "upload",
}  # idle is no block


def shown_peers(summary: GossipSummary) -> tuple[PeerSummary, ...]:
    """The peers that are shown one by one: the first so many."""
    return summary.peers[:MAX_LEARNERS]


def of_all_peers(summary: GossipSummary) -> str:
    """The end of a caption that says so if not all peers are shown."""
    return of_all(len(summary.peers), "peers")


def learning_section(summary: GossipSummary) -> Markup:
    """Accuracy over time, and how far the peers are apart."""
    charts = [_accuracy_chart(summary), _distance_chart(summary)]
    if not any(charts):
        charts.append(element("p", "No model was evaluated.", class_="card empty"))
    about = "Of each peer's own model after each epoch, and of the average of all where a fleet sees them."
    return section("Learning", element("div", *charts, class_="two"), about=about)


def _accuracy_chart(summary: GossipSummary) -> Markup | None:
    average = [
        Mark(one.at, one.accuracy, f"epoch {one.epoch}, at {say_seconds(one.at)}\naverage {say_ratio(one.accuracy)}")
        for one in summary.consensus
        if one.accuracy is not None
    ]
    what = "the average of all models"
    if not average:
        average, what = _means(summary.epochs), "the mean of the peers"
    if not average:
        return None
    peers = [_accuracy_curve(peer) for peer in shown_peers(summary) if peer.accuracy is not None]
    first, last = average[0], average[-1]
    chart = Chart(
        name="accuracy",
        caption="Accuracy over time",
        note=f"thick: {what}, {say_ratio(last.value)} at last"
        + (f"; thin: each peer{of_all_peers(summary)}" if peers else ""),
        description=f"Of {what}, from {say_ratio(first.value)} at {say_seconds(first.x)} to {say_ratio(last.value)} at "
        f"{say_seconds(last.x)}. The table of peers has the last of each.",
        say=lambda value: say_ratio(value).replace(".0 %", " %"),
        floor=0.0,
        ceiling=1.0,
        over="seconds",
    )
    return draw_curves(chart, [*peers, Curve(marks=average, is_thick=True)])


def _means(epochs: Sequence[EpochSummary]) -> list[Mark]:
    return [
        Mark(one.ended_at, one.mean_accuracy, f"epoch {one.epoch}\nmean of the peers {say_ratio(one.mean_accuracy)}")
        for one in epochs
        if one.mean_accuracy is not None
    ]


def _accuracy_curve(peer: PeerSummary) -> Curve:
    marks = [Mark(one.at, one.accuracy) for one in peer.epochs if one.accuracy is not None]
    return Curve(marks=marks, tip=f"{printable(peer.name)}: {say_known(peer.accuracy, say_ratio)} at last")


def _distance_chart(summary: GossipSummary) -> Markup | None:
    marks = [
        Mark(one.epoch, one.distance, f"epoch {one.epoch}: {one.distance:.3g}, {say_count(one.num_learners, 'peer')}")
        for one in summary.consensus
        if one.distance > 0
    ]
    if not marks:
        return None
    first, last = marks[0], marks[-1]
    chart = Chart(
        name="distance",
        caption="Distance of the peers from their average",
        note=f"{last.value:.3g} after epoch {last.x:.0f}; over the length of the average, logarithmic",
        description=f"From {first.value:.3g} after epoch {first.x:.0f} to {last.value:.3g} after epoch {last.x:.0f}.",
        say=lambda value: f"{value:g}",
        over="epoch",
    )
    return draw_curves(chart, [Curve(marks=marks, is_thick=True)], is_log=True)


def balance_section(summary: GossipSummary) -> Markup:
    """Of its data, what each peer trained in each epoch, and how long its epochs took."""
    longest = max((one.max_seconds for one in summary.epochs), default=0.0) or 1.0
    ratios = _grid(
        summary,
        name="ratios",
        caption="Kept data per peer and epoch",
        note="per cent of its own",
        shade=lambda one: one.ratio,
        text=lambda one: f"{100 * one.ratio:.0f}",
    )
    seconds = _grid(
        summary,
        name="seconds",
        caption="Seconds per peer and epoch",
        note=f"from the end of the last one; at most {say_seconds(longest)}",
        shade=lambda one: one.seconds / longest,
        text=lambda one: f"{one.seconds:.3g}",
    )
    about = "Balanced, a slow peer keeps less of its data, and all epochs take as long."
    return section("Balance", draw_grid(ratios), draw_grid(seconds), about=about)


def _grid(
    summary: GossipSummary,
    *,
    name: str,
    caption: str,
    note: str,
    shade: Callable[[EpochEnded], float],
    text: Callable[[EpochEnded], str],
) -> Grid:
    rows = [
        (
            printable(peer.name),
            {one.epoch: Cell(shade=shade(one), text=text(one), tip=_epoch_tip(one)) for one in peer.epochs},
        )
        for peer in shown_peers(summary)
    ]
    return Grid(
        name=name,
        caption=caption,
        note=f"{note}{of_all_peers(summary)}",
        description="Each row is a peer, each column an epoch; the table of peers has the means.",
        rows=rows,
        rounds=range(summary.epochs[0].epoch, summary.epochs[-1].epoch + 1),
        over="epoch",
    )


def _epoch_tip(one: EpochEnded) -> str:
    kept = f"{say_count(one.num_samples, 'sample')}, {say_ratio(one.ratio)} of its data"
    expected = f"expected {one.samples_per_second:,.3g} samples/s"
    parts = f"train {say_seconds(one.train_seconds)}, exchange {say_seconds(one.exchange_seconds)}"
    return f"{printable(one.learner)}, epoch {one.epoch}: {say_seconds(one.seconds)}\n{kept}; {expected}\n{parts}"


def time_section(summary: GossipSummary) -> Markup | None:
    """What peers did when, and who was there; None if no peer told."""
    charts = [_phases_chart(summary), _presence_chart(summary)]
    about = "Where a lane is empty, a peer was idle, or not there." if charts[0] else None
    return section("Time", *charts, about=about) if any(charts) else None


def _phases_chart(summary: GossipSummary) -> Markup | None:
    shown = shown_peers(summary)
    first = max(0, (summary.epochs[-1].epoch if summary.epochs else 0) - _MAX_EPOCHS_OF_PHASES + 1)
    first = first if first > 1 else 0
    spans = [(peer, [one for one in peer.phases if one.epoch >= first and one.phase in _PHASES]) for peer in shown]
    blocks = [block for _, many in spans for block in many]
    if not blocks or len(blocks) > MAX_BLOCKS:
        return None
    used = [phase for phase in _PHASES if any(block.phase == phase for block in blocks)]
    part = f"from epoch {first} on" if first else "from the start"
    chart = Gantt(
        name="phases",
        caption="What peers did",
        note=f"{part}{of_all_peers(summary)}",
        description="Each row is a peer, coloured by what it did; the table of peers has the mean seconds.",
        lanes=[
            (
                printable(peer.name),
                [
                    Block(
                        start=one.start,
                        end=one.end,
                        job=used.index(one.phase),
                        kind="deed",
                        tip=f"{printable(peer.name)}, epoch {one.epoch}: {_PHASES[one.phase]}\n"
                        f"{say_seconds(one.end - one.start)}, from {say_seconds(one.start)}",
                    )
                    for one in many
                ],
            )
            for peer, many in spans
        ],
        jobs=[_PHASES[phase] for phase in used],
        axis=TimeAxis(min(block.start for block in blocks), max(block.end for block in blocks)),
    )
    return draw_gantt(chart)


def _presence_chart(summary: GossipSummary) -> Markup | None:
    shown = shown_peers(summary)
    if not any(peer.presences for peer in shown):
        return None
    end = max(presence.end for peer in shown for presence in peer.presences)
    chart = Gantt(
        name="presence",
        caption="Who was there",
        note=f"dark: its epochs in turn; hatched: without the shared store{of_all_peers(summary)}",
        description="Each row is a peer, from its start to its end or to when it was missed; the table of what "
        "happened says the same.",
        lanes=[(printable(peer.name), list(_presence_blocks(peer, summary, end))) for peer in shown],
        jobs=["there"],
        axis=TimeAxis(summary.started.at if summary.started else 0.0, end),
    )
    return draw_gantt(chart)


def _presence_blocks(peer: PeerSummary, summary: GossipSummary, end: float) -> Iterator[Block]:
    name = printable(peer.name)
    for presence in peer.presences:
        tip = f"{name}\n{say_seconds(presence.start)} to {say_seconds(presence.end)}"
        yield Block(start=presence.start, end=presence.end, job=0, kind="stay", tip=tip)
    if sum(len(one.epochs) for one in summary.peers) <= MAX_BLOCKS:
        for one in peer.epochs[::2]:  # every other one, so that they can be told apart
            tip = f"{name}, epoch {one.epoch}: {say_seconds(one.seconds)}"
            yield Block(start=one.at - one.seconds, end=one.at, job=0, kind="work", tip=tip)
    for outage in summary.outages:
        if outage.learner == peer.name:
            until = end if outage.end is None else outage.end
            tip = f"{name} without {printable(outage.store)}: {printable(outage.reason)}"
            yield Block(start=outage.start, end=until, job=0, kind="bad", tip=tip)


def bytes_section(summary: GossipSummary) -> Markup | None:
    """What all peers sent per epoch; None if it was nothing."""
    bytes_sent = summary.footprint.bytes_sent
    if not bytes_sent:
        return None
    points = [
        Point(one.epoch, float(one.bytes_sent), f"epoch {one.epoch}: {say_bytes(one.bytes_sent)} sent by all")
        for one in summary.epochs
    ]
    mean = say_bytes(bytes_sent / len(summary.epochs))
    chart = Chart(
        name="bytes",
        caption="Sent per epoch by all peers",
        note=f"{say_bytes(bytes_sent)} in all, {mean} per epoch",
        description=f"{say_bytes(bytes_sent)} in {say_count(len(summary.epochs), 'epoch')}.",
        say=say_bytes,
        over="epoch",
    )
    return section("Bytes", column_chart(chart, points), about="Of models and figures, as peers counted them.")
