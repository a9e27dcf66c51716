"""``paceline install-service``: units that systemd accepts, without secrets, that give up when they should."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cli.main import EXIT_BAD_INPUT, EXIT_REFUSED, EXIT_TERMINATED
from paceline.cli.units import HEADER, Service
from paceline.errors import ConfigError

HUB = "https://10.0.0.2:7223#sha256:6fa9"
TOKEN = ("--token-file", "/etc/paceline/token")
JOIN = ("join", HUB, "--name", "pi4", *TOKEN)
SINCE_254 = "Unknown key 'Restart(Steps|MaxDelaySec)' in section"


@pytest.fixture
def install(paceline_in, monkeypatch):
    """Run the command with an interpreter that every account can run; returns code, output and errors."""
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    monkeypatch.setattr(sys, "prefix", "/usr")
    return lambda *arguments: paceline_in("install-service", *arguments)


@pytest.fixture
def unit(install):
    """The text of a unit, and its settings by section; of those that occur several times, the values in a list."""

    def unit(*arguments):
        code, out, err = install(*arguments)
        assert (code, err) == (0, "")
        settings = {"Unit": {}, "Service": {}, "Install": {}}
        for line in out.splitlines():
            if line.startswith("["):
                section = settings[line.strip("[]")]
            elif line and not line.startswith("#"):
                key, _, value = line.partition("=")
                section.setdefault(key, []).append(value)
        return out, settings

    return unit


@pytest.fixture
def analyze(tmp_path):
    """Have systemd look at a unit; returns what it says."""
    if shutil.which("systemd-analyze") is None:
        reason = "no systemd on this machine: units are not verified"
        if os.environ.get("PACELINE_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)

    def analyze(text, *arguments):
        path = tmp_path / "paceline-it.service"
        path.write_text(text)
        done = subprocess.run(["systemd-analyze", *arguments, path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return analyze


@pytest.mark.parametrize(
    "arguments",
    [
        JOIN,
        ("--memory", "1.5G", "--cpus", "1.5", "--always", "--unit", "pi", *JOIN, "--device", "cuda"),
        (
            "--run-as",
            "pi",
            "join",
            HUB,
            "--name",
            "a b",
            "--data",
            "/srv/b 'c' \"d\" 100% $HOME \\",
            "--ca-file=/etc/ca.pem",
        ),
        ("--user", *JOIN, "--private"),
        ("gossip", "/etc/paceline/job.toml", "--name", "p1", "--listen", "10.0.0.3:7223", *TOKEN),
        ("serve", "/etc/paceline/job.toml", "--host", "0.0.0.0", "--tls", *TOKEN),
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_systemd_has_nothing_to_say_against_a_unit(unit, analyze, arguments):
    text, _ = unit(*arguments)
    said = analyze(text, "verify").splitlines()
    assert [line for line in said if not re.search(SINCE_254, line)] == []


def test_a_service_is_confined(unit, analyze):
    text, settings = unit(*JOIN)
    level = float(re.search(r"exposure level .*: ([\d.]+) ", analyze(text, "security", "--offline=yes"))[1])
    assert level <= 2.0
    assert settings["Service"]["DynamicUser"] == ["yes"]
    assert settings["Service"]["StateDirectory"] == ["paceline-join"]
    assert "PACELINE_DEVICE_KEY=%S/paceline-join/device-key.pem" in settings["Service"]["Environment"]


def test_only_failures_that_may_pass_start_it_again(unit):
    _, settings = unit(*JOIN)
    service = settings["Service"]
    final = {EXIT_BAD_INPUT, EXIT_REFUSED}
    assert {int(code) for code in service["RestartPreventExitStatus"][0].split()} == final
    assert (service["Restart"], service["SuccessExitStatus"]) == (["on-failure"], [str(EXIT_TERMINATED)])
    assert settings["Unit"]["StartLimitIntervalSec"] == ["0"]  # a host may be away for days
    assert unit("--always", *JOIN)[1]["Service"]["Restart"] == ["always"]


def test_secrets_are_read_from_files_that_systemd_opens(unit):
    _, settings = unit(*JOIN, "--cert", "/etc/paceline/pi4.pem", "--key=/etc/paceline/pi4-key.pem")
    (command,) = settings["Service"]["ExecStart"]
    assert command == (
        f"/bin/sh -m paceline join {HUB} --name pi4 --token-file ${{CREDENTIALS_DIRECTORY}}/token_file "
        "--cert ${CREDENTIALS_DIRECTORY}/cert --key=${CREDENTIALS_DIRECTORY}/key"
    )
    assert settings["Service"]["LoadCredential"] == [
        "token_file:/etc/paceline/token",
        "cert:/etc/paceline/pi4.pem",
        "key:/etc/paceline/pi4-key.pem",
    ]
    own, settings = unit("--user", *JOIN)
    assert "CREDENTIALS" not in own
    assert "--token-file /etc/paceline/token" in settings["Service"]["ExecStart"][0]


def test_arguments_reach_the_command_as_they_were_given():
    odd = ["/opt/a b/python", "100%", "$$HOME", 'say "hi" \\', "${CREDENTIALS_DIRECTORY}/token"]
    text = Service(name="odd", description="50 %", arguments=odd).unit()
    (line,) = re.findall("^ExecStart=(.*)$", text, re.M)
    assert [word.replace("%%", "%") for word in shlex.split(line)] == odd
    assert "Description=50 %%\n" in text
    for settings in (
        {"arguments": ["/bin/sh", "a\nUser=root"]},
        {"arguments": ["/bin/sh"], "credentials": {"token": "/etc/token\\"}},
    ):
        with pytest.raises(ConfigError, match="cannot stand in a unit"):
            Service(name="odd", description="", **settings).unit()


def test_bounds_reach_systemd_and_the_command(unit):
    _, settings = unit("--memory", "1.5G", "--cpus", "1.5", *JOIN)
    service = settings["Service"]
    assert (service["MemoryMax"], service["CPUQuota"], service["Nice"]) == (["1536M"], ["150%"], ["10"])
    assert service["ExecStart"][0].endswith(" --max-memory 1.5G")
    assert "PrivateDevices" in service
    assert "PrivateDevices" not in unit(*JOIN, "--device", "cuda")[1]["Service"]


def test_a_host_goes_on_with_its_run_and_a_peer_with_its_state(unit):
    _, settings = unit("serve", "/etc/paceline/job.toml")
    assert settings["Service"]["ExecStart"][0].endswith("serve /etc/paceline/job.toml --folder run --resume")
    assert "Nice" not in settings["Service"]
    _, settings = unit("serve", "/etc/paceline/job.toml", "--folder", "/srv/run", "--resume")
    assert settings["Service"]["ExecStart"][0].endswith("--folder /srv/run --resume")
    _, settings = unit("gossip", "/etc/paceline/job.toml", "--name", "p1")
    assert settings["Service"]["ExecStart"][0].endswith("--name p1 --state peer-state")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'COMMAND'"),
        (("status", HUB), "COMMAND is 'status'; allowed: join, gossip, serve"),
        (("join", HUB, "--nam", "pi4"), "No such option: --nam"),
        (("join", "--name", "pi4"), "Missing argument 'URL'"),
        (("join", HUB, "--name", "pi4", "--token", "S3cret"), "--token would stand in the unit"),
        (("join", HUB), "a service needs --name"),
        (("join", HUB, "--name", "a/b"), "name is 'a/b'; allowed: 1 to 64 letters"),
        (("serve", "job.toml"), "JOB is 'job.toml'; a service starts in a folder of its own, so its path must be"),
        (("serve", "/etc/job.toml", "--token-file", "t"), "--token-file is 't'; a service starts in"),
        (("serve", "/etc/job.toml", "--folder", "r", "--overwrite"), "--overwrite would delete the run at each start"),
        (("serve", "/home/ann/job.toml"), "/home/ann/job.toml is in a home, which the account made for the service"),
        (("gossip", "/etc/job.toml", "--name", "p", "--folder", "r"), "--folder of a peer is refused from the second"),
        (("--unit", "a/b", *JOIN), "--unit is 'a/b'; allowed: "),
        (("--user", "--run-as", "ann", *JOIN), "--user and --run-as exclude each other"),
        (("--run-as", "ann\nUser=root", *JOIN), "--run-as is 'ann"),
        (("--memory", "1", *JOIN), "--memory is '1'; allowed: at least 512M"),
    ],
)
def test_what_cannot_be_a_service_gets_one_clear_line(install, arguments, message):
    code, out, err = install(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_an_interpreter_in_a_home_is_refused_unless_its_owner_runs_it(install, unit, monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/home/ann/venv")
    assert "/home/ann/venv is in a home" in install(*JOIN)[2]
    _, settings = unit("--run-as", "ann", *JOIN)
    assert (settings["Service"]["User"], settings["Service"]["ProtectHome"]) == (["ann"], ["read-only"])


def test_the_documentation_shows_the_unit_that_is_printed(unit, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/paceline/bin/python")
    page = (Path(__file__).parents[2] / "docs/how-to/deploy.md").read_text()
    (command,) = re.findall(r"^\$ paceline install-service (.*)$", page, re.M)
    (shown,) = re.findall(r'```ini title="paceline-join.service"\n(.*?)```', page, re.S)
    assert unit(*shlex.split(command))[0] == shown


def test_writing_a_unit(install, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path, token = tmp_path / "config/systemd/user/paceline-join.service", tmp_path / "token"
    write = ("--write", "--user", "join", HUB, "--name", "pi4", "--token-file", token)
    assert f"--token-file {token} cannot be read" in install(*write)[2]
    assert not path.exists()
    token.touch(mode=0o600)
    token.write_text("S3cret\n")
    for _ in range(2):
        code, out, _ = install(*write)
        assert (code, out.splitlines()[0]) == (0, str(path))
        assert "systemctl --user daemon-reload && systemctl --user enable --now paceline-join" in out
    assert path.read_text().startswith(HEADER)
    assert path.stat().st_mode & 0o777 == 0o644
    path.write_text("[Unit]\n")
    assert "is there, and paceline did not make it: name the service otherwise (--unit)" in install(*write)[2]
    (tmp_path / "file").touch()
    monkeypatch.setattr("paceline.cli.install_service._SYSTEM_UNITS", tmp_path / "file" / "system")
    assert "cannot be written: Not a directory; write as root, or" in install("--write", *write[2:])[2]
