"""The page of a gossip run: how peers learn and agree, what each trained, what was missing."""

import pytest

from paceline.errors import ConfigError
from paceline.monitor import write_gossip_report
from paceline.monitor.page import gossip_plots
from paceline.topologies.gossip.events import EpochEnded, PeerStarted
from tests.monitor.page.reading import read_page, rows_of
from tests.monitor.synthetic_gossip import JOB, Peer, gossip_events

NASTY = "<script>document.title='owned'</script>\x1b"


@pytest.fixture
def page_of(make_gossip):
    """The page of these events, read back."""

    def page_of(*arguments, **settings):
        return read_page(write_gossip_report(make_gossip(*arguments, **settings)).read_text())

    return page_of


def table_named(page, start):
    (found,) = [table for table in page.all("table") if table.one("caption").text.startswith(start)]
    return rows_of(found)


def facts_of(page):
    return {card.one("dt").text: card.one("dd").text for card in page.one("dl", class_="facts").all("div")}


def test_written_into_the_folder_or_elsewhere(make_gossip, tmp_path):
    folder = make_gossip()
    assert write_gossip_report(folder) == folder.report
    assert write_gossip_report(folder, tmp_path / "other.html") == tmp_path / "other.html"
    assert folder.report.read_text() == (tmp_path / "other.html").read_text()
    with pytest.raises(ConfigError, match="other/x.html: the report cannot be written there: No such file"):
        write_gossip_report(folder, tmp_path / "other/x.html")


def test_headline_facts(page_of):
    page = page_of()
    assert page.one("h1").text == "shelf"
    header = page.one("header").text
    assert all(
        part in header
        for part in (
            *("Paceline gossip", "finished: 4 peers averaged", "two-nn on digits", "10,000 parameters"),
            *("mixing on a ring graph", "shares by edge-gossip", "virtual clock"),
        )
    )
    assert facts_of(page) == {
        "final accuracy": "93.1 %loss 0.090",
        "epochs": "6of 6",
        "an epoch took": "6.00 smean of all peers",
        "kept of the data": "56.9 %6,822 samples trained",
        "sent": "1.92 MB1.92 MB received",
        "energy": "73.3 mWh17.8 mg CO₂e",
        "peers": "51 came later, 1 lost",
        "samples missing": "7001 part of failed peers taken over",
        "time": "41.0 son the virtual clock",
    }


def test_a_target_is_told_with_the_time_it_took(page_of):
    job = {**JOB, "gossip": {**JOB["gossip"], "target_accuracy": 0.7}}
    assert facts_of(page_of(job=job))["to 70.0 %"] == "20.9 sthe average; 27.0 s half of the peers"


def test_all_parts_are_there(page_of):
    page = page_of()
    assert [heading.text for heading in page.all("h2")] == [
        *("Learning", "Balance", "Time", "Bytes", "Peers", "Energy and bytes", "Epochs", "What was missing"),
        *("What happened", "Job and versions"),
    ]
    assert [figure.attributes["id"] for figure in page.all("figure")] == [
        *("accuracy", "distance", "ratios", "seconds", "phases", "presence", "bytes")
    ]


def test_accuracy_has_a_line_per_peer_and_a_thick_one(page_of):
    figure = page_of().one("figure", id="accuracy")
    assert (len(figure.all("polyline", class_="thin")), len(figure.all("polyline", class_="line"))) == (5, 1)
    tips = [mark.one("title").text for mark in figure.all("g", class_="tip")]
    assert "pi-4: 81.7 % at last" in tips
    assert "epoch 1, at 8.90 s\naverage 53.0 %" in tips
    assert "thick: the average of all models, 91.7 % at last" in figure.one("figcaption").text


def test_without_an_average_the_mean_of_the_peers_is_thick(page_of):
    events = [event for event in gossip_events() if type(event).__name__ not in ("ConsensusMeasured", "GossipEnded")]
    page = page_of(events)
    assert "thick: the mean of the peers" in page.one("figure", id="accuracy").one("figcaption").text
    assert page.all("figure", id="distance") == []
    assert "not finished" in page.one("header").text
    assert facts_of(page)["accuracy so far"].startswith("80.0 %")


def test_grids_tell_ratio_and_seconds(page_of):
    page = page_of()
    ratios = page.one("figure", id="ratios")
    assert [mark.one("title").text for mark in ratios.all("g", class_="y")] == [
        *("jetson", "pi-4", "pi-zero", "laptop", "late")
    ]
    digits = [mark.text for mark in ratios.all("text", class_="digits")]
    assert digits[:7] == ["100"] * 6 + ["50"]
    assert len(digits) == 6 + 6 + 6 + 3 + 3
    assert ratios.one("text", class_="axis").text == "epoch"
    assert not ratios.all(data_round="1")
    tips = [mark.one("title").text for mark in page.one("figure", id="seconds").all("g", class_="tip")]
    assert (
        "pi-4, epoch 2: 6.00 s\n250 samples, 50.0 % of its data; expected 50 samples/s\ntrain 5.00 s, exchange 0.500 s"
    ) in tips


