"""A peer among others: whom it finds, whom it takes for gone, and that nothing others say or do brings it down."""

import asyncio
import contextlib
import logging

import msgspec
import numpy as np
import pytest
import torch

import paceline
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.errors import ConfigError, PacelineError, RemoteError, TransportError
from paceline.learning.shards import Shard
from paceline.topologies.gossip import Access, GossipJob, Holding, Known, Peer, PeerOptions, hosted
from paceline.topologies.gossip.events import EpochEnded, PeerLost, PeerSeen, PeerStarted
from paceline.topologies.gossip.members import Membership
from paceline.topologies.gossip.messages import View
from tests.topologies.gossip.answers import member
from tests.topologies.gossip.swarm import DriftingTrainer, Swarm, play

SHARD = Shard(np.zeros((64, 1), np.float32), np.zeros(64, np.int64))


def job(**rules):
    small = {"epochs": 6, "min_peers": 2, "batch_size": 16, "probe_seconds": 1.0, "patience_seconds": 0.5}
    return GossipJob(**{**small, "graph": "full", "evaluate_samples": 0, **rules})


def started(names="abc", rules=None, **peers):
    """A swarm whose first peer is known to all others."""
    swarm = Swarm(job(**(rules or {})))
    for name in names:
        swarm.start(name, [] if name == names[0] else [names[0]], **peers)
    return swarm


@contextlib.asynccontextmanager
async def elsewhere(swarm, name):
    """A peer of that name on another host, that knows a; with its run."""
    transport = swarm._network.host("elsewhere")
    peer = Peer(
        swarm.job,
        name,
        Holding(SHARD, 1),
        DriftingTrainer(9, 1000.0),
        access=Access(transport=transport),
        options=PeerOptions(known=[Known("http://a:7223")], life=1000),
    )
    async with hosted(peer, 256, transport=transport, port=DEFAULT_PORT) as address:
        yield peer, asyncio.ensure_future(peer.run(str(address)))


def outsider(swarm, address="http://a:7223"):
    """A peer as somebody else calls it."""
    return Access(transport=swarm._network.host("outsider")).reach(address)


def view(swarm, *records, **changes):
    """What a peer would tell that knows these records."""
    told = Membership(member("zz", address="http://nobody:1"))
    told.merge(records)
    fields = {"job": swarm.job.fingerprint, "version": paceline.__version__, "learner": "zz", "members": told.told()}
    return View(**{**fields, **changes})


def of(kind, swarm, learner=None):
    return [event for event in swarm.events if isinstance(event, kind) and learner in (None, event.learner)]


def ended(swarm, learner, epoch):
    """When a peer ended an epoch."""
    return next(event.at for event in of(EpochEnded, swarm, learner) if event.epoch == epoch)


def averaged(results):
    return {name: "".join(result.averaged) for name, result in results.items()}


def test_all_find_each_other_from_one_and_end_with_the_same_model():
    async def main():
        swarm = started("abcde", {"min_peers": 5})
        results = await swarm.results()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return swarm, results

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abcde", "abcde")
    assert len({tuple(result.parameters["float32"].tolist()) for result in results.values()}) == 1
    assert of(PeerLost, swarm) == []


def test_two_that_nobody_told_of_each_other_are_brought_together_by_a_third():
    async def main():
        swarm = Swarm(job(min_peers=3))
        swarm.start("a")
        swarm.start("b")
        swarm.start("c", ["a", "b"])
        return await swarm.results()

    assert averaged(play(main())) == dict.fromkeys("abc", "abc")


def test_training_begins_when_enough_are_there():
    async def main():
        swarm = started("ab", {"min_peers": 3})
        await asyncio.sleep(30)
        assert of(PeerStarted, swarm) == []
        swarm.start("c", ["a"])
        await swarm.results()
        return [event.at for event in of(PeerStarted, swarm, "a")]

    assert play(main())[0] > 30


