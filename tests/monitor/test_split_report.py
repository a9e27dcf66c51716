"""The page of a split run: how it learns, how nodes spend their time, what they send and use, who was missing."""

import math

import pytest

from paceline.errors import ConfigError
from paceline.monitor import write_split_report
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import NodeSpent, SplitEpochEnded
from tests.monitor.page.reading import read_page, rows_of
from tests.monitor.synthetic_split import FLEET, JOB, Camera, epoch_of, split_events

NASTY = "<script>document.title='owned'</script>\x1b"


@pytest.fixture
def page_of(make_split):
    """The page of these events, read back."""

    def page_of(*arguments, **settings):
        return read_page(write_split_report(make_split(*arguments, **settings)).read_text())

    return page_of


def table_named(page, start):
    (found,) = [table for table in page.all("table") if table.one("caption").text.startswith(start)]
    return rows_of(found)


def facts_of(page):
    return {card.one("dt").text: card.one("dd").text for card in page.one("dl", class_="facts").all("div")}


def tips_of(page, name):
    return [mark.one("title").text for mark in page.one("figure", id=name).all("g", class_="tip")]


def test_written_into_the_folder_or_elsewhere(make_split, tmp_path):
    folder = make_split()
    assert write_split_report(folder) == folder.report
    assert write_split_report(folder, tmp_path / "other.html") == tmp_path / "other.html"
    assert folder.report.read_text() == (tmp_path / "other.html").read_text()
    with pytest.raises(ConfigError, match="other/x.html: the report cannot be written there: No such file"):
        write_split_report(folder, tmp_path / "other/x.html")


def test_headline_facts(page_of):
    page = page_of()
    assert page.one("h1").text == "cameras"
    header = page.one("header").text
    assert all(
        part in header
        for part in (
            *("Paceline split", "finished: no improvement", "leaf-cnn on emnist", "fpl, cut before f2"),
            *("3,283,326 parameters", "virtual clock"),
        )
    )
    assert facts_of(page) == {
        "final accuracy": "87.2 %loss 0.500, best in epoch 6",
        "epochs": "8of 8",
        "an epoch took": "10.0 sof training, the mean",
        "time": "93.0 son the virtual clock",
        "over the network": "260 MB32.5 MB per epoch",
        "energy": "467 mWh113 mg CO₂e",
        "samples trained": "46,080in all epochs",
        "sources": "445 inputs missing",
    }


def test_all_parts_are_there(page_of):
    page = page_of()
    assert [heading.text for heading in page.all("h2")] == [
        *("Learning", "Time", "Network and energy", "Sources", "Model", "Nodes", "Energy and bytes"),
        *("Epochs", "What happened", "Job and versions"),
    ]
    assert [figure.attributes["id"] for figure in page.all("figure")] == [
        *("accuracy", "loss", "seconds", "shares", "bytes-by-node", "energy-by-node", "bytes", "presence"),
        *("sources", "junction"),
    ]


def test_learning_tells_the_best_epoch(page_of):
    page = page_of()
    assert "87.2 % at epoch 6, the best" in page.one("figure", id="accuracy").one("figcaption").text
    loss = page.one("figure", id="loss")
    assert (len(loss.all("polyline", class_="thin")), len(loss.all("polyline", class_="line"))) == (1, 1)
    note = "on the test data: 0.5 at epoch 6, the best; thin: in training: 0.151 at last"
    assert note in loss.one("figcaption").text
    assert "epoch 1, at 16.0 s\nloss 1" in tips_of(page, "loss")


def test_a_run_that_is_under_way_tells_the_best_so_far(page_of):
    page = page_of(split_events()[:-1])
    assert "not finished" in page.one("header").text
    assert facts_of(page)["accuracy so far"] == "89.0 %loss 0.580, best in epoch 6"
    assert "0.5 at epoch 6, the best so far" in page.one("figure", id="loss").one("figcaption").text


