import sys
from pathlib import Path

import pytest

from paceline.allocation import POLICIES, AdaptiveDabAllocation, DabAllocation, describe, from_config
from paceline.errors import ConfigError

OWN = Path(__file__).with_name("own_policies.py")


@pytest.mark.parametrize("name", POLICIES.members)
def test_a_policy_survives_a_job_file(name):
    policy = from_config({"policy": name})
    assert type(policy) is POLICIES.members[name]
    assert from_config(describe(policy)) == policy


def test_fields_come_from_the_table():
    policy = from_config({"policy": "adaptive-dab", "optimism": 1, "window": 7})
    assert policy == AdaptiveDabAllocation(optimism=1.0, window=7)
    assert describe(policy) == {"policy": "adaptive-dab", "window": 7, "optimism": 1.0, "caution": 2.1, "margin": 0.01}


def test_a_policy_that_nothing_can_import():
    class OwnAllocation(DabAllocation):
        pass

    with pytest.raises(ConfigError, match="OwnAllocation is inside a function or class, where nothing can import it"):
        describe(OwnAllocation())


def test_a_policy_of_a_users_own():
    table = {"policy": f"{OWN}:PartOfDab", "part": 0.25}
    assert describe(from_config(table)) == table
    assert describe(from_config(table, allowed=[f"{OWN}:PartOfDab"])) == table
    with pytest.raises(
        ConfigError, match=f"^policy '{OWN}:PartOfDab' is not allowed on this device; to allow it, pass"
    ):
        from_config(table, allowed=[])
    with pytest.raises(ConfigError, match=f"^{OWN}:PartOfDab: part is 2; it must be "):
        from_config({**table, "part": 2})
    with pytest.raises(ConfigError, match="no dataclass derived from paceline.allocation.base.AllocationPolicy"):
        from_config({"policy": f"{OWN}:NotOne"})


def test_installed_packages_add_policies(tmp_path, monkeypatch):
    (tmp_path / "politeness.py").write_text(OWN.read_text())
    (tmp_path / "politeness-1.0.dist-info").mkdir()
    entry = "[paceline.policies]\npolite=politeness:PartOfDab\n"
    (tmp_path / "politeness-1.0.dist-info/entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    policy = from_config({"policy": "polite", "part": 0.25}, allowed=[])  # who installed it allows it
    assert describe(policy) == {"policy": "polite", "part": 0.25}
    del sys.modules["politeness"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "policy is ''; allowed: dab, adaptive-dab, csa, sync, eta, med, mmtt, edge-gossip, all-data"),
        (
            {"policy": "dabb"},
            "policy 'dabb' is unknown; did you mean 'dab'\\? Allowed: dab, adaptive-dab, csa, sync, eta, med, ",
        ),
        ({"policy": ["dab"]}, "policy is \\['dab'\\]; "),
        ({"policy": "dab", "margin": 0.1}, "dab: unknown key 'margin'; allowed: none"),
        ({"policy": "adaptive-dab", "optimsm": 1}, "unknown key 'optimsm'; did you mean 'optimism'\\? Allowed: window"),
        ({"policy": "adaptive-dab", "window": "all"}, "adaptive-dab: window is 'all'; it must be a whole number"),
        ({"policy": "adaptive-dab", "optimism": 0.4}, "adaptive-dab: optimism is 0.4; allowed: 0.5 to 1"),
        ({"policy": "csa", "min_shards": 5, "max_shards": 4}, "csa: max_shards is 4, below min_shards, 5"),
        ({"policy": "all-data", "max_failed": 0.1}, "all-data: unknown key 'max_failed'; allowed: none"),
    ],
)
def test_a_wrong_table_is_told_in_one_line(table, message):
    with pytest.raises(ConfigError, match=message) as caught:
        from_config(table)
    assert "\n" not in str(caught.value)
