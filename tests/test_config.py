"""Job and fleet files: what they mean, and one line for everything that can be wrong with them."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import config
from paceline.allocation import AdaptiveDabAllocation, DabAllocation, EqualAllocation
from paceline.devices.cell import Cell
from paceline.devices.energy import PowerModel
from paceline.errors import ConfigError
from paceline.fleets.devices import in_cell
from paceline.fleets.modelled import VirtualDevice
from paceline.learning.averaging import AggregationSpec
from paceline.learning.datasets import DATASETS, DataSpec
from paceline.learning.models import MODELS, ModelSpec
from paceline.learning.tasks import OptimizerSpec
from paceline.topologies.parallel import Job

JOB = "[job]\ndeadline_seconds = 3\n"
DEVICE = '[[device]]\nname = "pi"\nsamples_per_second = 100\n'


@pytest.fixture
def job(tmp_path):
    """Load a job file of this text."""

    def load(text):
        path = tmp_path / "job.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return config.load_job(path)

    return load


@pytest.fixture
def fleet(tmp_path):
    """Load a fleet file of this text."""

    def load(text):
        path = tmp_path / "fleet.toml"
        path.write_text(text)
        return config.load_fleet(path)

    return load


def refusal(load, text):
    """What is said of a file, without the folder; one line."""
    with pytest.raises(ConfigError) as caught:
        load(text)
    told = str(caught.value)
    assert "\n" not in told
    assert len(told) < 700
    path, _, rest = told.partition(".toml: ")
    assert path.endswith(("/job", "/fleet"))
    return rest


def test_a_deadline_is_all_that_a_job_needs(job):
    assert job(JOB) == Job(deadline_seconds=3)


def test_every_table_is_understood(job, tmp_path):
    assert job(
        """
        [job]
        deadline_seconds = 2.5
        rounds = 4
        local_epochs = 3
        batch_size = 16
        seed = 7
        min_learners = 2
        benchmark_shards = 5
        target_accuracy = 0.9
        name = "own"
        [model]
        import = "nets/own.py:Net"
        loss = "cross-entropy-of-softmax"
        [optimizer]
        name = "Adam"
        lr = 0.01
        betas = [0.8, 0.9]
        amsgrad = true
        [data]
        path = "../data/own.npz"
        shard_size = 50
        placement = "local"
        [allocation]
        policy = "adaptive-dab"
        window = 3
        [aggregation]
        method = "fedprox"
        mu = 0.1
        """
    ) == Job(
        deadline_seconds=2.5,
        rounds=4,
        local_epochs=3,
        batch_size=16,
        seed=7,
        min_learners=2,
        benchmark_shards=5,
        target_accuracy=0.9,
        name="own",
        model=ModelSpec(import_path=f"{tmp_path}/nets/own.py:Net", loss="cross-entropy-of-softmax"),
        optimizer=OptimizerSpec(name="Adam", options={"lr": 0.01, "betas": [0.8, 0.9], "amsgrad": True}),
        data=DataSpec(path=f"{tmp_path.parent}/data/own.npz", shard_size=50, placement="local"),
        allocation=AdaptiveDabAllocation(window=3),
        aggregation=AggregationSpec(method="fedprox", mu=0.1),
    )


@pytest.mark.parametrize(
    ("table", "attribute", "expected"),
    [
        ('[model]\nimport = "package.nets:Net"', "model", ModelSpec(import_path="package.nets:Net")),
        ('[model]\nimport = "/abs/nets.py:Net"', "model", ModelSpec(import_path="/abs/nets.py:Net")),
        ('[data]\npath = "/abs/own.npz"', "data", DataSpec(path="/abs/own.npz")),
        ('[optimizer]\nname = "RMSprop"', "optimizer", OptimizerSpec(name="RMSprop", options={})),
        ("[optimizer]\nlr = 1", "optimizer", OptimizerSpec(options={"lr": 1})),
        ('[allocation]\npolicy = "dab"', "allocation", DabAllocation()),
        ('[allocation]\npolicy = "eta"', "allocation", EqualAllocation()),
    ],
)
def test_some_tables(job, table, attribute, expected):
    assert getattr(job(JOB + table), attribute) == expected


@pytest.mark.parametrize(
    ("path", "expected"), [("a:b/nets.py:Net", "{base}/a:b/nets.py:Net"), ("x/../nets.py:Net", "{base}/nets.py:Net")]
)
def test_files_are_looked_for_beside_the_job(job, tmp_path, path, expected):
    assert job(f'{JOB}[model]\nimport = "{path}"').model.import_path == expected.format(base=tmp_path)


def test_paths_in_the_record_of_a_run_are_left_as_they_are():
    tables = {"job": {"deadline_seconds": 1}, "data": {"path": "own.npz"}, "model": {"import": "nets.py:Net"}}
    parsed = config.parse_job(tables, "record")
    assert (parsed.data.path, parsed.model.import_path) == ("own.npz", "nets.py:Net")


RULES = (
    "deadline_seconds, name, overtime, rounds, local_epochs, batch_size, seed, min_learners, benchmark_shards, "
    "audit_rate, target_accuracy"
)
TABLES = "job, model, optimizer, data, allocation, aggregation"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "[job]: deadline_seconds is missing; it is how long a round may take"),
        ("[job]\nrounds = 3", "[job]: deadline_seconds is missing; it is how long a round may take"),
        ("[jobs]\n", f"unknown table 'jobs'; did you mean 'job'? Allowed: {TABLES}"),
        (JOB + "[zzz]\n", f"unknown table 'zzz'; allowed: {TABLES}"),
        ("deadline_seconds = 3", f"unknown table 'deadline_seconds'; allowed: {TABLES}"),
        ('"a\\nb" = 3', f"unknown table 'a\\nb'; allowed: {TABLES}"),
        ("job = 3", "job is 3; it must be a table, [job]"),
        ("[[job]]\ndeadline_seconds = 3", "job is [{'deadline_seconds': 3}]; it must be a table, [job]"),
        ("model = 'two-nn'\n" + JOB, "model is 'two-nn'; it must be a table, [model]"),
        ("optimizer = 'SGD'\n" + JOB, "optimizer is 'SGD'; it must be a table, [optimizer]"),
        ("allocation = []\n" + JOB, "allocation is []; it must be a table, [allocation]"),
        (JOB + "round = 3", f"[job]: unknown key 'round'; did you mean 'rounds'? Allowed: {RULES}"),
        (JOB + "zzz = 3", f"[job]: unknown key 'zzz'; allowed: {RULES}"),
        (JOB + "model = 'two-nn'", f"[job]: unknown key 'model'; allowed: {RULES}"),
        (JOB + "rounds = '3'", "[job] rounds = '3': Expected `int`, got `str`"),
        (JOB + "rounds = 3.5", "[job] rounds = 3.5: Expected `int`, got `float`"),
        (JOB + "rounds = true", "[job] rounds = True: Expected `int`, got `bool`"),
        (JOB + "rounds = [3]", "[job] rounds = [3]: Expected `int`, got `array`"),
        (JOB + "rounds = 2020-01-01", "[job] rounds = datetime.date(2020, 1, 1): Expected `int`, got `date`"),
        (JOB + "rounds = 0", "[job]: rounds is 0; it must be at least 1"),
        (JOB + "local_epochs = -1", "[job]: local_epochs is -1; it must be at least 1"),
        (JOB + "batch_size = 0", "[job]: batch_size is 0; it must be at least 1"),
        (JOB + "min_learners = 0", "[job]: min_learners is 0; it must be at least 1"),
        (JOB + "benchmark_shards = -8", "[job]: benchmark_shards is -8; it must be at least 1"),
        (JOB + "seed = -1", "[job]: seed is -1; it must be at least 0"),
        (JOB + "audit_rate = 2", "[job]: audit_rate is 2.0; allowed: 0 to 1"),
        (
            JOB + "audit_rate = 0.1\n[data]\nplacement = 'local'",
            '[job]: placement is "local", but audit_rate is above 0',
        ),
        (
            JOB + "name = '../up'",
            "[job]: name is '../up'; allowed: 1 to 64 letters, digits, and . _ -, not first a dot",
        ),
        (JOB + "target_accuracy = 90", "[job]: target_accuracy is 90.0; it must be above 0 and at most 1"),
        (JOB + "target_accuracy = nan", "[job]: target_accuracy is nan; it must be above 0 and at most 1"),
        ("[job]\ndeadline_seconds = -1", "[job]: deadline_seconds is -1.0; it must be above 0"),
        ("[job]\ndeadline_seconds = nan", "[job]: deadline_seconds is nan; it must be above 0"),
        ("[job]\ndeadline_seconds = inf", "[job]: deadline_seconds is inf; it must be above 0"),
        ("[job]\ndeadline_seconds = " + "9" * 400, "[job] deadline_seconds = 999999999"),
        ("[job]\ndeadline_seconds = '3s'", "[job] deadline_seconds = '3s': Expected `float`, got `str`"),
        (
            JOB + "[model]\nname = 'two'",
            f"[model]: model 'two' is unknown; did you mean 'two-nn'? Allowed: {', '.join(MODELS)}",
        ),
        (JOB + "[model]", "[model]: a model has either a name or an import, not name None and import None"),
        (JOB + "[model]\nname = 3", "[model] name = 3: Expected `str | null`, got `int`"),
        (
            JOB + "[model]\nimport = 'nets'",
            "[model]: import 'nets' must read package.module:Factory or path/to/file.py:Factory",
        ),
        (JOB + "[model]\nlayers = 3", "[model]: unknown key 'layers'; allowed: name, import, loss"),
        (
            JOB + "[model]\nname = 'two-nn'\nloss = 'mse'",
            "[model] loss = 'mse': Invalid enum value 'mse'; allowed: cross-entropy, cross-entropy-of-softmax",
        ),
        (
            JOB + "[data]\nname = 'digit'",
            f"[data]: dataset 'digit' is unknown; did you mean 'digits'? Allowed: {', '.join(DATASETS)}",
        ),
        (
            JOB + "[data]\nname = 'digits'\npath = 'x'",
            "[data]: data has either a name or a path, not name 'digits' and ",
        ),
        (JOB + "[data]\nshard_size = 0", "[data]: shard_size is 0; it must be at least 1"),
        (JOB + "[data]\nshard_size = 'a'", "[data] shard_size = 'a': Expected `int`, got `str`"),
        (
            JOB + "[data]\nshards = 3",
            "[data]: unknown key 'shards'; did you mean 'shard_size'? Allowed: name, path, shard_size, placement",
        ),
        (
            JOB + "[data]\nplacement = 'remote'",
            "[data] placement = 'remote': Invalid enum value 'remote'; allowed: served, local",
        ),
        (
            JOB + "[optimizer]\nname = 'sgd'",
            "[optimizer]: optimizer 'sgd' is unknown; did you mean 'SGD'? Allowed: ASGD,",
        ),
        (JOB + "[optimizer]\nname = 3", "[optimizer] name = 3: Expected `str`, got `int`"),
        (
            JOB + "[optimizer]\nmomentun = 1",
            "[optimizer]: SGD has no option 'momentun'; did you mean 'momentum'? Allowed",
        ),
        (JOB + "[optimizer]\nlr = -1", "[optimizer]: SGD does not work with lr = -1: Invalid learning rate: -1"),
        (JOB + "[optimizer]\nlr = '0.1'", "[optimizer]: SGD does not work with lr = '0.1': '<' not supported"),
        (JOB + "[optimizer]\nlr = nan", "[optimizer]: SGD: lr is nan; allowed: finite numbers"),
        (
            JOB + "[optimizer]\nlr = {a = 1}",
            "[optimizer] lr = {'a': 1}: Expected `bool | int | float | str | array`, got `object`",
        ),
        (JOB + "[optimizer]\nlr = [[1]]", "[optimizer] lr = [[1]]: Expected `float`, got `array`"),
        (JOB + "[optimizer.options]\nlr = 1", "[optimizer] options = {'lr': 1}: Expected"),
        (JOB + "[allocation]\npolicy = 'dap'", "[allocation]: policy is 'dap'; did you mean 'dab'? Allowed: "),
        (JOB + "[allocation]\npolicy = 3", "[allocation]: policy is 3; allowed: "),
        (JOB + "[allocation]\nwindow = 3", "[allocation]: policy is None; allowed: "),
        (JOB + "[allocation]\npolicy = ['dab']", "[allocation]: policy is ['dab']; "),
        (JOB + "[allocation]\npolicy = 'dab'\nwindow = 3", "[allocation]: dab has no field 'window'; allowed: none"),
        (
            JOB + "[allocation]\npolicy = 'adaptive-dab'\nwindw = 3",
            "[allocation]: adaptive-dab has no field 'windw'; did you mean 'window'? Allowed: ",
        ),
        (
            JOB + "[allocation]\npolicy = 'adaptive-dab'\nwindow = 0",
            "[allocation]: adaptive-dab: window is 0; it must be",
        ),
        (
            JOB + "[allocation]\npolicy = 'adaptive-dab'\nwindow = 'a'",
            "[allocation]: adaptive-dab: window is 'a': Expected",
        ),
        (
            JOB + "[allocation]\npolicy = 'edge-gossip'",
            "[job]: edge-gossip is a policy of peers, which train without an orchestrator; use one that ",
        ),
        (JOB + "[allocation]\npolicy = 'all-data'", "[job]: all-data is a policy of peers, which train without an "),
        (
            JOB + "[aggregation]\nmethod = 'median'",
            "[aggregation] method = 'median': Invalid enum value 'median'; allowed: fedavg, fedprox",
        ),
        (JOB + "[aggregation]\nmethod = 'fedprox'", "[aggregation]: mu is 0.0; fedprox needs one above 0"),
        (JOB + "[aggregation]\nmu = 0.1", '[aggregation]: mu is 0.1, but fedavg has none; use method = "fedprox"'),
    ],
)
def test_what_is_wrong_with_a_job_is_told_in_one_line(job, text, told):
    assert refusal(job, text).startswith(told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("deadline = ", "Invalid value (at end of document)"),
        ("deadline: 3", "Expected '=' after a key"),
        ("{}", "Invalid statement"),
        ("[job\n", "Expected ']' at the end of a table declaration"),
        (JOB + JOB, "Cannot declare ('job',) twice"),
        ("[job]\nrounds = 1\nrounds = 2", "Cannot overwrite a value"),
        (b"\xff\xfe\x00", "'utf-8' codec can't decode byte 0xff in position 0"),
        (b"\x7fELF\x02\x01\x00", "Invalid statement"),
        (bytes(1000), "Invalid statement"),
        ("a = " + "[" * 100_000, ""),
        ("a = " + "{b = " * 100_000, ""),
        ("a = " + "9" * 10_000, "Exceeds the limit"),
    ],
)
def test_what_is_not_toml_is_told_in_one_line(job, content, told):
    assert refusal(job, content).startswith(f"not TOML: {told}")


@pytest.mark.parametrize("load", [config.load_job, config.load_fleet])
def test_files_that_cannot_be_read_are_told_in_one_line(load, tmp_path):
    large = tmp_path / "large.toml"
    large.write_text("#" * (config.MAX_FILE_BYTES + 1))
    for path, told in (
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / "absent.toml", "cannot be read: No such file or directory"),
        (large / "inside.toml", "cannot be read: Not a directory"),
        (large, "larger than 1048576 bytes; is it the right file?"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert str(caught.value) == f"{path}: {told}"


def test_long_values_are_cut(job):
    assert refusal(job, f"job = '{'x' * 100_000}'").startswith("job is 'xxxx")
    assert refusal(job, f"{JOB}rounds = '{'x' * 100_000}'").startswith("[job] rounds = 'xxxx")
    assert refusal(job, f"{JOB}[data]\nshard_size = [{'1,' * 100_000}]").startswith("[data] shard_size = [1, 1,")
    assert refusal(job, f"{JOB}rounds = {'9' * 4000}.5").startswith("[job] rounds = inf: Expected `int`")


def test_a_path_that_no_system_has_does_not_break_the_job(job):
    assert job(f'{JOB}[data]\npath = "a\\u0000b"').data.path.endswith("a\0b")


def possible_job(**fields):
    """A job whose policy can be had with its data: what devices have, the orchestrator cannot divide."""
    if fields["data"].placement == "local" and fields["allocation"].decided_by == "orchestrator":
        fields["allocation"] = DabAllocation()
    return Job(**fields)


jobs = st.builds(
    possible_job,
    deadline_seconds=st.floats(1e-3, 1e6),
    rounds=st.integers(1, 10**6),
    local_epochs=st.integers(1, 100),
    batch_size=st.integers(1, 4096),
    seed=st.integers(0, 2**62),
    min_learners=st.integers(1, 100),
    benchmark_shards=st.integers(1, 100),
    target_accuracy=st.none() | st.floats(0.01, 1),
    model=st.builds(
        ModelSpec,
        name=st.sampled_from(list(MODELS)),
        loss=st.sampled_from(["cross-entropy", "cross-entropy-of-softmax"]),
    )
    | st.just(ModelSpec(import_path="package.nets:Net"))
    | st.just(ModelSpec(import_path="/abs/nets.py:Net")),
    optimizer=st.just(OptimizerSpec())
    | st.builds(lambda lr: OptimizerSpec(options={"lr": lr, "momentum": 0.5, "nesterov": True}), st.floats(1e-6, 10))
    | st.just(OptimizerSpec(name="Adam", options={"betas": [0.5, 0.9]}))
    | st.just(OptimizerSpec(name="Rprop", options={})),
    data=st.builds(
        DataSpec,
        name=st.sampled_from(list(DATASETS)),
        shard_size=st.integers(1, 10_000),
        placement=st.sampled_from(["served", "local"]),
    )
    | st.just(DataSpec(path="/abs/own.npz")),
    allocation=st.just(DabAllocation())
    | st.just(EqualAllocation())
    | st.builds(AdaptiveDabAllocation, window=st.integers(1, 50)),
    aggregation=st.just(AggregationSpec())
    | st.builds(lambda mu: AggregationSpec(method="fedprox", mu=mu), st.floats(1e-6, 100)),
)


@given(jobs)
def test_a_job_is_what_it_describes(job):
    described = job.described()
    assert config.parse_job(described, "record") == job
    assert config.parse_job(json.loads(msgspec.json.encode(described)), "record") == job


def test_a_fleet_has_devices_of_many_kinds(fleet):
    text = """
        [[device]]
        name = "pi"
        count = 3
        samples_per_second = 100
        down_mbit = 20
        up_mbit = 5.5
        latency_ms = 10
        cpu_share = 0.5
        speed_noise = 0.1
        link_noise = 0.2
        packet_loss = 0.01
        max_shards = 4
        price = 1.5
        are_states_known = false
        skips = 0.5
        joins_at_seconds = 1
        dies_at_seconds = 20
        returns_at_seconds = 30
        [device.power]
        busy_watts = 6
        idle_watts = 2.5
        joules_per_byte = 2e-4
        [[device]]
        name = "pi-4"
        samples_per_second = {small = 1e4, large = 300}
    """
    pi, other = fleet(text)
    assert pi == VirtualDevice(
        name="pi",
        count=3,
        samples_per_second=100,
        down_mbit=20,
        up_mbit=5.5,
        latency_ms=10,
        cpu_share=0.5,
        speed_noise=0.1,
        link_noise=0.2,
        packet_loss=0.01,
        max_shards=4,
        price=1.5,
        are_states_known=False,
        skips=0.5,
        joins_at_seconds=1,
        dies_at_seconds=20,
        returns_at_seconds=30,
        power=PowerModel(busy_watts=6.0, idle_watts=2.5, joules_per_byte=2e-4),
    )
    assert other == VirtualDevice(name="pi-4", samples_per_second={"small": 1e4, "large": 300})
    assert other.speed("large") == 300
    with pytest.raises(
        ConfigError, match=r"^device pi-4: samples_per_second has no speed for job 'huge', only for 'sm"
    ):
        other.speed("huge")
    assert (other.down_mbit, other.up_mbit, other.latency_ms) == (math.inf, math.inf, 0)


def test_a_fleet_in_a_cell_has_the_rates_of_the_cell(fleet):
    text = DEVICE + "count = 2\n" + DEVICE.replace("pi", "van") + "distance_metres = 480\n"
    text += DEVICE.replace("pi", "pc") + "down_mbit = 50\nup_mbit = 9\n"
    devices = [VirtualDevice(name="pi", count=2, samples_per_second=100)]
    devices.append(VirtualDevice(name="van", samples_per_second=100, distance_metres=480))
    devices.append(VirtualDevice(name="pc", samples_per_second=100, down_mbit=50, up_mbit=9))
    assert fleet(text + "[cell]\n") == in_cell(Cell(), devices)
    assert fleet(text + "[cell]\nseed = 3\nscheduling = 'equal'") == in_cell(Cell(seed=3, scheduling="equal"), devices)
    assert [device.name for device in fleet(text + "[cell]")] == ["pi-1", "pi-2", "van", "pc"]


KEYS = ", ".join(VirtualDevice.__struct_fields__)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no [[device]]; a fleet has at least one"),
        ("device = []", "there is no [[device]]; a fleet has at least one"),
        ("[device]\nname = 'pi'", "there is no [[device]]; a fleet has at least one"),
        ("device = 3", "there is no [[device]]; a fleet has at least one"),
        ("[[devices]]", "unknown table 'devices'; did you mean 'device'? Allowed: device"),
        (DEVICE + "[fleet]", "unknown table 'fleet'; allowed: device, cell"),
        (DEVICE + "distance_metres = 5", "device 1: distance_metres is 5.0, but there is no [cell]"),
        (DEVICE + "distance_metres = -5", "device 1: distance_metres is -5.0; it must be at least 0"),
        ("cell = 3\n" + DEVICE, "cell is 3; it must be a table, [cell]"),
        (
            DEVICE + "[cell]\nradius = 5",
            "[cell]: unknown key 'radius'; did you mean 'radius_metres'? Allowed: scheduling, radius_metres, ",
        ),
        (DEVICE + "[cell]\nradius_metres = 0", "[cell]: radius_metres is 0; it must be above 0"),
        (
            DEVICE + "[cell]\nscheduling = 'fair'",
            "[cell] scheduling = 'fair': Invalid enum value 'fair'; allowed: proportional-fair, equal",
        ),
        (
            DEVICE + "up_mbit = 3\n[cell]",
            "[cell]: device pi: in a cell, it has down_mbit and up_mbit both or neither",
        ),
        (
            DEVICE + "up_mbit = 3\ndown_mbit = 3\ndistance_metres = 3\n[cell]",
            "[cell]: device pi: it has either rates or distance_metres in the cell, not both",
        ),
        (
            DEVICE + "count = 1001\n[cell]",
            "[cell]: there are 1001 devices in the cell; proportional-fair scheduling of ",
        ),
        ("device = [3]", "device 1: 3 must be a table"),
        (DEVICE + "speed = 3", f"device 1: unknown key 'speed'; did you mean 'speed_noise'? Allowed: {KEYS}"),
        (DEVICE + "zzz = 3", f"device 1: unknown key 'zzz'; allowed: {KEYS}"),
        (DEVICE + "[[device]]\nname = 'b'", "device 2: Object missing required field `samples_per_second`"),
        (
            DEVICE + "states = [{name = 'idle', probability = 0.5}]",
            "device 1: the probabilities of states ['idle'] add up to 0.5; they must add up to 1",
        ),
        (
            DEVICE + "[[device.states]]\nname = 'idle'\nprobability = 'often'",
            "device 1 states 1 probability = 'often': Expected `float`, got `str`",
        ),
        (
            DEVICE + "states = [{name = 'idle', probability = 1, sped = 2}]",
            "device 1 states 1: unknown key 'sped'; did you mean 'speed'? Allowed: name, probability",
        ),
        ("[[device]]\nsamples_per_second = 1", "device 1: Object missing required field `name`"),
        ("[[device]]\nname = 3\nsamples_per_second = 1", "device 1 name = 3: Expected `str`, got `int`"),
        (
            "[[device]]\nname = 'a'\nsamples_per_second = 'fast'",
            "device 1 samples_per_second = 'fast': Expected `float | object`, got `str`",
        ),
        (
            "[[device]]\nname = 'a'\nsamples_per_second = 0",
            "device 1: samples_per_second is 0.0; it must be above 0",
        ),
        ("[[device]]\nname = 'a'\nsamples_per_second = inf", "device 1: samples_per_second is inf; it must be finite"),
        ("[[device]]\nname = 'a'\nsamples_per_second = nan", "device 1: samples_per_second is nan; it must be above 0"),
        (
            "[[device]]\nname = 'a'\nsamples_per_second = {small = 'fast'}",
            "device 1 samples_per_second = {'small': 'fast'}: Expected `float`, got `str`",
        ),
        (
            "[[device]]\nname = 'a'\nsamples_per_second = {small = 1, large = -2}",
            "device 1: samples_per_second is -2.0; it must be above 0",
        ),
        (DEVICE + "price = -1", "device 1: price is -1.0; it must be at least 0"),
        (DEVICE + "skips = 1", "device 1: skips is 1.0; it must be from 0 to below 1"),
        (DEVICE + "are_states_known = 'yes'", "device 1 are_states_known = 'yes': Expected `bool`, got `str`"),
        (DEVICE + "power = 6", "device 1 power = 6: Expected `object`, got `int`"),
        (DEVICE + "[device.power]\nbusy_watts = -1", "device 1 power: busy_watts is -1; it must be at least 0"),
        (
            DEVICE + "[device.power]\nbusy_wats = 1",
            "device 1 power: unknown key 'busy_wats'; did you mean 'busy_watts'?",
        ),
        (DEVICE + "count = 1.5", "device 1 count = 1.5: Expected `int`, got `float`"),
        (DEVICE + "count = 0", "device 1: count is 0; it must be above 0"),
        (DEVICE + "count = 1_000_000_000_000", "there are 1000000000000 devices, by their counts; allowed: 100000"),
        (DEVICE + "cpu_share = -1", "device 1: cpu_share is -1.0; it must be above 0"),
        (DEVICE + "down_mbit = 0", "device 1: down_mbit is 0.0; it must be above 0"),
        (DEVICE + "up_mbit = -5", "device 1: up_mbit is -5.0; it must be above 0"),
        (DEVICE + "latency_ms = -1", "device 1: latency_ms is -1.0; it must be at least 0"),
        (DEVICE + "packet_loss = 1", "device 1: packet_loss is 1.0; it must be from 0 to below 1"),
        (DEVICE + "link_noise = nan", "device 1: link_noise is nan; it must be from 0 to below 1"),
        (DEVICE + "returns_at_seconds = 3", "device 1: returns_at_seconds needs a dies_at_seconds before it"),
        (DEVICE + DEVICE, "2 devices are called 'pi'; names must differ"),
        (DEVICE + "count = 3\n" + DEVICE.replace("pi", "pi-2"), "2 devices are called 'pi-2'; names must differ"),
        ("device = ", "not TOML: Invalid value (at end of document)"),
    ],
)
def test_what_is_wrong_with_a_fleet_is_told_in_one_line(fleet, text, told):
    assert refusal(fleet, text).startswith(told)
