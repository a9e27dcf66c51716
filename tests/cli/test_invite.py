"""``paceline invite`` and ``paceline devices``: who is let in, and who is not any more."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from paceline.axon.client.remote import parse_address
from paceline.cli.listening import KeptListenOptions

ADMIN = ("--token", "b0ss")
TOKEN = ("--token", "S3cret")


@pytest.fixture
def kept(served, tmp_path):
    """Serve a job in a thread, as paceline serve does with a token of its own; returns its address and what waits."""

    def serve(file, **options):
        settings = {"token": "S3cret", "admin_token": "b0ss", **options}
        url, run = served(file, **{name: value for name, value in settings.items() if name != "token"})
        KeptListenOptions(**settings).keep(tmp_path / "run", parse_address(url).port)
        return url, run

    return serve


def audited(folder):
    return [json.loads(line) for line in (folder / "run/audit.jsonl").read_text().splitlines()]


def test_an_invited_device_joins_by_the_line_that_is_printed(printed, refused, kept, tmp_path):
    url, run = kept("job.toml")
    out = printed("invite", "run", "--name", "pi4")
    token = re.fullmatch(
        r"pi4 may join, until \d{4}-\d\d-\d\d \d\d:\d\d UTC:\n"
        rf"  paceline join {url} --name pi4 --token (\S+)\n",
        out,
    )[1]
    err = refused("join", url, "--name", "other", "--token", token, "--json")
    assert f"{url} refused 'other': the invitation is for 'pi4' (--name)" in err
    assert "the run is over: rounds done" in printed(*shlex.split(out.splitlines()[1])[1:])
    run()
    joined = [line for line in audited(tmp_path) if line["what"] == "join"]
    assert [(line["name"], line["by"], line["address"]) for line in joined] == [("pi4", "pi4", "127.0.0.1")]
    assert token not in (tmp_path / "run/audit.jsonl").read_text() + (tmp_path / "run/devices.json").read_text()


def test_each_role_gets_a_line_that_works(printed, refused, kept, tmp_path):
    (tmp_path / "pool.toml").write_text((tmp_path / "pool.toml").read_text().replace('"small.toml", ', ""))
    (tmp_path / "admin.token").write_text("b0ss\n")
    (tmp_path / "pool.toml").write_text((tmp_path / "pool.toml").read_text().replace("= 2\n", "= 1\n"))
    url, run = kept("pool.toml")
    admin = ("--token-file", "admin.token", "--json")

    def invited(*options):
        return json.loads(printed("invite", url, *options, *admin))

    submitter, viewer, boss = (invited("--role", role, "--name", "ann") for role in ("submitter", "viewer", "admin"))
    one = invited("--role", "submitter", "--uses", "1", "--expires", "7d")
    assert (one["uses"], submitter["uses"]) == (1, None)
    assert one["expires_at"] - submitter["expires_at"] == pytest.approx(6 * 86400, abs=60)
    submit = shlex.split(one["command"].replace("JOB", "small.toml"))[1:]
    assert printed(*submit) == "small is in the pool: 2 rounds to train\n"
    err = refused(*submit, code=4)
    assert f"{url}: the invitation for {one['name']!r} is used up, 1 of 1; ask for another" in err
    assert "status: waiting" in printed(*shlex.split(viewer["command"])[1:])
    err = refused("submit", "small.toml", "--to", url, "--token", viewer["token"], code=4)
    assert "this token is for the role viewer, which is not allowed to submit jobs; use a token of the role" in err
    err = refused("join", url, "--token", viewer["token"], "--json", code=4)
    assert "this token is for the role viewer, which is not allowed to take part" in err
    err = refused("devices", url, *TOKEN, code=4)
    assert "this token is for the role learner, which is not allowed to invite or revoke" in err
    listed = printed(*shlex.split(boss["command"])[1:]).splitlines()
    assert listed[0].split()[:4] == ["name", "role", "state", "key"]
    assert [line.split()[:3] for line in listed[1:]] == [
        *(["ann", role, "open"] for role in ("submitter", "viewer", "admin")),
        [one["name"], "submitter", "over"],
    ]
    printed("join", url, *TOKEN, "--name", "pi", "--price", "1")
    run()
    lines = [(line["what"], line["name"]) for line in audited(tmp_path) if "name" in line]
    assert ("submission", "small") in lines
    assert lines.count(("invitation", "ann")) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--role", "boss"), "--role is 'boss'; "),
        (("run", "--name", "a/b"), "name is 'a/b'; allowed: 1 to 64 letters"),
        (("run", "--expires", "tomorrow"), "--expires is 'tomorrow'; allowed: a number and s, m, h or d, such as 24h"),
        (("run", "--expires", "9999d"), "--expires is '9999d'; allowed:"),
        (("run", "--uses", "0"), "--uses"),
        (("run",), "run is no address, such as https://10.0.0.2:7223#sha256:…, and no run that is served"),
        (("http://host/path",), "TARGET: "),
        (("http://127.0.0.1:1", "--token-file", "none"), "--token-file none cannot be read: "),
    ],
)
def test_bad_input_gets_one_clear_line(refused, arguments, message):
    assert message in refused("invite", *arguments)


def test_what_admins_get_wrong_gets_one_clear_line(printed, refused, kept):
    url, run = kept("job.toml")
    err = refused("invite", "run", "--role", "viewer", "--uses", "2")
    assert err == "paceline: run: uses are for devices that join and jobs that are submitted, not for the role viewer"
    assert "run: no device and no invitation here is called 'pi'" in refused("devices", "run", "--revoke", "pi")
    assert "run: no device here is called 'pi'" in refused("devices", "run", "--release", "pi")
    assert "--revoke and --release exclude each other" in refused("devices", "run", "--revoke", "a", "--release", "b")
    assert "the token is wrong" in refused("devices", url, "--token", "guess", code=4)
    printed("join", url, *TOKEN)
    run()


@pytest.fixture
def start(paceline_in):
    """Start a command in a process of its own; killed at the end of the test."""
    processes = []

    def start(*arguments, **pipes):
        command = [sys.executable, "-m", "paceline", *map(str, arguments)]
        processes.append(subprocess.Popen(command, cwd=paceline_in.folder, text=True, env={**os.environ}, **pipes))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_name_cannot_be_stolen_and_a_device_can_be_revoked(start, printed, refused, change, tmp_path):
    change("job.toml", "rounds = 2", "rounds = 2\nmin_learners = 2")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options = ("--host", "0.0.0.0", "--port", "0", "--tls", "--folder", "run")
    serving = start("serve", "job.toml", *options, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert serving.stdout.readline() == "On each device, run\n"
    pasted = shlex.split(serving.stdout.readline())  # one line, with all that a device needs
    assert pasted[:2] == ["paceline", "join"]
    pasted[2] = re.sub("//[^:]+:", "//127.0.0.1:", pasted[2])
    device = start(*pasted[1:], "--name", "d1", **pipes)
    while "measuring" not in (line := device.stdout.readline()):
        assert line, device.stderr.read()

    err = refused(*pasted[1:], "--name", "d1", "--device-key", "thief.pem", "--json")
    assert re.search(
        r"refused 'd1': this name belongs to another device, with the key ed25519:[\w-]{12}, not ed25519:[\w-]{12}: "
        r"join under another one \(--name\), or with the key of that device \(--device-key\)$",
        err,
    )
    assert (tmp_path / "thief.pem").stat().st_mode & 0o777 == 0o600
    assert device.poll() is None
    (listed,) = json.loads(printed("devices", "run", "--json"))
    assert (listed["name"], listed["state"], listed["role"]) == ("d1", "here", "learner")

    printed("devices", "run", "--revoke", "d1")
    _, err = device.communicate(timeout=60)
    assert device.returncode == 4
    assert re.fullmatch(r"paceline: https://\S+ refused 'd1': the device with the key \S+ was revoked\n", err)
    (revocation,) = (line for line in audited(tmp_path) if line["what"] == "revocation")
    assert (revocation["name"], revocation["by"]) == ("d1", "token of the role admin")
    assert {line["what"] for line in audited(tmp_path)} == {"join", "refusal", "revocation"}
