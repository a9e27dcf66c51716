"""Nodes, their data, and the rules that they train by."""

from papers.fpl.setting import FEDAVG, GFL_CFF, NAMES, SCHEMES, SPLIT, devices_of, prepared


def test_sources_share_a_cell_and_the_trunk_is_at_its_station(case):
    *sources, trunk = devices_of(case)
    assert [source.name for source in sources] == [f"camera-{number}" for number in range(1, 6)]
    assert all(0 < source.distance_metres <= 500 for source in sources)
    assert all(source.up_mbit < source.down_mbit < 200 for source in sources)
    assert trunk.is_server and not trunk.has_link
    assert {source.samples_per_second for source in sources} == {trunk.samples_per_second}


def test_each_seed_has_places_and_samples_of_its_own(case):
    other = case._replace(seed=1)
    assert devices_of(case)[0].distance_metres != devices_of(other)[0].distance_metres
    assert prepared(case).dataset.x_train.tobytes() != prepared(other).dataset.x_train.tobytes()


def test_every_scheme_has_a_job_on_the_same_samples(case):
    jobs = {scheme: prepared(case._replace(scheme=scheme)) for scheme in SCHEMES}
    assert set(NAMES) == set(SCHEMES)
    assert {one.dataset.x_train.tobytes() for one in jobs.values()} == {prepared(case).dataset.x_train.tobytes()}
    assert jobs[SPLIT].job.cut == "f1" and jobs[SPLIT].job.merge is None
    assert jobs[GFL_CFF].job.averaging.layers == ("c2", "f1", "f2")
    assert jobs[FEDAVG].job.averaging.mu == 0 and not jobs[FEDAVG].job.averaging.layers
    assert {one.job.optimizer.name for one in jobs.values()} == {"Adam"}
