"""Platforms, their data, and the rules that they train by."""

import pytest

from papers.gossip.setting import FOUR, LINKS, base_job, devices_of, drawn_speeds, edge_gossip, job_of, sgd
from reproduction.trials import checksum


def test_platforms_are_as_many_times_slower_as_there_are_fewer_samples(case):
    devices = devices_of(case, "hash")
    scale = 360 / 50_000
    assert [device.samples_per_second for device in devices] == pytest.approx([2000 * s * scale for s in FOUR])
    assert devices[0].aggregates_per_second == pytest.approx(20_000 * 3 * scale)
    assert {device.down_mbit for device in devices} == {LINKS["data centre"].mbit}
    assert devices_of(case._replace(link="edge"), "svd")[0].latency_ms == LINKS["edge"].latency_ms


def test_drawn_speeds_are_the_same_for_the_first_platforms():
    four, sixteen = drawn_speeds(4, seed=1), drawn_speeds(16, seed=1)
    assert sixteen[:4] == four
    assert drawn_speeds(4, seed=2) != four
    assert all(1 <= speed <= 5 for speed in sixteen)


def test_a_job_has_the_papers_optimizer_and_the_cases_size(case):
    ground = base_job(case.workload, case.size, case.seed)
    job = job_of(case, edge_gossip(), ground.job.data)
    assert job.optimizer.options == {"lr": 0.01, "momentum": 0.9}
    assert job_of(case, {"optimizer": sgd(0.1)}, ground.job.data).optimizer.options["lr"] == 0.1
    assert (job.epochs, job.batch_size, job.min_peers, job.ranks) == (3, 16, 4, "class")
    assert len(ground.dataset.train) == 360
    assert len(ground.dataset.test) == 100


def test_each_seed_has_a_part_of_its_own(case):
    one, other = (checksum(base_job(case.workload, case.size, seed).dataset) for seed in (0, 1))
    assert one != other