def test_a_peer_needs_a_name_that_can_be_told():
    with pytest.raises(ConfigError, match="name is 'a/b'; allowed"):
        Peer(job(), "a/b", Holding(own=None), DriftingTrainer(0, 1.0))


def test_calls_before_it_begins_are_answered():
    async def main():
        swarm = Swarm(job())
        transport = swarm._network.host("a")
        trainer = DriftingTrainer(0, 1.0)
        peer = Peer(
            job(), "a", Holding(own=None), trainer, access=Access(transport=transport), emit=swarm.events.append
        )
        async with hosted(peer, 256, transport=transport, port=DEFAULT_PORT):
            remote = outsider(swarm)
            heard = Membership(member("b"))
            heard.hear((await remote.meet.coro(view(swarm))).members)
            statuses = [(await remote[name].coro(*arguments)).status for name, *arguments in WAITING]
            adopted = await remote.adopt.coro("zz", "t")
            return heard.get("a"), statuses, adopted, await remote.progress.coro(), swarm.events

    record, statuses, adopted, progress, told = play(main())
    assert record is None  # nobody should call it yet
    assert statuses == ["wait"] * 5
    assert (adopted.epoch, adopted.mass, progress.epoch, progress.living) == (0, 0, 0, ["a", "zz"])
    assert [(event.other, event.at) for event in told] == [("zz", 0.0)]


WAITING = [("show", 1, 0), ("show", -7, -7), ("show", 10**30, 10**30), ("settled",), ("conclude", "zz")]


def test_rubbish_and_strangers_are_refused_and_training_goes_on():
    broken = {
        "members": msgspec.msgpack.encode([{"name": "\x1b[2J", "address": "http://b:1", "life": 1}]),
        "job": "another",
        "version": "0.0",
        "learner": "a",
    }

    async def main():
        swarm = started("ab")
        remote, refused = outsider(swarm), []
        await asyncio.sleep(0.5)
        nan = {"float32": torch.full((64,), float("nan"))}
        attempts = [
            *(("meet", view(swarm, **{name: value})) for name, value in broken.items()),
            ("meet", {**msgspec.structs.asdict(view(swarm)), "learner": "b\n"}),
            ("meet", {**msgspec.structs.asdict(view(swarm)), "members": b"\xc1" * 100}),
            ("meet", 7),
            ("push", "zz", "t", 1, nan),
            ("push", "zz", "t", 1, {"float32": torch.zeros(3 << 20)}),
            ("show", "first", None),
        ]
        for name, *arguments in attempts:
            try:
                await remote[name].coro(*arguments)
            except (RemoteError, TransportError) as error:
                refused.append(str(error))
        return len(attempts), refused, await swarm.results()

    num_attempts, refused, results = play(main())
    assert len(refused) == num_attempts
    assert all(len(reason) < 500 for reason in refused)
    assert averaged(results) == dict.fromkeys("ab", "ab")


@pytest.mark.parametrize(
    "address",
    [
        "http://nowhere:1",
        "http://b:99999",
        "http://[broken",
        "https://b:7223",
        "http://b:7223/path",
        "http://a:7223",
        "http://b:7223",
    ],
)
def test_made_up_peers_are_found_out(address):
    async def main():
        swarm = started("ab")
        await asyncio.sleep(0.5)
        await outsider(swarm).meet.coro(view(swarm, member("ghost", address=address, epoch=6, is_done=True)))
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("ab", "ab")
    assert "ghost" in {event.other for event in of(PeerLost, swarm, "a")}


def test_a_peer_that_is_talked_dead_lives_on():
    async def main():
        swarm = started("abc", {"epochs": 40})
        await asyncio.sleep(2)
        record = swarm.peers[1]._membership.me
        forged = msgspec.structs.replace(record, status="left", beat=1 << 53)
        await outsider(swarm).meet.coro(view(swarm, forged))
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert set(averaged(results).values()) == {"abc"}
    assert {event.other for event in of(PeerLost, swarm, "a")} >= {"b"}
    assert sum(event.other == "b" for event in of(PeerSeen, swarm, "a")) == 2


