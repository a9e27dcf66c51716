"""``paceline join``, ``gossip``, ``status`` and ``submit``: devices that take part, and one line for what is wrong."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from paceline import axon
from paceline.axon.transports import HttpTransport
from paceline.cli.tls import warn_of_clear_token
from paceline.learning import checkpoints
from paceline.report import RunFolder
from paceline.topologies.events import LearnerJoined
from tests.axon.certificates import Authority

NOBODY = "http://127.0.0.1:9"
TOKEN = ("--token", "S3cret")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--name", "a/b\x1b[2J"), "name is 'a/b"),
        (("--token", "a b\n"), "a token is made of"),
        (("--max-shards", "0"), "max_shards is 0; it must be at least 1"),
        (("--max-shards", "few"), "--max-shards"),
        (("--threads", "0"), "threads is 0; allowed: 1 to 1024"),
        (("--device", "cuda:77"), "device cuda:77 is not available on this machine; there are: cpu"),
        (("--price", "-1"), "price is -1.0; allowed: 0 to 1e+15"),
        (("--data", "3/2"), "--data is '3/2'; a part reads I/N"),
        (("--data", "0/0"), "--data is '0/0'"),
        (("--energy", "codecarbn"), "--energy is 'codecarbn'; did you mean 'codecarbon'? Allowed: model, codecarbon"),
        (("--energy", "busy_wats=4"), "--energy 'busy_wats=4': 'busy_wats' is unknown; did you mean 'busy_watts'?"),
        (("--energy", "idle_watts=nan"), "--energy 'idle_watts=nan': idle_watts is nan; it must be at least 0"),
        (("--emulate", "slowdown=0.5"), "--emulate 'slowdown=0.5': slowdown is 0.5; allowed: 1 to"),
        (("--emulate", "down_mbit=0"), "--emulate 'down_mbit=0': down_mbit is 0.0; it must be above 0"),
        (("--emulate", "slow=2"), "--emulate 'slow=2': 'slow' is unknown; did you mean 'slowdown'? Allowed: slowdown,"),
        (("--emulate", "slowdown=often"), "--emulate 'slowdown=often', 'slowdown=often': allowed: NAME=NUMBER, with"),
        (("--states", "idle"), "--states 'idle', 'idle': allowed: NAME=PROBABILITY, with commas between"),
        (("--states", "idle=2"), "--states 'idle=2', 'idle=2': probability is 2.0; allowed: 0 to 1"),
        (("--states", "idle=0.5"), "the probabilities of states ['idle'] add up to 0.5; they must add up to 1"),
        (("--states", "idle=0.5,trainig=0.5"), "state 'trainig' is unknown; did you mean 'training'? Allowed: idle,"),
        (("--listen", "7223"), "--listen is '7223'; it reads HOST:PORT, such as 10.0.0.2:7223"),
        (("--listen", "localhost:99999"), "--listen is 'localhost:99999'; it reads HOST:PORT"),
        (("--listen", "0.0.0.0:0"), "--listen is '0.0.0.0:0', all addresses of this machine; give"),
        (("--address", "10.0.0.2"), "--address: '10.0.0.2' is not a worker's address"),
        (("--address", "http://b\n:1"), "--address is 'http://b\\n:1'; an address is at most 300 ASCII characters"),
        (("--cert", "x.pem"), "--cert and --key belong together"),
        (("--behind-nat", "--address", "http://b:1"), "--address is 'http://b:1', and --behind-nat says that nobody"),
    ],
)  # fmt: skip
def test_bad_options_of_a_device_get_one_clear_line(refused, tmp_path, options, message):
    assert message in refused("join", NOBODY, *options)
    assert message in refused("gossip", "gossip.toml", *(() if "--data" in options else ("--data", "1/2")), *options)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gossip", "none.toml"), "none.toml: cannot be read"),
        (("gossip", "job.toml"), "devices of this job join a server; start it with paceline serve job.toml"),
        (("gossip", "gossip.toml"), "--data"),
        (("gossip", "gossip.toml", "--data", "1/100000"), "1438 samples of digits are too few for 100000 devices"),
        (("gossip", "gossip.toml", "--data", "x.npz"), "x.npz: no such file or folder"),
        (("gossip", "gossip.toml", "--data", "x.py:Data"), "data 'x.py:Data': x.py: no such file"),
        (("gossip", "gossip.toml", "--data", "1/2", "--peer", "http://[x"), "--peer: "),
        (("gossip", "gossip.toml", "--data", "1/2", "--peer", "http://b:1#sha256:ab"), "--peer: "),
        (("gossip", "gossip.toml", "--data", "1/2", "--store", "http://x"), "redis://"),
        (("join", "10.0.0.2"), "URL: '10.0.0.2' is not a worker's address"),
        (("status", "10.0.0.2"), "URL: '10.0.0.2' is not a worker's address"),
        (("submit", "none.toml", "--to", NOBODY), "none.toml: cannot be read: No such file or directory"),
        (("submit", "job.toml", "--to", "10.0.0.2"), "--to: '10.0.0.2' is not a worker's address"),
    ],
)
def test_bad_arguments_get_one_clear_line(refused, arguments, message):
    assert message in refused(*arguments)


@pytest.mark.parametrize(
    "arguments", [("status", NOBODY), ("submit", "job.toml", "--to", NOBODY), ("cancel", "job", "--to", NOBODY)]
)
def test_where_nobody_is_a_command_gives_up(refused, arguments):
    assert f"{NOBODY}: nobody listens there" in refused(*arguments, code=1)


def test_a_device_says_how_long_it_tries_to_join(paceline_in):
    code, _, err = paceline_in("join", NOBODY, "--patience", "0.1")
    first, last = err.splitlines()
    assert (code, last) == (1, f"paceline: {NOBODY}: nobody listens there (connection refused)")
    assert first == f"{NOBODY}: nobody listens there (connection refused); trying again for 0.1 s (--patience)"


@pytest.mark.parametrize(
    ("arguments", "noun"),
    [
        (("join",), "a host or peer of a run: it has no function 'describe'"),
        (("status",), "a host or peer of a run: it has no function 'describe'"),
        (("submit", "job.toml", "--to"), "an orchestrator: it has no function 'cancel'"),
    ],
)
def test_another_worker_is_no_host(refused, arguments, noun):
    worker = axon.Worker("other")
    worker.rpc(name="progress")(lambda: 7)
    with worker.serve(transport=HttpTransport(), port=0) as address:
        assert f"{address} is not {noun}; check host and port" in refused(*arguments, str(address))


def test_options_that_would_do_nothing_are_refused(paceline_in, refused, served, few_digits):
    url, run = served("job.toml")
    for options, message in [
        (
            ("--data", "digits.npz"),
            "the orchestrator of this job serves its data, so --data would do nothing: leave it",
        ),
        (("--data", "1/2"), "the orchestrator of this job serves its data, so --data would do nothing: leave it out"),
        (("--apply-view",), "--apply-view does nothing for a learner of a parallel job: leave it out"),
        (("--store", "redis://x"), "--store does nothing for a learner of a parallel job: leave it out"),
        (("--contention", "x.json"), "--contention does nothing for a learner of a parallel job: leave it out"),
        (("--behind-nat",), "--behind-nat does nothing for a learner of a parallel job: leave it out"),
        (("--no-relay",), "--no-relay does nothing for a learner of a parallel job: leave it out"),
        (("--tls",), "nobody calls a learner of a parallel job, so --listen, --address, --tls, --insecure and"),
        (("--listen", "127.0.0.1:7230"), "nobody calls a learner of a parallel job, so --listen, --address, --tls,"),
    ]:
        code, _, err = paceline_in("join", url, *TOKEN, *options)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
    assert paceline_in("join", url, *TOKEN, "--max-shards", "9", "--price", "1")[0] == 0
    run()
    for options in (("--max-shards", "3"), ("--price", "2"), ("--apply-view",)):
        message = f"{options[0]} does nothing for a peer of a gossip job: leave it out"
        assert message in refused("gossip", "gossip.toml", "--data", "1/2", *options)
    message = "--behind-nat: a peer behind NAT joins one that can be called; name that by --peer"
    assert message in refused("gossip", "gossip.toml", "--data", "1/2", "--behind-nat")
    for job, noun in (("job.toml", "a learner of a parallel job"), ("split.toml", "a source of a split job")):
        assert f"--store does nothing for {noun}" in refused("run", job, "--devices", "2", "--store", "redis://x")


def test_trouble_with_tls_and_tokens_is_named(paceline_in, refused, served):
    identity = axon.ServerIdentity.self_made()
    url, run = served("job.toml", identity=identity)
    plain = url.replace("https", "http")
    assert f"{plain} wants TLS: use the https:// address that" in refused("join", plain, *TOKEN, code=4)
    assert f"add its fingerprint to the address, {url}#sha256:…" in refused("join", url, *TOKEN, code=4)
    wrong = f"sha256:{64 * '0'}"
    assert f"another certificate than the pinned {wrong}" in refused("join", f"{url}#{wrong}", *TOKEN, code=4)
    pinned = f"{url}#{identity.fingerprint}"
    assert "a token is needed; pass the one" in refused("join", pinned, code=4)
    assert "the token is wrong; pass the one" in refused("join", pinned, "--token", "wrong", code=4)
    assert paceline_in("join", pinned, *TOKEN)[0] == 0
    run()


def test_hosts_may_demand_certificates(paceline_in, printed, refused, served, tmp_path):
    authority = Authority(tmp_path, "fleet-ca")
    identity = axon.ServerIdentity.self_made().demand_certificates(authority.file)
    url, run = served("job.toml", identity=identity)
    pinned, (cert, key) = f"{url}#{identity.fingerprint}", authority.issue("pi1")
    for command in (("join", pinned), ("status", pinned), ("submit", "small.toml", "--to", pinned)):
        message = f"{url} demands a certificate of its callers: give yours, with --cert and --key"
        assert message in refused(*command, *TOKEN, code=4)
        assert "--cert and --key belong together" in refused(*command, *TOKEN, "--cert", cert)
    own = ("--cert", cert, "--key", key)
    assert "a certificate was given, but http has none" in refused("status", url.replace("https", "http"), *TOKEN, *own)
    assert "status: waiting" in printed("status", pinned, *TOKEN, *own)
    submitting = refused("submit", "small.toml", "--to", pinned, *TOKEN, *own, code=4)
    assert "this token is for the role learner" in submitting
    assert "the run is over" in printed("join", pinned, *TOKEN, *own)
    run()


def test_a_token_in_clear_is_warned_of_once(capsys):
    for url in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://10.0.0.2:1"):
        warn_of_clear_token(url, "S3cret")
    warn_of_clear_token("http://10.0.0.2:1", None)
    assert capsys.readouterr().err == ""
    for _ in range(2):
        warn_of_clear_token("http://10.0.0.2:1", "S3cret")
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "warning: without TLS, everyone on the way to http://10.0.0.2:1 can read the token; serve with --tls"


def test_a_learner_joins_and_an_orchestrator_shows_its_progress(paceline_in, printed, refused, served):
    url, run = served("job.toml")
    assert "token" in refused("join", url, "--token", "wrong", code=4)
    assert "token" in refused("status", url, code=4)
    wrong_role = "this token is for the role learner, which is not allowed to submit jobs; use a token of the role"
    assert wrong_role in refused("submit", "small.toml", "--to", url, *TOKEN, code=4)
    assert wrong_role in refused("cancel", "it", "--to", url, *TOKEN, code=4)
    out = printed("status", url, *TOKEN, "--save", "model.safetensors")
    assert "status: waiting, closed: 0, rounds: 2, learners: 0" in out
    assert "model  model.safetensors" in out
    assert checkpoints.read(paceline_in.folder / "model.safetensors").keys()

    options = ("--private", "--max-shards", "40", "--energy", "busy_watts=4", "--emulate", "slowdown=2")
    code, out, err = paceline_in("join", url, *TOKEN, *options)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"To {url}, this device will send"
    about = r"- its name, device-[0-9a-f]{6}, its public key, ed25519:[\w-]{12}…, and the version of Paceline"
    assert re.fullmatch(about, lines[1])
    assert lines[2:6] == [
        "- its price for a shard: 0",
        "- how many shards it takes, and when",
        "- trained parameters, the number of samples they were trained on, or that training diverged",
        "joined; measuring this device …",
    ]
    assert any(line.startswith("round 2: ") for line in lines)
    assert lines[-1] == "the run is over: rounds done"
    assert run().accuracy > 0.1
    events = RunFolder.open(paceline_in.folder / "run").events()
    (joined,) = {event.learner for event in events if isinstance(event, LearnerJoined)}
    assert joined.startswith("device-")  # it was given no name


def test_a_private_device_joins_no_job_that_wants_to_know_what_it_can_do(paceline_in, printed, refused, served, change):
    change("job.toml", "rounds = 2\ndeadline_seconds = 4", "rounds = 1\ndeadline_seconds = 1\novertime = 60")
    change("job.toml", '"dab"', '"csa"')
    url, run = served("job.toml")
    err = refused("join", url, *TOKEN, "--private", "--name", "shy")
    assert f"{url}: this device is private, and would have to send its profile, measured when it joins: training" in err
    assert err.endswith("latency; nothing was sent. Without --private, this device would join")
    out = printed("join", url, *TOKEN, "--name", "open", "--max-shards", "20")
    assert "- the most shards that it takes in a round: 20\n- its profile, measured when it joins" in out
    run()
    events = RunFolder.open(paceline_in.folder / "run").events()
    assert {event.learner for event in events if isinstance(event, LearnerJoined)} == {"open"}


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_private_device_is_no_peer(refused, options):
    err = refused("gossip", "gossip.toml", "--data", "1/2", "--private", *options)
    assert "other peers: this device is private, and would have to send its speed, in samples per second" in err


def test_jobs_are_submitted_to_a_pool_and_cancelled(printed, refused, served, change):
    change("pool.toml", "min_learners = 2", "min_learners = 1")
    change("pool.toml", '"small.toml", ', "")
    url, run = served("pool.toml", submit_token="S3cret-too")
    submitting = ("--token", "S3cret-too")
    err = refused("submit", "large.toml", "--to", url, *submitting)
    assert "the pool refused it: there is a job 'large' in this pool already" in err
    assert printed("submit", "small.toml", "--to", url, *submitting) == "small is in the pool: 2 rounds to train\n"
    jobs = json.loads(printed("status", url, *TOKEN, "--json"))["jobs"]
    assert [(job["job"], job["status"]) for job in jobs] == [("large", "waiting"), ("small", "waiting")]
    assert printed("cancel", "small", "--to", url, *submitting) == "small is cancelled, after 0 rounds\n"
    assert "small is not cancelled: job 'small' is over already: cancel" in refused(
        "cancel", "small", "--to", url, *submitting
    )
    assert "moon is not cancelled: there is no job 'moon' in" in refused("cancel", "moon", "--to", url, *submitting)
    printed("join", url, *TOKEN, "--name", "pi", "--price", "1")
    ended = run().jobs
    assert (ended["small"].metrics["rounds"], ended["large"].metrics["rounds"]) == (0, 2)


def test_a_source_joins_with_its_own_data(paceline_in, printed, served, few_digits, change):
    few_digits("fewer.npz", 150)
    change("split.toml", "sources = 2", "sources = 1")
    url, run = served("split.toml")
    join = ("join", url, *TOKEN, "--name", "cam", "--json")
    for options, message in (
        ((), "the trunk's data is a file of its own; say where this source's view of it is, with --data"),
        (("--data", "fewer.npz"), "fewer.npz: x_train has 150 samples of shape (1, 8, 8); the trunk has 200 of"),
        (("--data", "digits.npz", "--name", "trunk"), "'trunk' cannot be a source's name; it is the trunk's"),
    ):
        code, _, err = paceline_in(*join, *options)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
    events = [json.loads(line) for line in printed(*join, "--data", "digits.npz").splitlines()]
    assert [event["epoch"] for event in events if event["event"] == "node_spent"] == [1, 2, 0]
    assert {event["learner"] for event in events} == {"cam"}
    ended = run()
    assert ended.metrics["accuracy"] > 0.3
    assert ended.state.keys() == checkpoints.read(paceline_in.folder / "run/checkpoints/final.safetensors").keys()


def test_a_peer_alone_trains_and_keeps_its_run(paceline_in):
    code, out, err = paceline_in(
        *("gossip", "gossip.toml", "--data", "1/1", "--name", "lonely"),
        *("--folder", "run", "--save", "model.safetensors", "--json"),
    )
    assert code == 0, err
    result = json.loads(out)
    assert result["averaged"] == ["lonely"]
    assert result["accuracy"] > 0.3
    assert "On another device, run\n  paceline join http://127.0.0.1:" in err
    assert (paceline_in.folder / "run/report.html").exists()
    assert checkpoints.read(paceline_in.folder / "model.safetensors").keys()


def test_events_of_a_peer_come_as_lines_of_json(printed):
    energy = ("--energy", "busy_watts=4,idle_watts=1")
    out = printed("gossip", "gossip.toml", "--data", "1/4", "--json", *energy)
    events = [json.loads(line) for line in out.splitlines()]
    names = [event["event"] for event in events]
    assert names.count("epoch_ended") == 2
    assert (names[0], names[-1]) == ("peer_listening", "peer_ended")
    (started,) = [event for event in events if event["event"] == "peer_started"]
    assert started["power"] == {"source": "model", "busy_watts": 4.0, "idle_watts": 1.0, "joules_per_byte": 0.0}
    for event in events:
        if event["event"] == "epoch_ended":
            assert event["joules"] >= 4 * event["cpu_seconds"] + event["seconds"]


def test_a_peer_is_joined_by_its_address_alone(paceline_in, printed, refused, change):
    change("gossip.toml", "min_peers = 1", "min_peers = 2")
    command = [sys.executable, "-m", "paceline", "gossip", "gossip.toml", "--data", "1/2", "--name", "first", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=paceline_in.folder, text=True) as first:
        url = json.loads(first.stdout.readline())["address"]
        out = printed("status", url, "--json", "--save", "model.safetensors")
        status = json.loads(out)
        assert (status["topology"], status["saved"]) == ("gossip", "model.safetensors")
        assert "first" in out
        assert "--data" in refused("join", url)
        out = printed("join", url, "--data", "2/2", "--name", "second")
        assert out.splitlines()[-1] == "the run is over: epochs done"
        assert "- its speed, in samples per second, and how many samples it has, after each epoch\n" in out
        assert "- which parts of the job's data it holds\n" in out
        first.communicate(timeout=60)
        assert first.returncode == 0


def test_a_browser_that_opens_a_peer_gets_the_page_of_its_run(paceline_in, change):
    change("gossip.toml", "min_peers = 1", "min_peers = 2")
    command = [sys.executable, "-m", "paceline", "gossip", "gossip.toml", "--data", "1/2", *TOKEN, "--folder", "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=paceline_in.folder, text=True) as peer:
        found = (re.search(r"browser, open (\S+), which asks for the token", line) for line in peer.stdout)
        url = next(filter(None, found))[1]

        def get(path, **headers):
            return urllib.request.urlopen(urllib.request.Request(url + path, headers=headers), timeout=60)

        known = {"authorization": f"Bearer {TOKEN[1]}"}
        with pytest.raises(urllib.error.HTTPError, match="401") as asked:
            get("/", accept="text/html")
        with asked.value as refusal:
            assert b"login" in refusal.read()
        with get("/", accept="text/html", **known) as page:
            assert b"page/events" in page.read()
        with get("/page/events", **known) as stream:
            assert b"".join(stream.readline() for _ in range(2)).endswith(b"event: page\n")
        with get("/", **known) as listed:
            assert "rpcs" in json.load(listed)
        peer.terminate()
        peer.communicate(timeout=60)
    assert peer.returncode == 143


OWN_MODEL = """
import os
from torch import nn

open(f"imported-by-{os.getpid()}", "w").close()

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
"""


def test_a_peer_imports_nothing_that_its_owner_does_not_allow(paceline_in, refused):
    own = paceline_in.folder / "own.py"
    own.write_text(OWN_MODEL)
    (paceline_in.folder / "own.toml").write_text("[gossip]\nmin_peers = 2\n[model]\nimport = 'own.py:Net'\n")
    command = [sys.executable, "-m", "paceline", "gossip", "own.toml", "--data", "1/2", "--json", "--allow", f"{own}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=paceline_in.folder, text=True) as first:
        url = json.loads(first.stdout.readline())["address"]
        message = f"import '{own}:Net' is not allowed on this device; to allow it, pass --allow {own}:Net"
        assert message in refused("join", url, "--data", "2/2")
        first.kill()
    imported = {path.name for path in paceline_in.folder.glob("imported-by-*")}
    assert imported == {f"imported-by-{first.pid}"}
