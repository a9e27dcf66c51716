"""A host that devices, submitters, viewers and admins call: who may do what, and which name is whose."""

import asyncio
import contextlib
import json
from dataclasses import replace

import pytest

import paceline
from paceline import axon
from paceline.axon.client.remote import parse_address
from paceline.axon.keys import DeviceKey, short
from paceline.axon.messages import Request
from paceline.axon.transports import CountedTransport
from paceline.axon.transports.memory import MemoryNetwork
from paceline.errors import Refused, RemoteError
from paceline.fleets import virtual_loop
from paceline.topologies.access import AdminService, HostAccess
from paceline.topologies.base import Contact, Environment, Node, RoleService, TakesJobs, run_in_place, serving
from paceline.topologies.events import LearnerJoined, LearnerLeft
from paceline.topologies.parallel.messages import OrchestratorService
from paceline.topologies.parallel.prepared import prepare_job
from paceline.topologies.parallel.single_job import SingleJob
from paceline.topologies.parallel.topology import JobPlan
from tests.topologies.parallel.runs import small_job

TOKENS = {"learner": "join-token", "submitter": "submit-token", "admin": "admin-token"}
KEY, OTHER = DeviceKey.generate(), DeviceKey.generate()


class Scene:
    """A host on virtual time, and whoever calls it."""

    def __init__(self, folder, **settings):
        self.now = 1.8e9
        self.events = []
        self._folder = folder
        self._settings = {"tokens": TOKENS, **settings}

    def play(self, main):
        """Call a coroutine function while the host runs."""
        return virtual_loop.run(self._play(main))

    async def _play(self, main):
        access = HostAccess(folder=self._folder, now=lambda: self.now, **self._settings)
        env = Environment(clock="virtual", emit=self.events.append, run_blocking=run_in_place, access=access)
        prepared = prepare_job(small_job())
        self.host, self.network = SingleJob(prepared, env), MemoryNetwork()
        transport = self.network.host("host")
        async with serving(self.host, JobPlan(prepared), "host", env, transport=transport) as self.address:
            running = asyncio.ensure_future(self.host.run(""))
            try:
                return await main()
            finally:
                running.cancel()
                await asyncio.wait((running,))
                access.close()

    def call(self, interface, token, address="10.0.0.9"):
        return axon.connect(self.address, interface=interface, token=token, transport=self.network.host(address))

    async def join(self, name="pi", key=KEY, token="join-token", address="10.0.0.7"):
        transport = CountedTransport(self.network.host(address))
        node = Node(name=name, key=key, contacts=[Contact(self.address)], transport=transport, trust={"token": token})
        host = node.connect(OrchestratorService)
        return (await host.join.coro(name, paceline.__version__, 0.0, await node.prove(host))).session

    async def refused(self, *args, **kwargs):
        """Why joining is refused."""
        with pytest.raises((RemoteError, Refused)) as caught:
            await self.join(*args, **kwargs)
        return getattr(caught.value, "remote_message", str(caught.value))

    async def invite(self, role="learner", name="", uses=None, seconds=3600.0):
        terms = {"role": role, "name": name, "uses": uses, "seconds": seconds}
        return await self.call(AdminService, "admin-token").invite.coro(terms)

    def audit(self):
        return [json.loads(line) for line in (self._folder / "audit.jsonl").read_text().splitlines()]


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


# Names and keys.


def test_a_name_belongs_to_the_first_key_that_joins_under_it(scene):
    async def main():
        first = await scene.join()
        why = await scene.refused(key=OTHER, address="10.6.6.6")
        again = await scene.join()
        with pytest.raises(RemoteError, match="another device has joined as 'pi'"):
            await scene.call(OrchestratorService, "join-token").leave.coro(first)
        await scene.call(OrchestratorService, "join-token").leave.coro(again)
        assert await scene.refused(key=OTHER) == why  # also when it is away
        await scene.join("other", OTHER)
        return why

    keys = (short(KEY.public), short(OTHER.public))
    assert scene.play(main) == (
        f"this name belongs to another device, with the key {keys[0]}, not {keys[1]}: join under another one (--name), "
        "or with the key of that device (--device-key)"
    )
    assert [event.learner for event in scene.events if isinstance(event, LearnerJoined)] == ["pi", "pi", "other"]
    lines = [(line["what"], line["name"], line["key"], line["address"], line.get("count", 1)) for line in scene.audit()]
    assert lines == [
        ("join", "pi", keys[0], "10.0.0.7", 1),
        ("refusal", "pi", keys[1], "10.6.6.6", 1),
        ("takeover", "pi", keys[0], "10.0.0.7", 1),
        ("refusal", "pi", keys[1], "10.0.0.7", 1),
        ("join", "other", keys[1], "10.0.0.7", 1),
    ]


