"""A split job on an emulated testbed: sources in their own namespaces, behind their own links."""

import json

import pytest

from paceline.monitor import SplitFolder
from paceline.topologies.events import LearnerJoined
from paceline.topologies.split.events import SplitEpochEnded
from tests.fleets.test_testbed import files, needs_root, testbed  # noqa: F401

JOB = """
[split]
cut = "3"
epochs = 1
sources = 2
[model]
name = "two-nn"
[data]
name = "digits"
[[view]]
kind = "plain"
"""
FLEET = """
[[device]]
name = "camera"
count = 2
down_mbit = 20
up_mbit = 10
latency_ms = 1
"""


@pytest.mark.slow
def test_sources_train_behind_their_links(needs_root, testbed, files):  # noqa: F811
    (files / "job.toml").write_text(JOB)
    (files / "fleet.toml").write_text(FLEET)
    out, err = testbed().communicate(timeout=120)
    told = json.loads(out.splitlines()[-1]) if out else {}
    assert told.get("epochs") == 1, err
    recorded = list(SplitFolder.open(files / told["run"]).events())
    joined = {event.learner for event in recorded if isinstance(event, LearnerJoined)}
    assert joined == {"camera-1", "camera-2"}
    (ended,) = [event for event in recorded if isinstance(event, SplitEpochEnded)]
    assert ended.num_masked == 0
    megabytes = 1437 * 50 * 4 / 1e6  # that each source sends, at 10 Mbit/s
    assert ended.seconds > megabytes * 8 / 10