def test_a_made_up_later_life_does_not_end_a_peer():
    async def main():
        swarm = started("abc", {"epochs": 40})
        await asyncio.sleep(2)
        await outsider(swarm, "http://b:7223").meet.coro(
            view(swarm, member("b", life=1 << 40, address="http://nowhere:1"))
        )
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert set(results) == set("abc")
    assert swarm.peers[1]._membership.me.life == (1 << 40) + 1


def test_of_two_with_one_name_the_older_gives_way():
    async def main():
        swarm = started("abc", {"epochs": 40})
        await asyncio.sleep(2)
        async with elsewhere(swarm, "b") as (newer, running):
            await running
            await newer.leave()
        await asyncio.wait(swarm._lives.values())
        return swarm._lives["b"].exception(), swarm._lives["a"].result()

    error, concluded = play(main())
    assert isinstance(error, PacelineError)
    assert str(error) == "another peer has taken the name 'b'; give each a name of its own"
    assert concluded.averaged == ("a", "b", "c")


def test_one_that_dies_is_noticed_and_the_others_go_on():
    async def main():
        swarm = started("abcd", {"epochs": 40, "min_peers": 4})
        await asyncio.sleep(3)
        await swarm.kill("c")
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abd", "abd")
    assert {event.learner for event in of(PeerLost, swarm) if event.other == "c"} == set("abd")


def test_when_all_others_die_one_goes_on_alone():
    async def main():
        swarm = started("abc", {"epochs": 40, "min_peers": 3})
        await asyncio.sleep(3)
        await asyncio.gather(swarm.kill("a"), swarm.kill("b"))
        return await swarm.results()

    assert averaged(play(main())) == {"c": "c"}


def test_one_that_comes_back_under_its_name_takes_part_again():
    async def main():
        swarm = started("abc", {"epochs": 60, "min_peers": 3})
        await asyncio.sleep(3)
        await swarm.kill("b")
        swarm.start("b", ["a"])
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert set(averaged(results).values()) == {"abc"}
    first, again = of(PeerStarted, swarm, "b")
    assert (first.epoch, again.epoch > 10) == (1, True)


def test_a_newcomer_that_is_slow_to_get_ready_keeps_nobody_waiting():
    async def main():
        swarm = started("ab", {"epochs": 100})
        await asyncio.sleep(2)
        swarm.start("late", ["a"], samples_per_second=6.4)  # it takes 20 seconds to measure itself
        await asyncio.sleep(15)
        return swarm, await swarm.results()

    swarm, results = play(main())
    (begun,) = of(PeerStarted, swarm, "late")
    assert begun.at == pytest.approx(20, abs=1)
    longest = max(event.seconds for event in of(EpochEnded, swarm, "a") if event.at < 18)
    assert longest < 1.0
    assert set(averaged(results)) == {"a", "b", "late"}


def test_a_newcomer_whose_introducer_dies_learns_from_another():
    async def main():
        swarm = started("abc", {"epochs": 200, "min_peers": 3})
        await asyncio.sleep(2)
        swarm.start("late", ["a"], samples_per_second=64.0)
        await asyncio.sleep(1)
        await swarm.kill("a")
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert set(results) == {"b", "c", "late"}
    assert of(PeerStarted, swarm, "late")[0].epoch > 1


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_newcomers_while_others_finish_do_not_keep_them_for_ever(exchange):
    async def main():
        swarm = started("bc", {"exchange": exchange, "epochs": 30})
        await asyncio.sleep(0.2)
        number = 0
        while swarm.peers[0]._standing.epoch < 30:
            await asyncio.sleep(0.7)
            number += 1
            swarm.start(f"a{number:02}", ["b"])
        await asyncio.wait(swarm._lives.values())
        return {name: life.exception() for name, life in swarm._lives.items()}

    ends = play(main())
    assert len(ends) > 4
    assert ends["b"] is ends["c"] is None