def test_a_device_without_a_key_or_with_a_forged_proof_is_refused(scene):
    async def main():
        assert await scene.refused(key=None) == "a device joins with a key of its own, and this one showed none"
        await scene.join()

        class Thief:  # has seen the public key, and signs with its own
            public = KEY.public
            sign = OTHER.sign

        assert "the signature of its key is wrong" in await scene.refused(key=Thief)

    scene.play(main)


def test_a_proof_cannot_be_used_again(scene):
    async def main():
        transport = CountedTransport(scene.network.host("pi"))
        trust = {"token": "join-token"}
        node = Node(name="pi", key=KEY, contacts=[Contact(scene.address)], transport=transport, trust=trust)
        host = node.connect(OrchestratorService)
        proof = await node.prove(host)
        await host.join.coro("pi", paceline.__version__, 0.0, proof)
        with pytest.raises(RemoteError, match="LookupError.*this challenge is not known here any more"):
            await host.join.coro("pi", paceline.__version__, 0.0, proof)

    scene.play(main)


def test_a_host_that_passes_a_proof_on_does_not_get_in(tmp_path):
    scene = Scene(tmp_path, fingerprint="sha256:" + 64 * "a")

    async def main():
        transport = CountedTransport(scene.network.host("pi"))
        trust = {"token": "join-token"}
        honest = Node(name="pi", key=KEY, contacts=[Contact(scene.address)], transport=transport, trust=trust)
        host = honest.connect(OrchestratorService)
        for middle in ("https://evil#sha256:" + 64 * "b", "http://evil"):
            address, _, fingerprint = middle.partition("#")
            deceived = replace(honest, contacts=[Contact(address, fingerprint or None)])
            with pytest.raises(RemoteError, match="was made for another address"):
                await host.join.coro("pi", paceline.__version__, 0.0, await deceived.prove(host))

    scene.play(main)


def test_bindings_survive_the_host(scene, tmp_path):
    async def before():
        await scene.join()
        await scene.invite("viewer", "ann")

    scene.play(before)
    again = Scene(tmp_path)

    async def after():
        assert "this name belongs to another device" in await again.refused(key=OTHER)
        await again.join()
        return await again.call(AdminService, "admin-token").devices.coro()

    pi, ann = again.play(after)
    assert (pi.name, pi.key, pi.state, pi.address, pi.by) == (
        "pi",
        short(KEY.public),
        "here",
        "10.0.0.7",
        "token of the role learner",
    )
    assert (ann.name, ann.role, ann.state) == ("ann", "viewer", "open")
    assert (tmp_path / "devices.json").stat().st_mode & 0o777 == 0o600
    kept = (tmp_path / "devices.json").read_text() + (tmp_path / "audit.jsonl").read_text()
    assert not any(token in kept for token in TOKENS.values())


# Roles.


async def call_all(scene, token):
    """Try one call of each kind; returns those that are allowed."""
    join, jobs, role = (scene.call(kind, token) for kind in (OrchestratorService, TakesJobs, RoleService))
    calls = {
        "describe": lambda: role.describe.coro(),
        "model": lambda: role.model.coro(),
        "progress": lambda: jobs.progress.coro(),
        "join": lambda: join.next_round.coro("no session", 0, None),
        "submit": lambda: jobs.submit.coro({}),
        "administer": lambda: scene.call(AdminService, token).devices.coro(),
    }
    refused = {}
    for name, call in calls.items():
        with contextlib.suppress(RemoteError):  # it got as far as the function
            try:
                await call()
            except Refused as error:
                refused[name] = error.status
    assert set(refused.values()) <= {403}
    return calls.keys() - refused.keys()


VIEW = {"describe", "model", "progress"}


def test_each_role_may_do_its_own_and_no_more(scene):
    async def main():
        viewer = await scene.invite("viewer")
        found = [await call_all(scene, token) for token in (*TOKENS.values(), viewer.token)]
        assert found == [VIEW | {"join"}, VIEW | {"submit"}, VIEW | {"join", "submit", "administer"}, VIEW]
        with pytest.raises(Refused) as caught:
            await scene.call(TakesJobs, "join-token").submit.coro({})
        with pytest.raises(Refused, match="the token is wrong"):
            await scene.call(RoleService, "guess").describe.coro()
        return str(caught.value)

    assert scene.play(main).endswith(
        "this token is for the role learner, which is not allowed to submit jobs; use a token of the role submitter "
        "(paceline invite)"
    )


