"""``--log-format json``: one log, of one object per line, in which no token ever is."""

import json
import logging
import re

import pytest

from paceline import logs
from paceline.cli import show_run
from paceline.cli.listening import KeptListenOptions
from paceline.logs import hide, logging_as, say
from tests.cli.test_join import TOKEN

JSON = ("--log-format", "json")


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch):
    monkeypatch.setattr(logs, "_secrets", set())


def lines_of(text):
    lines = [json.loads(line) for line in text.splitlines()]
    assert all(set(line) == {"time", "level", "event", "logger", "message", "fields"} for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    return lines


def test_what_is_said_is_text_or_a_line_of_json(capsys):
    say("hello", "a\nb", show=print, fields={"n": 1})
    assert capsys.readouterr() == ("a\nb\n", "")
    with logging_as("json"):
        say("hello", "a\nb", show=print, fields={"n": 1})
        logging.getLogger("paceline.axon").warning("%d connections", 3)
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("elsewhere").exception("oh")
    out, err = capsys.readouterr()
    said, warned, failed = lines_of(err)
    assert out == ""
    assert (said["level"], said["event"], said["message"], said["fields"]) == ("info", "hello", "a\nb", {"n": 1})
    assert (warned["level"], warned["event"], warned["message"]) == ("warning", "log", "3 connections")
    assert (failed["logger"], failed["level"]) == ("elsewhere", "error")
    assert "ValueError: no" in failed["fields"]["traceback"]
    say("hello", "text again")
    assert capsys.readouterr().err == "text again\n"


def test_tokens_and_passwords_are_not_logged(capsys, tmp_path):
    kept = KeptListenOptions.of(None, {"host": "0.0.0.0"})
    kept.let_submit()
    tokens = [kept.token, kept.submit_token, kept.admin_token]
    hide("given")
    with logging_as("json"):
        url = "redis://:pass@10.0.0.9/1"
        fields = {"command": ["join", *tokens], "given": {"url": url}, "tables": ({"key": "x-given-y"},)}
        say("hello", f"token given, {' '.join(tokens)}, {url}", fields=fields)
        try:
            raise ValueError(f"the token given is {kept.token}")
        except ValueError:
            logging.getLogger("elsewhere").exception("oh")
    err = capsys.readouterr().err
    assert not any(secret in err for secret in (*tokens, "given", "pass@"))
    assert "redis://…@10.0.0.9/1" in lines_of(err)[0]["message"]


def test_a_run_is_logged_by_its_events_with_their_fields(paceline_in):
    code, out, err = paceline_in("simulate", *JSON, "job.toml", "fleet.toml", "--folder", "r")
    assert (code, out) == (0, "")
    lines = lines_of(err)
    by_event = {line["event"]: line for line in lines}
    assert [line["fields"]["round"] for line in lines if line["event"] == "round_closed"] == [1, 2]
    closed = by_event["round_closed"]
    assert closed["message"].startswith("round 2/2")
    assert {"at", "loss", "metrics", "num_updates", "truancy"} <= closed["fields"].keys()
    assert lines[-1]["event"] == "result"
    assert lines[-1]["fields"]["report"] == "r/report.html"
    code, out, err = paceline_in("simulate", "job.toml", "fleet.toml", "--folder", "s", "--json", "--log-format=json")
    assert json.loads(out)["run"] == "s"
    assert {line["event"] for line in lines_of(err)} >= {"round_closed"}


def test_jobs_of_a_pool_are_named(paceline_in):
    _, _, err = paceline_in("simulate", *JSON, "pool.toml", "fleet.toml", "--folder", "r")
    assert {line["fields"].get("job") for line in lines_of(err) if line["event"] == "round_closed"} == {
        "small",
        "large",
    }


def test_a_host_logs_where_it_listens_without_its_tokens(paceline_in, monkeypatch):
    def start(prepared, fleet, **_):
        fleet._announce("http://127.0.0.1:7223")
        prepared.folder.close()

    monkeypatch.setattr(show_run, "start_and_show", start)
    code, out, err = paceline_in("serve", "job.toml", *TOKEN, *JSON, "--folder", "r")
    (line,) = lines_of(err)
    assert (code, out, line["event"]) == (0, "", "listening")
    assert line["fields"] == {"url": "http://127.0.0.1:7223", "run": "r"}
    assert "S3cret" not in err


def test_errors_are_lines_of_json(paceline_in):
    code, out, err = paceline_in("simulate", "none.toml", "fleet.toml", *JSON)
    (line,) = lines_of(err)
    assert (code, out, line["level"], line["event"], line["fields"]) == (2, "", "error", "failed", {"exit_code": 2})
    assert "none.toml: cannot be read" in line["message"]


def test_services_are_told_by_the_environment(paceline_in, monkeypatch):
    monkeypatch.setenv("PACELINE_LOG_FORMAT", "json")
    assert lines_of(paceline_in("simulate", "none.toml", "fleet.toml")[2])
    assert paceline_in("simulate", "none.toml", "fleet.toml", "--log-format", "text")[2].startswith("paceline: ")


def test_other_formats_are_refused(refused):
    assert "--log-format is 'xml'; allowed: text, json" in refused("simulate", "--log-format", "xml")
    assert "--log-format is ''; allowed: text, json" in refused("simulate", "--log-format")


def test_a_device_logs_what_it_does(served, paceline_in):
    url, finished = served("job.toml")
    code, out, err = paceline_in("join", url, *TOKEN, "--name", "pi", *JSON)
    assert (code, out) == (0, "")
    events = [line["event"] for line in lines_of(err)]
    assert (events[0], events[-1]) == ("consent", "over")
    assert len(events) > 2
    assert "S3cret" not in err
    finished()