def test_time_is_split_into_computing_and_waiting(page_of):
    page = page_of()
    seconds = page.one("figure", id="seconds")
    assert [item.text for item in seconds.one("ul", class_="legend").all("li")] == [
        *("1 compute", "2 wait for others or the network")
    ]
    assert {"trunk: compute\n3.00 s", "cam-2: wait for others or the network\n7.00 s"} <= set(tips_of(page, "seconds"))
    first, second = (one for one in seconds.all("rect", class_="block")[:2])
    assert (first.attributes["x"], first.attributes["width"]) == ("0%", "27.2727%")
    assert (second.attributes["x"], second.attributes["width"]) == ("27.2727%", "72.7273%")
    digits = [mark.text for mark in page.one("figure", id="shares").all("text", class_="digits")]
    assert digits[:9] == ["27"] * 8 + ["82"]
    assert "cam-1, epoch 2: 11.0 s\ncomputed 9.00 s, waited 2.00 s\nsent 5 MB, received 5 MB" in tips_of(page, "shares")


def test_time_that_is_neither_is_shown_if_there_is_much_of_it(page_of):
    told = NodeSpent(
        at=9, learner="a", epoch=1, seconds=9, compute_seconds=3, wait_seconds=4, bytes_sent=0, bytes_received=0
    )
    page = page_of([told])
    assert [item.text for item in page.one("figure", id="seconds").one("ul", class_="legend").all("li")][2:] == [
        "3 neither"
    ]
    assert page.all("figure", id="bytes-by-node") == page.all("figure", id="energy-by-node") == []


def test_network_and_energy_by_node(page_of):
    page = page_of()
    assert {"trunk: received\n130 MB", "late: sent\n25 MB"} <= set(tips_of(page, "bytes-by-node"))
    assert "260 MB over the network" in page.one("figure", id="bytes-by-node").one("figcaption").text
    assert "cam-1: energy\n100 mWh" in tips_of(page, "energy-by-node")
    axes = [page.one("figure", id=f"{what}-by-node").all("text", class_="x") for what in ("bytes", "energy")]
    assert [[mark.text for mark in axis] for axis in axes] == [
        *(["0 B", "100 MB", "200 MB"], ["0 mWh", "100 mWh", "200 mWh"])
    ]
    assert "467 mWh in all" in page.one("figure", id="energy-by-node").one("figcaption").text
    assert "epoch 4: 40 MB, 62.5 mWh" in tips_of(page, "bytes")


def test_sources_tell_who_was_there_and_who_was_masked(page_of):
    page = page_of()
    presence = page.one("figure", id="presence")
    assert (len(presence.all("rect", class_="stay")), len(presence.all("rect", class_="bad"))) == (4, 1)
    tips = tips_of(page, "presence")
    assert "cam-2, masked from step 46 of epoch 3 on: nothing came within 0.5 s" in tips
    assert "cam-3\n1.00 s to 60.0 s" in tips
    assert "epoch 3: 3 sources, 45 inputs missing of 270" in tips_of(page, "sources")
    assert len(page.one("figure", id="sources").all("rect", class_="bad")) == 1
    assert tips_of(page, "junction")[2:4] == ["epoch 3: 3,000,000 parameters", "epoch 4: 4,000,000 parameters"]
    assert [mark.text for mark in page.one("figure", id="junction").all("text", class_="y")][-1] == "4 M"


def test_where_nothing_changed_nothing_is_plotted_of_it(page_of):
    page = page_of(split_events([Camera(name="a", compute_seconds=3.0)], epochs=2))
    assert page.all("figure", id="sources") == page.all("figure", id="junction") == []
    assert len(page.all("figure", id="presence")) == 1


