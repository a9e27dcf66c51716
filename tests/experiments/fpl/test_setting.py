"""Nodes, their data, and the rules that they train by."""

import pytest

from papers.fpl.setting import FEDAVG, GFL_CFF, NAMES, SCHEMES, SPLIT, devices_of, prepared, shortened


def test_sources_share_a_cell_and_the_trunk_is_at_its_station(case):
    *sources, trunk = devices_of(case)
    assert [source.name for source in sources] == [f"camera-{number}" for number in range(1, 6)]
    assert all(0 < source.distance_metres <= 500 for source in sources)
    assert all(source.up_mbit < source.down_mbit < 200 for source in sources)
    assert trunk.is_server and not trunk.has_link
    assert {source.samples_per_second for source in sources} == {trunk.samples_per_second}


def test_places_are_drawn_anew_for_each_seed(case):
    assert devices_of(case) == devices_of(case)
    assert devices_of(case)[0].distance_metres != devices_of(case._replace(seed=1))[0].distance_metres


def test_every_scheme_has_a_job_on_the_same_samples(case):
    jobs = {scheme: prepared(case._replace(scheme=scheme)) for scheme in SCHEMES}
    assert set(NAMES) == set(SCHEMES)
    assert {one.dataset.x_train.tobytes() for one in jobs.values()} == {prepared(case).dataset.x_train.tobytes()}
    assert jobs[SPLIT].job.cut == "f1" and jobs[SPLIT].job.merge is None
    assert jobs[GFL_CFF].job.averaging.layers == ("c2", "f1", "f2")
    assert jobs[FEDAVG].job.averaging.mu == 0 and not jobs[FEDAVG].job.averaging.layers
    assert {one.job.optimizer.name for one in jobs.values()} == {"Adam"}


def test_each_seed_has_samples_of_its_own(case):
    one, other = (prepared(case._replace(seed=seed)).dataset.x_train for seed in (0, 1))
    assert one.shape == other.shape
    assert one.tobytes() != other.tobytes()


@pytest.mark.parametrize("num_samples", [16, 64])
def test_a_shortened_job_has_so_many_samples(case, num_samples):
    short = shortened(prepared(case), num_samples)
    assert len(short.dataset.y_train) == num_samples
    assert len(short.dataset.y_test) == 1
    assert short.task == prepared(case).task
