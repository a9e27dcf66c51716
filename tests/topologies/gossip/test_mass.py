"""The account of a peer's mass: whole numbers that add up."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from paceline.topologies.gossip.mass import FULL_MASS, MassAccount


def account_with(mass):
    account = MassAccount()
    account.mass = mass
    return account


def test_the_last_grain_is_not_pushed():
    account = account_with(1)
    assert account.send("t", "b") is None
    assert (account.mass, account.under_way) == (1, [])


def test_a_confirmed_push_is_gone_and_one_taken_back_is_not():
    account = account_with(8)
    account.send("first", "b")
    account.send("second", "b")
    account.confirm("first")
    account.confirm("first")
    account.take_back("second")
    account.take_back("second")
    account.take_back("first")
    assert (account.mass, account.under_way) == (4, [])


def test_without_mass_of_its_own_a_peer_becomes_what_arrives():
    account = MassAccount()
    account.arrive("t", 5)
    assert account.absorb(5) == 1.0


def test_a_push_is_known_again_for_thousands_of_others():
    account = MassAccount()
    for number in range(4096):
        account.arrive(f"t{number}", 1)
    assert account.has_arrived("t0")
    account.arrive("one more", 1)
    assert not account.has_arrived("t0")  # memory has an end
    assert account.has_arrived("one more")


@given(st.lists(st.tuples(st.sampled_from(["send", "arrive", "lose", "absorb"]), st.integers(0, 2))), st.integers(1, 5))
def test_two_accounts_always_add_up(steps, divisor):
    accounts = [account_with(FULL_MASS // divisor), account_with(FULL_MASS)]
    whole, flying, waiting = sum(account.mass for account in accounts), [], []
    for number, (step, which) in enumerate(steps):
        sender, receiver = accounts[which % 2], accounts[1 - which % 2]
        if step == "send" and (push := sender.send(str(number), "other")):
            flying.append((sender, receiver, push))
        elif step == "arrive" and flying:
            sender, receiver, push = flying.pop()
            receiver.arrive(push.transfer, push.mass)
            waiting.append((receiver, push.mass))
            sender.confirm(push.transfer)
        elif step == "lose" and flying:
            sender, _, push = flying.pop()
            sender.take_back(push.transfer)
        elif step == "absorb" and waiting:
            receiver, mass = waiting.pop()
            before = receiver.mass
            assert receiver.absorb(mass) == float(Fraction(mass, before + mass))
        held = sum(account.mass + account.waiting for account in accounts)
        assert held + sum(push.mass for account in accounts for push in account.under_way) == whole