def test_tables_tell_the_run(page_of):
    page = page_of()
    assert table_named(page, "Parameters by part")[1:] == [
        ["branch", "52,096", "3", "156,288"],
        ["junction", "3,000,000", "1", "3,000,000"],
        ["trunk", "127,038", "1", "127,038"],
        ["whole", "", "", "3,283,326"],
    ]
    assert table_named(page, "Where the model could be cut")[1:] == [
        *(["f2", "10.2 s", "chosen"], ["f1", "14.5 s", ""], ["c2", "45.0 s", ""])
    ]
    nodes = {row[0]: row[1:] for row in table_named(page, "A row per node")}
    assert nodes["cam-2"] == ["8", "11.0 s", "4.00 s", "7.00 s", "1", "there"]
    assert nodes["cam-3"][-1] == "left: it said goodbye"
    used = {row[0]: row[1:] for row in table_named(page, "What each learner used")}
    assert used["cam-2"] == ["40 MB", "40 MB", "32.0 s", "44.4 mWh", "10.8 mg", "5 W per busy core"]
    assert table_named(page, "A row per epoch")[3] == [
        *("3", "38.0 s", "3", "90", "5,760", "45", "10.0 s", "1.00 s", "30 MB", "59.7 mWh", "0.4608", "0.6800"),
        "77.0 %",
    ]
    happened = [row[1] for row in table_named(page, "Sources that came")[1:]]
    assert "epoch 4, step 1: cam-2 is back" in happened
    assert ["split.scheme", "fpl"] in table_named(page, "Job")


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
    fleet = [Camera(name=NASTY, compute_seconds=3.0, last=3, masked=2), Camera(name="pi", compute_seconds=3.0)]
    page = page_of(split_events(fleet), job={**JOB, "split": {"scheme": NASTY, "cut": NASTY}, NASTY: {NASTY: NASTY}})
    assert len(page.all("script")) == 1
    shown = NASTY.replace("\x1b", "\\x1b")
    assert table_named(page, "A row per node")[2][0] == shown
    assert page.one("figure", id="seconds").all("g", class_="y")[1].one("title").text == shown


def test_an_unfinished_run_and_an_empty_one(page_of):
    page = page_of([LearnerJoined(at=2.0, learner="a")], name="early")
    assert "No epoch has ended yet." in page.one("main").text
    assert [heading.text for heading in page.all("h2")] == [
        *("Sources", "Nodes", "Energy and bytes", "What happened", "Job and versions")
    ]
    assert table_named(page, "A row per node")[1][:4] == ["a", "0", "–", "–"]
    empty = page_of([], name="empty", job={"split": {}})
    assert "nothing recorded by the trunk" in empty.one("header").text
    assert [heading.text for heading in empty.all("h2")] == ["Job and versions"]


def test_the_record_of_a_trunk_alone(page_of):
    events = [one for one in split_events() if not isinstance(one, NodeSpent) or one.learner == "trunk"]
    page = page_of(events)
    assert facts_of(page)["over the network"].startswith("260 MB")
    assert [row[0] for row in table_named(page, "What each learner used")[1:]] == ["trunk", "all"]
    assert [mark.one("title").text for mark in page.one("figure", id="seconds").all("g", class_="y")] == ["trunk"]


def test_the_record_of_a_source_alone(page_of):
    spent = [one for one in epoch_of(FLEET, 1) if isinstance(one, NodeSpent) and one.learner == "cam-1"]
    page = page_of(spent)
    assert [figure.attributes["id"] for figure in page.all("figure")] == [
        *("seconds", "shares", "bytes-by-node", "energy-by-node")
    ]
    assert facts_of(page)["over the network"] == "10 MB"


def test_a_run_that_was_not_evaluated(page_of):
    ended = SplitEpochEnded(at=4, epoch=1, seconds=2, num_steps=1, num_samples=5, num_sources=1, loss=math.inf)
    page = page_of([ended])
    assert "The model was not evaluated." in page.one("main").text
    assert page.all("figure") == []


def test_training_loss_alone_is_the_thick_line(page_of):
    ended = SplitEpochEnded(at=4, epoch=1, seconds=2, num_steps=1, num_samples=5, num_sources=1, train_loss=0.5)
    loss = page_of([ended]).one("figure", id="loss")
    assert (len(loss.all("polyline", class_="thin")), len(loss.all("polyline", class_="line"))) == (0, 1)
    assert "in training: 0.5 at last" in loss.one("figcaption").text


def test_a_large_fleet_is_shown_in_part(page_of):
    fleet = [Camera(name=f"d{index}", compute_seconds=3.0) for index in range(250)]
    page = page_of(split_events(fleet, epochs=1))
    assert len(page.one("figure", id="shares").all("g", class_="y")) == 40
    assert "the first 40 of 251 nodes" in page.one("figure", id="seconds").one("figcaption").text
    assert "the first 40 of 250 sources" in page.one("figure", id="presence").one("figcaption").text
    caption = "A row per node; times are means of its epochs (51 more in nodes.csv)"
    assert len(table_named(page, caption)) == 201
    assert facts_of(page)["sources"].startswith("250")