def test_two_sides_that_were_apart_find_each_other_again():
    async def main():
        swarm = started("ab", {"epochs": 300})
        await asyncio.sleep(2)
        listener = swarm._network.listeners["b", DEFAULT_PORT]
        listener.line.cut()
        await asyncio.sleep(10)
        apart = [peer._membership.get(other).status for peer, other in zip(swarm.peers, "ba", strict=True)]
        listener.line.mend()
        return apart, await swarm.results()

    apart, results = play(main())
    assert apart == ["dead", "dead"]
    assert averaged(results) == dict.fromkeys("ab", "ab")


def test_a_busy_peer_is_not_taken_for_gone():
    async def main():
        swarm = Swarm(job(epochs=2))
        swarm.start("a")
        swarm.start("b", ["a"], samples_per_second=0.64)  # 100 seconds for an epoch
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("ab", "ab")
    assert of(PeerLost, swarm) == []
    assert ended(swarm, "a", 1) > 200


def test_whoever_says_goodbye_is_not_mourned():
    async def main():
        swarm = started("ab", {"epochs": 100, "min_peers": 3})
        async with elsewhere(swarm, "c") as (peer, running):
            await asyncio.sleep(3)
            running.cancel()  # as when its user interrupts it
            await asyncio.wait((running,))
            await peer.leave()
        return swarm, await swarm.results()

    swarm, results = play(main())
    assert set(averaged(results).values()) == {"ab"}
    assert {(event.other, event.reason) for event in of(PeerLost, swarm)} == {("c", "it said goodbye")}


def test_looking_after_others_survives_whatever_happens(caplog):
    async def main():
        swarm = started("ab", {"epochs": 200, "probe_seconds": 0.5})
        peer, num_failed = swarm.peers[0], 0

        async def broken(preferred=()):
            nonlocal num_failed
            num_failed += 1
            raise RuntimeError("a mistake")

        meet_somebody = peer._meetings.meet_somebody
        await asyncio.sleep(2)
        peer._meetings.meet_somebody = broken
        await asyncio.sleep(2)
        peer._meetings.meet_somebody = meet_somebody
        return num_failed, await swarm.results()

    with caplog.at_level(logging.CRITICAL):
        num_failed, results = play(main())
    assert num_failed >= 3
    assert averaged(results) == dict.fromkeys("ab", "ab")


def test_anybody_can_ask_for_progress_and_the_model_but_not_for_mass():
    async def main():
        swarm = started("ab", {"exchange": "push-sum", "epochs": 200})
        await asyncio.sleep(2)
        remote = outsider(swarm)
        progress = await remote.progress.coro()
        adopted = [await remote.adopt.coro(*asked) for asked in (("", ""), ("stranger", "t"), ("b", "t"), ("b", "t2"))]
        mass = swarm.peers[0]._exchange.account.mass
        await swarm.results()
        return progress, adopted, mass

    progress, adopted, mass = play(main())
    assert (progress.learner, progress.epochs, progress.living) == ("a", 200, ["a", "b"])
    assert 0 < progress.epoch < 200
    assert all(shown.parameters["float32"].shape == (64,) for shown in adopted)
    assert [shown.mass > 0 for shown in adopted] == [False, False, True, True]
    assert adopted[2].mass == adopted[3].mass
    assert mass > 0


def test_one_who_knows_only_the_dead_says_so():
    async def main():
        swarm = Swarm(job())
        swarm.start("a", ["nobody", "nowhere"])
        await asyncio.wait(swarm._lives.values())
        return swarm._lives["a"].exception(), asyncio.get_running_loop().time()

    error, at = play(main())
    assert str(error).startswith("no peer could be joined: http://nobody:7223: nobody listens there; http://nowhere")
    assert at < 70


def test_a_peer_that_is_cancelled_leaves_nothing_behind():
    async def main():
        swarm = started("ab", {"exchange": "push-sum", "epochs": 100, "push_probability": 1.0})
        await asyncio.sleep(3)
        await swarm.end()
        return len(asyncio.all_tasks())

    assert play(main()) == 1
