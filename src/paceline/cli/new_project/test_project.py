"""Tests of the project."""

from pathlib import Path

from paceline import VirtualDevice, VirtualFleet, load, load_fleet, load_job, train

HERE = Path(__file__).parent


def test_it_learns(tmp_path: Path) -> None:
    """The job learns on the simulated fleet, and what it learned can be used."""
    fleet = VirtualFleet(load_fleet(HERE / "fleet.toml", VirtualDevice))
    run = train(load_job(HERE / "job.toml"), fleet, folder=tmp_path / "run", progress=False)
    assert run.metrics["accuracy"] > 0.9
    assert load(run.folder)