def test_time_tells_what_peers_did_and_who_was_there(page_of):
    page = page_of()
    phases = page.one("figure", id="phases")
    assert [item.text for item in phases.one("ul", class_="legend").all("li")] == [
        *("1 train", "2 exchange models, waiting included", "3 rank samples", "4 make aggregated points", "5 benchmark")
    ]
    assert len(phases.all("rect", class_="deed")) == 5 * 2 + 3 * (6 + 6 + 6 + 3 + 3) + 1
    presence = page.one("figure", id="presence")
    tips = [mark.one("title").text for mark in presence.all("g", class_="tip") if mark.all("rect")]
    assert "laptop\n3.00 s to 26.0 s" in tips
    assert "jetson without redis://shelf: connection refused" in tips
    assert (len(presence.all("rect", class_="stay")), len(presence.all("rect", class_="bad"))) == (5, 2)


def test_of_a_long_run_the_phases_of_the_last_epochs_are_shown(page_of):
    fleet = [Peer(name="a", samples_per_second=100.0), Peer(name="b", samples_per_second=50.0)]
    phases = page_of(gossip_events(fleet, epochs=40)).one("figure", id="phases")
    assert "from epoch 29 on" in phases.one("figcaption").text
    assert len(phases.all("rect", class_="deed")) == 2 * 3 * 12


def test_too_many_blocks_are_left_out(page_of, monkeypatch):
    monkeypatch.setattr(gossip_plots, "MAX_BLOCKS", 20)
    page = page_of()
    assert page.all("figure", id="phases") == []
    assert page.one("figure", id="presence").all("rect", class_="work") == []


def test_tables_tell_the_run(page_of):
    page = page_of()
    peers = {row[0]: row[1:] for row in table_named(page, "A row per peer")}
    assert peers["pi-4"] == [
        *("81.7 %", "6", "500", "1,500", "50.0 %", "50/s", "6.00 s", "5.00 s", "0.500 s", "0.500 s"),
        "epochs done",
    ]
    assert peers["laptop"][-1] == "gone: it did not answer"
    epochs = table_named(page, "A row per epoch")
    assert epochs[1] == [
        *("1", "9.00 s", "4", "1,212", "60.6 %", "6.00 s", "6.00 s", "320 kB", "43.0 %", "53.0 %", "0.4700", "0.1")
    ]
    assert table_named(page, "Data of peers that failed")[1:] == [
        ["5", "laptop", "500", "–", "jetson"],
        ["5", "old", "700", "25.0 %", "nobody"],
    ]
    assert table_named(page, "Peers without the shared store")[1] == [
        *("jetson", "redis://shelf", "10.0 s", "10.0 s", "connection refused")
    ]
    happened = [row[1] for row in table_named(page, "Peers that came and went")[1:]]
    assert "laptop is gone: it did not answer (missed first by jetson)" in happened
    assert ["gossip.graph", "ring"] in table_named(page, "Job")


def test_the_page_is_complete_in_itself(page_of):
    page = page_of()
    refers = {"src", "href", "data", "action", "poster", "srcset", "xlink:href"}
    assert [node for node in page.all() if refers & set(node.attributes)] == []
    assert len(page.all("script")) == 1
    ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for drawing in page.all("svg", role="img"):
        assert all(page.one(id=name).text for name in drawing.attributes["aria-labelledby"].split())


def test_names_from_the_network_are_text(page_of):
    fleet = [Peer(name=NASTY, samples_per_second=100.0, last=3), Peer(name="pi", samples_per_second=50.0)]
    page = page_of(gossip_events(fleet), job={**JOB, NASTY: {NASTY: NASTY}})
    assert len(page.all("script")) == 1
    shown = NASTY.replace("\x1b", "\\x1b")
    assert table_named(page, "A row per peer")[1][0] == shown
    assert page.one("figure", id="ratios").all("g", class_="y")[0].one("title").text == shown


def test_an_unfinished_run_and_an_empty_one(page_of):
    started = PeerStarted(at=2.0, learner="a", address="", epoch=1, num_samples=10)
    page = page_of([started], name="early")
    assert "No peer has ended an epoch yet." in page.one("main").text
    assert [heading.text for heading in page.all("h2")] == ["Time", "Peers", "What happened", "Job and versions"]
    assert table_named(page, "A row per peer")[1][:6] == ["a", "–", "0", "10", "0", "–"]
    empty = page_of([], name="empty")
    assert "nothing recorded" in empty.one("header").text
    assert [heading.text for heading in empty.all("h2")] == ["Job and versions"]


def test_a_run_that_was_not_evaluated(page_of):
    ended = EpochEnded(
        at=4.0, learner="a", epoch=1, seconds=2, num_samples=5, ratio=1.0, samples_per_second=5, train_seconds=1
    )
    page = page_of([PeerStarted(at=2.0, learner="a", address="", epoch=1, num_samples=5), ended])
    assert "No model was evaluated." in page.one("main").text
    assert [figure.attributes["id"] for figure in page.all("figure")] == ["ratios", "seconds", "presence"]


def test_a_large_fleet_is_shown_in_part(page_of):
    fleet = [Peer(name=f"d{index}", samples_per_second=50.0) for index in range(250)]
    events = [
        event
        for event in gossip_events(fleet, epochs=1)
        if type(event).__name__ not in ("PeerSeen", "PeerLost", "PhaseStarted")
    ]
    page = page_of(events)
    assert len(page.one("figure", id="ratios").all("g", class_="y")) == 40
    assert "the first 40 of 250 peers" in page.one("figure", id="accuracy").one("figcaption").text
    assert (
        len(
            table_named(
                page, "A row per peer, with its own samples; times are means of its epochs (50 more in events.jsonl)"
            )
        )
        == 201
    )
    assert facts_of(page)["peers"].startswith("250")
