"""A peer among others: whom it finds, whom it takes for gone, and that nothing others say or do brings it down."""

import asyncio
import contextlib
import logging

import msgspec
import pytest
import torch

import paceline
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.base import DEFAULT_PORT
from paceline.errors import DivergedError, PacelineError, RemoteError, TransportError
from paceline.topologies.base import Node, RoleService
from paceline.topologies.gossip.events import EpochEnded, PeerEnded, PeerLost, PeerSeen, PeerStarted
from paceline.topologies.gossip.jobs import GossipJob
from paceline.topologies.gossip.membership import Membership
from paceline.topologies.gossip.messages import PeerService, View
from tests.topologies.gossip.answers import record
from tests.topologies.gossip.swarm import Swarm, contacts, play


def job(**rules):
    small = {"epochs": 6, "min_peers": 2, "batch_size": 16, "probe_seconds": 1.0, "patience_seconds": 0.5}
    return GossipJob(**{**small, "graph": "full", "evaluate_samples": 0, **rules})


def started(names="abc", rules=None, **peers):
    """A swarm whose first peer is known to all others."""
    swarm = Swarm(job(**(rules or {})))
    for name in names:
        swarm.start(name, [] if name == names[0] else [names[0]], **peers)
    return swarm


def played(names, rules, act, after=2.0):
    """Play peers, and act while they train; returns the swarm, and what each came to."""

    async def main():
        swarm = started(names, rules)
        await asyncio.sleep(after)
        await act(swarm)
        return swarm, await swarm.results()

    return play(main())


@contextlib.asynccontextmanager
async def elsewhere(swarm, name):
    """A peer of that name on another host, that knows a; with its run."""
    peer, transport = swarm.make(name, ["a"], host="elsewhere", life=1000)
    async with swarm.serving(peer, transport) as address:
        yield peer, asyncio.ensure_future(peer.run(address))


def outsider(swarm, name="a", interface=PeerService):
    """A peer as somebody else calls it."""
    node = Node(name="zz", contacts=contacts(name), transport=CountedTransport(swarm.network.host("outsider")))
    return node.connect(interface)


def view(swarm, *records, **changes):
    """The view of a peer that knows these records."""
    known = Membership(record("zz", address="http://nobody:1"))
    known.merge(records)
    fields = {"job": swarm.job.fingerprint, "base": "", "version": paceline.__version__, "learner": "zz"}
    return View(**{**fields, "members": known.encoded(), **changes})


def of(kind, swarm, learner=None):
    return [event for event in swarm.events if isinstance(event, kind) and learner in (None, event.learner)]


def ended(swarm, learner, epoch):
    """When a peer ended an epoch."""
    return next(event.at for event in of(EpochEnded, swarm, learner) if event.epoch == epoch)


def averaged(results):
    return {name: "".join(result.averaged) for name, result in results.items()}


def test_all_find_each_other_by_one_that_knows_two_and_end_with_the_same_model():
    async def main():
        swarm = Swarm(job(min_peers=5))
        for name, known in {"a": "", "b": "", "c": "ab", "d": "a", "e": "b"}.items():
            swarm.start(name, known)
        results = await swarm.results()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return swarm, results

    swarm, results = play(main())
    assert averaged(results) == dict.fromkeys("abcde", "abcde")
    assert len({tuple(result.parameters["float32"].tolist()) for result in results.values()}) == 1
    assert of(PeerLost, swarm) == []


def test_calls_before_it_begins_are_answered():
    async def main():
        swarm = Swarm(job())
        peer, transport = swarm.make("a")
        async with swarm.serving(peer, transport):
            remote = outsider(swarm)
            heard = Membership(record("b"))
            heard.merge_encoded((await remote.exchange_views.coro(view(swarm))).members)
            statuses = [(await remote[name].coro(*arguments)).status for name, *arguments in WAITING]
            newest = await remote.fetch_newest.coro("zz", "t")
            return heard.get("a"), statuses, newest, peer.status(), peer.device_states(), swarm.events

    known, statuses, newest, status, states, reported = play(main())
    assert known is None  # nobody should call it yet
    assert statuses == ["wait"] * 5
    assert (newest.epoch, newest.mass, status["epoch"], status["living"]) == (0, 0, 0, ["a", "zz"])
    assert states == {"living": 2, "gone": 0}
    assert [event.other for event in reported] == ["zz"]


WAITING = [
    *(("fetch_model", *arguments) for arguments in ((1, 0), (-7, -7), (10**30, 10**30))),
    ("fetch_trained",),
    ("fetch_average", "zz"),
]


