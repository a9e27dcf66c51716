"""Figures of a run, by the names of its tables, as Prometheus reads them: from events, and from a host that serves."""

from prometheus_client.parser import text_string_to_metric_families as parse

from paceline.axon.metrics import render
from paceline.report import metrics
from paceline.report.metrics import OTHERS, RunMetrics
from paceline.topologies.gossip.report import GossipReporting
from paceline.topologies.parallel.pool_report import PoolReporting
from paceline.topologies.parallel.report import RunReporting
from paceline.topologies.split.report import SplitReporting
from tests.report.synthetic import run_events
from tests.report.synthetic_gossip import gossip_events
from tests.report.synthetic_pool import pool_events
from tests.report.synthetic_split import split_events


def shown(run_metrics):
    """The values of all metrics, by name and labels."""
    families = list(parse(render(run_metrics()).decode()))
    assert len({family.name for family in families}) == len(families)
    samples = [sample for family in families for sample in family.samples]
    assert len({(one.name, tuple(one.labels.items())) for one in samples}) == len(samples)
    return {(one.name, *one.labels.values()): one.value for one in samples}


def fed(reporting, events):
    run_metrics = RunMetrics(reporting)
    for event in events:
        run_metrics.feed(event)
    return shown(run_metrics)


def test_a_run_shows_its_last_round_and_sums():
    events = list(run_events())
    values = fed(RunReporting(), events)
    summary = RunReporting().summary(events)
    rounds = summary.tables["rounds"]
    assert values["paceline_metrics_round",] == 10
    assert values["paceline_metrics_rows_total",] == 10
    assert values["paceline_metrics_loss",] == rounds.values("loss")[-1]
    assert values["paceline_metrics_accuracy",] == rounds.values("accuracy")[-1]
    assert values["paceline_metrics_late_total",] == summary.num_late
    assert values["paceline_metrics_samples_total",] == sum(rounds.values("num_samples"))
    assert values["paceline_metrics_up_bytes_total",] == sum(rounds.values("up_bytes"))
    assert values["paceline_events_total", "round_closed"] == 10
    assert values["paceline_run_info", "run"] == 1
    assert ("paceline_metrics_loss_total",) not in values


def test_peers_and_nodes_have_labels():
    values = fed(GossipReporting(), gossip_events())
    assert any(key[0] == "paceline_epochs_loss" and len(key) == 2 for key in values)
    values = fed(SplitReporting(), split_events())
    assert ("paceline_epochs_loss",) in values
    assert any(key[0] == "paceline_nodes_bytes_sent_total" and len(key) == 2 for key in values)


def test_jobs_of_a_pool_have_labels():
    own, jobs = pool_events()
    run_metrics = RunMetrics(PoolReporting())
    for event in own:
        run_metrics.feed(event)
    for name, events in jobs.items():
        run_metrics._begin(name, RunReporting())
        for event in events:
            run_metrics.feed(event, name)
    values = shown(run_metrics)
    assert {key[1] for key in values if key[0] == "paceline_metrics_loss"} == set(jobs)
    assert any(key[0] == "paceline_ledger_amount_total" and len(key) == 3 for key in values)


def test_those_beyond_a_limit_are_counted_together(monkeypatch):
    monkeypatch.setattr(metrics, "MAX_SERIES", 1)
    events = list(gossip_events())
    values = fed(GossipReporting(), events)
    samples = {key[1]: value for key, value in values.items() if key[0] == "paceline_epochs_num_samples_total"}
    assert list(samples)[1:] == [OTHERS]
    all_epochs = GossipReporting().summary(events).tables["epochs"]
    assert sum(samples.values()) == sum(all_epochs.values("num_samples"))
