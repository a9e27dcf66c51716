import pytest

from paceline.allocation import POLICIES, AdaptiveDabAllocation, DabAllocation, describe, from_config
from paceline.errors import ConfigError


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_survives_a_job_file(name):
    policy = from_config({"policy": name})
    assert type(policy) is POLICIES[name]
    assert from_config(describe(policy)) == policy


def test_fields_come_from_the_table():
    policy = from_config({"policy": "adaptive-dab", "optimism": 1, "window": 7})
    assert policy == AdaptiveDabAllocation(optimism=1.0, window=7)
    assert describe(policy) == {"policy": "adaptive-dab", "window": 7, "optimism": 1.0, "caution": 2.1, "margin": 0.01}


def test_a_policy_without_a_name():
    class OwnAllocation(DabAllocation):
        pass

    with pytest.raises(ConfigError, match="OwnAllocation has no name; put it into paceline.allocation.POLICIES"):
        describe(OwnAllocation())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "policy is None; allowed: adaptive-dab, all-data, csa, dab, edge-gossip, eta, med, mmtt, sync"),
        (
            {"policy": "dabb"},
            "policy is 'dabb'; did you mean 'dab'\\? Allowed: adaptive-dab, all-data, csa, dab, edge-gossip, eta, ",
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
