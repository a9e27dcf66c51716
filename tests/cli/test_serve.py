"""``paceline serve``: what it refuses, and what it keeps of a run to resume it."""

import inspect
import re
from pathlib import Path

import pytest

from paceline.cli import options
from paceline.cli.listening import KeptListenOptions
from paceline.cli.main import COMMANDS, function_of
from paceline.cli.serve import _how_to_take_part

NOBODY = "http://127.0.0.1:1"
WITH_TOKENS = [
    *(("serve", "job.toml"), ("join", NOBODY), ("gossip", "gossip.toml"), ("status", NOBODY)),
    *(("submit", "job.toml", "--to", NOBODY), ("cancel", "job", "--to", NOBODY), ("invite", NOBODY)),
    *(("devices", NOBODY), ("bench", "job.toml"), ("page", "."), ("axon", "worker", "json"), ("axon", "call", NOBODY)),
]
"""Each command that takes a token, with what else it needs."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'JOB'"),
        (("none.toml",), "none.toml: cannot be read: No such file or directory"),
        (("fleet.toml",), "fleet.toml: no table says what kind of job this is; allowed: job, pool, gossip, split"),
        (("gossip.toml",), "this job has no server; start its first peer with paceline gossip gossip.toml"),
        (("job.toml", "--token", "a b\n"), "a token is made of"),
        (("job.toml", "--host", "0.0.0.0", "--cert", "a.pem"), "--cert and --key belong together"),
        (("job.toml", "--client-ca", "a.pem"), "which takes TLS: add --tls, or --cert and --key"),
        (("job.toml", "--tls", "--client-ca", "a.pem"), "cannot read the authorities of clients from"),
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
    files = {name: f"/somewhere/{name}.pem" for name in ("cert", "key", "client_ca")}
    given = {**files, "hosts": ["pi.lan"], "token": "S3cret"}
    KeptListenOptions.of(tmp_path, given).keep(tmp_path, 4711)
    kept = KeptListenOptions.of(tmp_path, {})
    assert (kept.cert, kept.key, kept.client_ca, kept.hosts, kept.token, kept.port) == (*given.values(), 4711)
    assert (tmp_path / "listen.json").stat().st_mode & 0o077 == 0
    assert KeptListenOptions.of(None, {"host": "0.0.0.0"}).token  # others are never let in without one


@pytest.mark.parametrize(
    ("given", "joining"),
    [
        ({}, "paceline join https://hub:7223"),
        ({"token": "S3cret"}, "paceline join https://hub:7223 --token …"),  # who gave it knows it
        ({"host": "0.0.0.0"}, r"paceline join https://hub:7223 --token [\w-]{22}"),
        ({"host": "0.0.0.0", "insecure": True}, "paceline join https://hub:7223"),
        ({"host": "0.0.0.0", "is_invite_only": True}, "paceline invite runs/1 --name NAME"),
    ],
)
def test_what_is_printed_is_all_that_a_device_needs(given, joining, tmp_path):
    kept = KeptListenOptions.of(None, given)
    lines, _ = _how_to_take_part(kept, "https://hub:7223", Path("runs/1"))
    assert re.fullmatch(joining, lines.splitlines()[1].strip())
    kept.keep(tmp_path, 7223)
    again = KeptListenOptions.of(tmp_path, {})
    assert _how_to_take_part(again, "https://hub:7223", Path("runs/1"))[0] == lines
    assert again.admin_token == kept.admin_token is not None


def test_a_pool_has_a_token_of_its_own_to_submit_with():
    for given in ({"host": "0.0.0.0"}, {"is_invite_only": True}):
        kept = KeptListenOptions.of(None, given)
        kept.let_submit()
        _, submitting, _ = _how_to_take_part(kept, "https://hub:7223", Path("runs/1"))
        assert submitting.endswith(f"paceline submit JOB --to https://hub:7223 --token {kept.submit_token}")
        assert kept.submit_token not in (None, kept.token, kept.admin_token)
    on_this_machine = KeptListenOptions.of(None, {})
    on_this_machine.let_submit()
    assert on_this_machine.submit_token is None  # nobody needs one


def test_a_token_from_a_file(refused, tmp_path):
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text("S3cret\n")
    assert options.read_token(None, tmp_path / "token") == "S3cret"
    both = refused("serve", "job.toml", "--invite-only", "--token-file", "token")
    assert "--invite-only lets no device in by a token that all share: leave --token out" in both


def test_these_are_all_commands_that_take_a_token():
    names = [*COMMANDS.keys() - {"axon"}, "axon worker", "axon call"]
    parameters = {name: inspect.signature(function_of(name.split()[-1])).parameters for name in names}
    taking = {name for name, found in parameters.items() if "token" in found}
    assert taking == {name for name, found in parameters.items() if "token_file" in found}
    given = {" ".join(command[:2]) if command[0] == "axon" else command[0] for command in WITH_TOKENS}
    assert taking == given


@pytest.mark.parametrize("command", WITH_TOKENS, ids=lambda command: " ".join(command[:2]))
def test_every_command_takes_its_token_from_a_file(command, refused, tmp_path):
    token = tmp_path / "token"
    token.touch(mode=0o600)
    for text, message in (("two\nlines\n", ": a token is made of"), (" \n", " is empty; it holds a token")):
        token.write_text(text)
        assert f"--token-file token{message}" in refused(*command, "--token-file", "token")
    assert "--token-file none cannot be read" in refused(*command, "--token-file", "none")
    assert "--token and --token-file exclude each other" in refused(*command, "--token", "a", "--token-file", "token")


def test_a_file_comes_before_the_environment_and_should_be_secret(tmp_path, monkeypatch, capsys):
    token = tmp_path / "token"
    token.write_text("S3cret")
    token.chmod(0o640)
    monkeypatch.setenv("PACELINE_TOKEN", "other")
    assert options.read_token("other", token) == "S3cret"
    assert capsys.readouterr().err == ""
    token.chmod(0o644)
    assert options.read_token("other", token) == "S3cret"
    assert (
        capsys.readouterr().err == f"warning: all users of this machine can read {token}; chmod 600 keeps it secret\n"
    )


def test_a_service_begins_a_run_goes_on_with_it_and_knows_that_it_is_over(paceline_in, refused, monkeypatch, tmp_path):
    started = []

    def start(prepared, fleet, **settings):
        """Stop as the run begins, after it was announced."""
        fleet._announce("https://127.0.0.1:4711")
        started.append((prepared.folder.path, fleet._listen.token))
        prepared.folder.close()

    serve = ("serve", "job.toml", "--folder", "run", "--resume", "--host", "0.0.0.0", "--port", "4711", "--tls")
    with monkeypatch.context() as patch:
        patch.setattr("paceline.cli.show_run.start_and_show", start)
        for _ in range(2):
            code, _, err = paceline_in(*serve)
            assert code == 0, err
    (first, token), again = started
    assert first == Path("run")
    assert again == (first, token)  # made up once
    paceline_in("simulate", "job.toml", "fleet.toml", "--folder", "over")
    over = paceline_in("serve", "job.toml", "--folder", "over", "--resume")
    assert over == (0, "", "over: all 2 rounds are done; there is nothing to resume\n")
    assert "--resume goes on with the run in --folder: name that" in refused("serve", "job.toml", "--resume")
    both = refused("serve", "job.toml", "--folder", "run", "--resume", "--overwrite")
    assert "leave --overwrite out" in both
    (tmp_path / "run" / "job.json").unlink()
    assert "run is not a run folder" in refused("serve", "job.toml", "--folder", "run", "--resume")