def test_without_a_token_everybody_may_do_all_but_administer(tmp_path):
    scene = Scene(tmp_path, tokens={"admin": "admin-token"})

    async def main():
        assert await call_all(scene, None) == VIEW | {"join", "submit"}
        assert "administer" in await call_all(scene, "admin-token")
        await scene.join(token=None)

    scene.play(main)


async def get(scene, path, token=None):
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    request = Request("GET", path, headers=headers)
    return await scene.network.host("10.0.0.9").request(parse_address(scene.address), request, timeout=5)


def test_metrics_are_for_those_who_may_see_and_health_for_all(scene):
    async def main():
        viewer, learner = await scene.invite("viewer", seconds=60), await scene.invite("learner", seconds=60)
        for token in (*TOKENS.values(), viewer.token, learner.token):
            assert (await get(scene, "/metrics", token)).status == 200
        for token in (None, "guess"):
            assert (await get(scene, "/metrics", token)).status == 401
        scene.now += 61
        for token in (viewer.token, learner.token):
            assert (await get(scene, "/metrics", token)).status == 403
        assert bytes((await get(scene, "/healthz")).content) == b'{\n  "status": "ok"\n}\n'
        scene.host.is_ending = True
        assert (await get(scene, "/healthz")).status == 503
        await scene.join()
        text = bytes((await get(scene, "/metrics", "admin-token")).content).decode()
        assert 'paceline_devices{state="measuring"} 1\n' in text
        assert 'paceline_refused_requests_total{status="401"} 2\n' in text
        assert all(token not in text for token in (*TOKENS.values(), viewer.token))

    scene.play(main)


def test_every_call_of_a_host_needs_a_right_or_is_only_described(scene):
    async def main():
        names = {rpc.name for rpc in (await scene.call(None, "admin-token")._caller.describe_worker()).rpcs}
        assert names - scene.host.env.access._needs.keys() == {"describe"}

    scene.play(main)


# Invitations.


def test_an_invitation_lets_so_many_devices_in(tmp_path):
    scene = Scene(tmp_path, tokens={"admin": "admin-token"}, is_invite_only=True)

    async def main():
        assert "a token is needed" in await scene.refused(token=None)
        two = await scene.invite(uses=2)
        await scene.join("a", token=two.token)
        await scene.join("b", OTHER, token=two.token)
        why = await scene.refused("c", DeviceKey.generate(), token=two.token)
        assert why == f"the invitation for {two.name!r} is used up, 2 of 2; ask for another"
        await scene.join("a", token=two.token)  # who was let in may come back
        assert "is used up" in await scene.refused("c", token=two.token)  # but not under another name

    scene.play(main)


def test_an_invitation_for_a_name_is_for_no_other(scene):
    async def main():
        invited = await scene.invite(name="pi4")
        assert await scene.refused("pi5", token=invited.token) == "the invitation is for 'pi4' (--name)"
        await scene.join("pi4", token=invited.token)
        assert "this name belongs to another device" in await scene.refused("pi4", OTHER, token=invited.token)

    scene.play(main)


def test_an_invitation_expires(scene):
    async def main():
        learner, viewer = await scene.invite(uses=5), await scene.invite("viewer", "ann")
        await scene.join("a", token=learner.token)
        scene.now += 3600
        why = await scene.refused("b", OTHER, token=learner.token)
        assert why == f"the invitation for {learner.name!r} expired at 2027-01-15 09:00 UTC; ask for another"
        await scene.join("a", token=learner.token)
        await scene.call(RoleService, learner.token).describe.coro()  # as it does first when it comes back
        for call in ("describe", "model"):
            with pytest.raises(Refused, match="the invitation for 'ann' expired at 2027-01-15 09:00 UTC"):
                await scene.call(RoleService, viewer.token)[call].coro()
        with pytest.raises(Refused, match=f"the invitation for {learner.name!r} expired"):
            await scene.call(RoleService, learner.token).model.coro()

    scene.play(main)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("viewer", "", 2, 60.0),
            "uses are for devices that join and jobs that are submitted, not for the role viewer",
        ),
        (("learner", "pi", 2, 60.0), "an invitation for the device 'pi' has one use, not 2"),
        (("learner", "", 0, 60.0), "`int` >= 1"),
        (("learner", "", 1, 0.0), "`float` > 0.0"),
        (("learner", "", 1, 1e12), "`float` <= 315360000.0"),
        (("boss", "", 1, 60.0), "Invalid enum value 'boss'"),
        (("learner", 65 * "x", 1, 60.0), "`str` of length <= 64"),
    ],
)
def test_invitations_that_cannot_be_are_refused(scene, arguments, message):
    async def main():
        with pytest.raises((RemoteError, Refused), match=message):
            await scene.call(AdminService, "admin-token").invite.coro(
                dict(zip(("role", "name", "uses", "seconds"), arguments, strict=True))
            )

    scene.play(main)


