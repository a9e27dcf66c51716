"""Proofs of a device's key: of one name, one host and one moment."""

import pytest

from paceline.axon.keys import DeviceKey
from paceline.topologies.access.proofs import Challenges, is_proven, prove

KEY, OTHER = DeviceKey.generate(), DeviceKey.generate()
FINGERPRINT = "sha256:" + 64 * "0"


def test_a_proof_is_of_one_key_name_and_channel():
    proof = prove(KEY, FINGERPRINT, "c1", "pi")
    assert proof.key == KEY.public
    assert is_proven(proof, ("https", FINGERPRINT), "pi")
    assert not is_proven(proof, (FINGERPRINT,), "pj")
    assert not is_proven(proof, ("https", "http"), "pi")  # passed on by a host of that certificate to another one
    for field, value in (("key", OTHER.public), ("challenge", "c2"), ("signature", bytes(64)), ("key", "rubbish")):
        forged = type(proof)(**{"key": proof.key, "challenge": "c1", "signature": proof.signature, field: value})
        assert not is_proven(forged, (FINGERPRINT,), "pi")


def test_challenges_are_accepted_once_and_for_a_minute():
    now = 100.0
    challenges = Challenges(lambda: now)
    first, second = challenges.make(), challenges.make()
    challenges.use_up(first)
    for unknown in (
        first,
        "",
        "x",
        second[:-1],
        second + "0",
        f"{second[:5]}-999999-{second[-64:]}",
        "é-9-" + 64 * "0",
    ):
        with pytest.raises(LookupError, match="join again"):
            challenges.use_up(unknown)
    now += 61
    with pytest.raises(LookupError, match="join again"):
        challenges.use_up(second)
    with pytest.raises(LookupError, match="join again"):
        Challenges(lambda: now).use_up(challenges.make())  # of a host that was restarted


def test_used_challenges_do_not_pile_up():
    now = 0.0
    challenges = Challenges(lambda: now)
    for _ in range(5000):
        challenges.use_up(challenges.make())
        now += 1.0
    assert len(challenges._used) < 2000


def test_a_host_cannot_make_a_device_sign_something_else():
    crafted = prove(KEY, "http", 'c1","victim"]', "pi")
    assert not is_proven(
        type(crafted)(key=KEY.public, challenge="c1", signature=crafted.signature), ("http",), "victim"
    )
    assert len(prove(KEY, "http", 10_000 * "x", "pi").challenge) == 200
