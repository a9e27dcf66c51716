"""``paceline serve``: what it refuses, and what it keeps of a run to resume it."""

import pytest

from paceline.cli import serve


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'JOB'"),
        (("none.toml",), "none.toml: cannot be read: No such file or directory"),
        (("fleet.toml",), "fleet.toml: no table says what kind of job this is; allowed: job, pool, gossip, split"),
        (("gossip.toml",), "this job has no server; start its first peer with paceline gossip gossip.toml"),
        (("job.toml", "--token", "a b\n"), "a token is made of"),
        (("job.toml", "--host", "0.0.0.0", "--cert", "a.pem"), "--cert and --key belong together"),
        (("job.toml", "--port", "http"), "--port"),
    ],
)
def test_bad_input_gets_one_clear_line(refused, tmp_path, arguments, message):
    assert message in refused("serve", *arguments)
    assert not (tmp_path / "runs").exists()


def test_a_missing_dataset_gets_one_clear_line(refused, change, monkeypatch, tmp_path):
    monkeypatch.setenv("PACELINE_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    change("job.toml", '"digits"', '"mnist"')
    err = refused("serve", "job.toml")
    assert "mnist" in err
    assert str(tmp_path / "nowhere") in err


def test_a_resumed_run_keeps_its_address_token_and_certificate(tmp_path):
    given = {"cert": "/somewhere/cert.pem", "key": "/somewhere/key.pem", "token": "S3cret"}
    serve._KeptListenOptions.of(tmp_path, given).keep(tmp_path, 4711)
    kept = serve._KeptListenOptions.of(tmp_path, {})
    assert (kept.cert, kept.key, kept.token, kept.port) == (*given.values(), 4711)
    assert (tmp_path / "listen.json").stat().st_mode & 0o077 == 0
    assert serve._KeptListenOptions.of(None, {"host": "0.0.0.0"}).token  # others are never let in without one