def test_too_many_invitations_are_refused(scene, monkeypatch):
    monkeypatch.setattr("paceline.topologies.access.registry.MAX_INVITATIONS", 2)

    async def main():
        await scene.invite()
        await scene.invite()
        with pytest.raises(RemoteError, match="this host keeps 2 invitations, and can keep no other"):
            await scene.invite()
        scene.now += 3600
        await scene.invite()  # those that expired unused make room

    scene.play(main)


# Revoking.


def test_a_revoked_device_is_out_and_stays_out(scene, tmp_path):
    async def main():
        session = await scene.join()
        await scene.join("twin")  # of the same key
        admin = scene.call(AdminService, "admin-token")
        await admin.revoke.coro("pi")
        assert '"is_revoked":true' in (tmp_path / "devices.json").read_text()  # at once, should the host be killed now
        with pytest.raises(RemoteError, match="LookupError"):
            await scene.call(OrchestratorService, "join-token").next_round.coro(session, 0, None)
        key = f"the device with the key {short(KEY.public)} was revoked"
        assert [await scene.refused(name) for name in ("pi", "twin", "new")] == [key, key, key]
        assert await scene.refused(key=OTHER) == "this name was revoked"
        with pytest.raises(RemoteError, match="no device and no invitation here is called 'nobody'"):
            await admin.revoke.coro("nobody")
        return await admin.devices.coro()

    assert [(one.name, one.state) for one in scene.play(main)] == [("pi", "revoked"), ("twin", "revoked")]
    assert [event.reason for event in scene.events if isinstance(event, LearnerLeft)] == 2 * ["it was revoked"]
    again = Scene(tmp_path)

    async def after():
        return await again.refused()

    assert "was revoked" in again.play(after)
    assert ("revocation", "pi", "token of the role admin") in [
        (line["what"], line["name"], line["by"]) for line in again.audit() if "name" in line
    ]


def test_a_name_that_is_released_belongs_to_the_next(scene):
    async def main():
        await scene.join()
        admin = scene.call(AdminService, "admin-token")
        await admin.release.coro("pi")
        await scene.join(key=OTHER)
        assert "this name belongs to another device" in await scene.refused()
        with pytest.raises(RemoteError, match="no device here is called 'nobody'"):
            await admin.release.coro("nobody")

    scene.play(main)


def test_a_revoked_invitation_lets_nobody_new_in(scene):
    async def main():
        learners, submitter = await scene.invite(uses=9), await scene.invite("submitter", "bob")
        await scene.join("a", token=learners.token)
        admin = scene.call(AdminService, "admin-token")
        for invited in (learners, submitter):
            await admin.revoke.coro(invited.name)
        assert (
            await scene.refused("b", OTHER, token=learners.token) == f"the invitation for {learners.name!r} was revoked"
        )
        await scene.join("a", token=learners.token)
        with pytest.raises(Refused, match="the invitation for 'bob' was revoked"):
            await scene.call(TakesJobs, submitter.token).submit.coro({})

    scene.play(main)


def test_a_devices_file_that_cannot_be_read_is_no_reason_to_let_all_in(tmp_path):
    (tmp_path / "devices.json").write_text("{")
    with pytest.raises(paceline.errors.ConfigError, match=r"devices\.json cannot be read: .*names would be anybody's"):
        HostAccess(TOKENS, folder=tmp_path)


def test_who_is_revoked_is_out_even_if_that_cannot_be_kept(scene, tmp_path):
    async def main():
        session = await scene.join()
        (tmp_path / "devices.json.new").mkdir()  # nothing can be written in its place
        with pytest.raises(RemoteError, match=r"devices\.json cannot be written: Is a directory"):
            await scene.call(AdminService, "admin-token").revoke.coro("pi")
        with pytest.raises(RemoteError, match="LookupError"):
            await scene.call(OrchestratorService, "join-token").next_round.coro(session, 0, None)
        assert "was revoked" in await scene.refused()

    scene.play(main)