def test_rubbish_and_strangers_are_refused_and_training_goes_on():
    broken = {
        "members": msgspec.msgpack.encode([{"name": "\x1b[2J", "address": "http://b:1", "life": 1}]),
        "job": "another",
        "base": "another",
        "version": "0.0",
        "learner": "a",
    }

    async def main():
        swarm = started("ab")
        remote, refused = outsider(swarm), []
        await asyncio.sleep(0.5)
        nan = {"float32": torch.full((64,), float("nan"))}
        attempts = [
            *(("exchange_views", view(swarm, **{name: value})) for name, value in broken.items()),
            ("exchange_views", {**msgspec.structs.asdict(view(swarm)), "learner": "b\n"}),
            ("exchange_views", {**msgspec.structs.asdict(view(swarm)), "members": b"\xc1" * 100}),
            ("exchange_views", 7),
            ("push", "zz", "t", 1, nan),
            ("push", "zz", "t", 1, {"float32": torch.zeros(3 << 20)}),
            ("fetch_model", "first", None),
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
    assert sum("this peer has other values in the parts of the model that do not travel" in why for why in refused) == 1
    assert averaged(results) == dict.fromkeys("ab", "ab")


@pytest.mark.parametrize("address", ["nowhere:1", "b:99999", "[broken", "b:7223/path", "a:7223", "b:7223"])
def test_made_up_peers_are_found_out(address):
    async def act(swarm):
        ghost = record("ghost", address=f"http://{address}", epoch=6, is_done=True)
        await outsider(swarm).exchange_views.coro(view(swarm, ghost))

    swarm, results = played("ab", {}, act, after=0.5)
    assert averaged(results) == dict.fromkeys("ab", "ab")
    assert "ghost" in {event.other for event in of(PeerLost, swarm, "a")}


def test_a_peer_that_is_said_to_be_dead_lives_on():
    async def act(swarm):
        forged = msgspec.structs.replace(swarm.peers[1]._membership.me, status="left", beat=1 << 53)
        await outsider(swarm).exchange_views.coro(view(swarm, forged))

    swarm, results = played("abc", {"epochs": 40}, act)
    assert set(averaged(results).values()) == {"abc"}
    assert {event.other for event in of(PeerLost, swarm, "a")} >= {"b"}
    assert sum(event.other == "b" for event in of(PeerSeen, swarm, "a")) == 2


def test_a_made_up_later_life_does_not_end_a_peer():
    async def act(swarm):
        rival = record("b", life=1 << 40, address="http://nowhere:1")
        await outsider(swarm, "b").exchange_views.coro(view(swarm, rival))

    swarm, results = played("abc", {"epochs": 40}, act)
    assert set(results) == set("abc")
    assert swarm.peers[1]._membership.me.life == (1 << 40) + 1


def test_of_two_with_one_name_the_older_gives_way():
    async def main():
        swarm = started("abc", {"epochs": 40})
        await asyncio.sleep(2)
        async with elsewhere(swarm, "b") as (_, running):
            await running
        await asyncio.wait(swarm.lives.values())
        return swarm.lives["b"].exception(), of(PeerEnded, swarm, "a")

    error, ended = play(main())
    assert isinstance(error, PacelineError)
    assert str(error) == "another peer has taken the name 'b'; give each a name of its own"
    assert ended[0].averaged == ("a", "b", "c")


def test_a_newcomer_that_is_slow_to_get_ready_keeps_nobody_waiting():
    async def act(swarm):
        swarm.start("late", ["a"], samples_per_second=6.4)  # it takes 20 seconds to measure itself
        await asyncio.sleep(15)

    swarm, results = played("ab", {"epochs": 100}, act)
    (begun,) = of(PeerStarted, swarm, "late")
    assert begun.at == pytest.approx(22, abs=1)
    longest = max(event.seconds for event in of(EpochEnded, swarm, "a") if event.at < 20)
    assert longest < 1.0
    assert set(averaged(results)) == {"a", "b", "late"}


def test_a_newcomer_whose_introducer_dies_learns_from_another():
    async def act(swarm):
        swarm.start("late", ["a"], samples_per_second=64.0)
        await asyncio.sleep(1)
        await swarm.kill("a")

    swarm, results = played("abc", {"epochs": 100, "min_peers": 3}, act)
    assert set(results) == {"b", "c", "late"}
    assert of(PeerStarted, swarm, "late")[0].epoch > 1


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_newcomers_while_others_finish_do_not_keep_them_for_ever(exchange):
    async def main():
        swarm = started("bc", {"exchange": exchange, "epochs": 30})
        await asyncio.sleep(0.2)
        number = 0
        while swarm.peers[0]._progress.epoch < 30:
            await asyncio.sleep(0.7)
            number += 1
            swarm.start(f"a{number:02}", ["b"])
        await asyncio.wait(swarm.lives.values())
        return {name: life.exception() for name, life in swarm.lives.items()}

    ends = play(main())
    assert len(ends) > 4
    assert ends["b"] is ends["c"] is None


def test_two_sides_that_were_apart_find_each_other_again():
    async def act(swarm):
        listener = swarm.network.listeners["b", DEFAULT_PORT]
        listener.link.cut()
        await asyncio.sleep(10)
        apart = [peer._membership.get(other).status for peer, other in zip(swarm.peers, "ba", strict=True)]
        assert apart == ["dead", "dead"]
        listener.link.mend()

    _, results = played("ab", {"epochs": 300}, act)
    assert averaged(results) == dict.fromkeys("ab", "ab")


def test_a_busy_peer_is_not_taken_for_gone():
    async def act(swarm):
        swarm.start("b", ["a"], samples_per_second=0.64)  # 100 seconds for an epoch

    swarm, results = played("a", {"epochs": 2}, act, after=0.0)
    assert averaged(results) == dict.fromkeys("ab", "ab")
    assert of(PeerLost, swarm) == []
    assert ended(swarm, "a", 1) > 200


def test_whoever_says_goodbye_is_not_missed():
    async def act(swarm):
        async with elsewhere(swarm, "c") as (peer, running):
            await asyncio.sleep(3)
            running.cancel()  # as when its user interrupts it
            await asyncio.wait((running,))
            await peer.leave()

    swarm, results = played("ab", {"epochs": 100, "min_peers": 3}, act, after=0.0)
    assert set(averaged(results).values()) == {"ab"}
    assert {(event.other, event.reason) for event in of(PeerLost, swarm)} == {("c", "it said goodbye")}


def test_probing_others_survives_whatever_happens(caplog):
    failed = []

    async def broken(preferred=()):
        failed.append(preferred)
        raise RuntimeError("a mistake")

    async def act(swarm):
        views = swarm.peers[0]._views
        exchange_with_one, views.exchange_with_one = views.exchange_with_one, broken
        await asyncio.sleep(2)
        views.exchange_with_one = exchange_with_one

    with caplog.at_level(logging.CRITICAL):
        _, results = played("ab", {"epochs": 200, "probe_seconds": 0.5}, act)
    assert len(failed) >= 3
    assert averaged(results) == dict.fromkeys("ab", "ab")


def test_anybody_can_ask_for_its_status_and_model_but_not_for_mass():
    strangers = (("", ""), ("stranger", "t"), ("b", "t"), ("b", "t2"))

    async def main():
        swarm = started("ab", {"exchange": "push-sum", "epochs": 200})
        await asyncio.sleep(2)
        asked, remote = outsider(swarm, interface=RoleService), outsider(swarm)
        described, state = await asked.describe.coro(), await asked.model.coro()
        newest = [await remote.fetch_newest.coro(*who) for who in strangers]
        mass = swarm.peers[0]._exchange.account.mass
        await swarm.results()
        return described, state, newest, mass

    described, state, newest, mass = play(main())
    status = described.status
    assert (described.topology, described.job["gossip"]["epochs"]) == ("gossip", 200)
    assert (status["learner"], status["epochs"], status["living"]) == ("a", 200, ["a", "b"])
    assert 0 < status["epoch"] < 200
    assert all(model["float32"].shape == (64,) for model in (state, *(reply.parameters for reply in newest)))
    assert [reply.mass > 0 for reply in newest] == [False, False, True, True]
    assert newest[2].mass == newest[3].mass
    assert mass > 0


def test_one_who_knows_only_the_dead_says_so():
    async def main():
        swarm = Swarm(job())
        swarm.start("a", ["nobody", "nowhere"])
        await asyncio.wait(swarm.lives.values())
        return swarm.lives["a"].exception(), asyncio.get_running_loop().time()

    error, at = play(main())
    assert str(error).startswith("no peer could be joined: http://nobody:7223: nobody listens there; http://nowhere")
    assert at < 70


@pytest.mark.parametrize("rules", [{"overlaps": True}, {"exchange": "push-sum", "push_probability": 1.0}])
def test_a_peer_that_is_cancelled_leaves_nothing_behind(rules):
    async def main():
        swarm = started("ab", {"epochs": 100, **rules})
        await asyncio.sleep(3)
        await swarm.end()
        return len(asyncio.all_tasks())

    assert play(main()) == 1


@pytest.mark.parametrize("exchange", ["mixing", "push-sum"])
def test_a_peer_whose_training_diverges_leaves_and_the_others_go_on(exchange):
    async def main():
        swarm = started(rules={"exchange": exchange})
        ruined, train = swarm.peers[2]._context.trainer, swarm.peers[2]._context.trainer.train

        async def diverge(parameters, shards, options=None):
            trained = await train(parameters, shards, options)
            nan = {kind: vector * float("nan") for kind, vector in trained.parameters.items()}
            return trained._replace(parameters=nan)

        ruined.train = diverge
        await asyncio.wait(swarm.lives.values())
        with pytest.raises(DivergedError, match="in epoch 1 on c: of its parameters, float32 holds NaN or infinity"):
            swarm.lives.pop("c").result()
        return await swarm.results()

    results = play(main())
    assert results.keys() == {"a", "b"}
    for result in results.values():
        assert torch.isfinite(result.parameters["float32"]).all()
