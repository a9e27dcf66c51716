"""Nodes, their data, and the rules that they train by."""

from papers.fpl.setting import FEDAVG, GFL_CFF, NAMES, SCHEMES, SPLIT, devices_of, prepared, shortened
from reproduction.trials import checksum


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
    assert checksum(prepared(case).dataset) != checksum(prepared(other).dataset)


def test_every_scheme_has_a_job_on_the_same_samples(case):
    jobs = {scheme: prepared(case._replace(scheme=scheme)) for scheme in SCHEMES}
    assert set(NAMES) == set(SCHEMES)
    assert {checksum(one.dataset) for one in jobs.values()} == {checksum(prepared(case).dataset)}
    assert jobs[SPLIT].job.cut == "f1" and jobs[SPLIT].job.merge is None
    assert jobs[GFL_CFF].job.averaging.layers == ("c2", "f1", "f2")
    assert jobs[FEDAVG].job.averaging.mu == 0 and not jobs[FEDAVG].job.averaging.layers
    assert {one.job.optimizer.name for one in jobs.values()} == {"Adam"}


def test_a_shortened_job_has_the_first_samples_and_the_same_model(case):
    whole = prepared(case)
    short = shortened(whole, 16)
    assert (len(short.dataset.train), len(short.dataset.test)) == (16, 1)
    assert (short.dataset.train.take(slice(16)).x == whole.dataset.train.take(slice(16)).x).all()
    assert short.training == whole.training
