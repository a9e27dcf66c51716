"""The network of a testbed: a bridge, and per device a namespace with a link to it, limited both ways.

Testbed 3 has the bridge ``paceline3`` with the orchestrator's address, 198.19.3.1; its second device has the namespace
and the link ``paceline3-2``, and the address 198.19.3.3. The block 198.18.0.0/15 is set aside for benchmarks of
networks (RFC 2544): nothing else should have it.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from paceline.errors import PacelineError
from paceline.fleets.testbed import tools
from paceline.fleets.testbed.devices import TestbedDevice

MOST_DEVICES = 250

_NAMESPACES = Path("/var/run/netns")  # where `ip` has them
_BURST_SECONDS = 0.002
_LEAST_BURST_BYTES = 5_000  # three packets
_QUEUE_SECONDS = 0.1
_LEAST_QUEUE_BYTES = 256_000  # so that a sender is slowed down rather than losing packets


def prefix_of(number: int) -> str:
    """How the names of a testbed's places begin, and no others."""
    return f"paceline{number}-"


def place_of(number: int, device: int) -> str:
    """The name of a device's namespace, link and cgroup; devices count from 1."""
    return f"{prefix_of(number)}{device}"


def build(number: int, devices: Sequence[TestbedDevice]) -> None:
    """Make all there is of a testbed's network."""
    bridge = _bridge_of(number)
    lines = [f"link add name {bridge} type bridge", f"addr add {address_of(number, 0)}/24 dev {bridge}"]
    for place in (place_of(number, device) for device in range(1, len(devices) + 1)):
        lines += [
            f"netns add {place}",
            f"link add name {place} type veth peer name eth0 netns {place}",
            f"link set {place} master {bridge} up",
        ]
    tools.batch("ip", [*lines, f"link set {bridge} up"])
    for index, device in enumerate(devices, 1):
        place = place_of(number, index)
        lines = [f"addr add {address_of(number, index)}/24 dev eth0", "link set eth0 up", "link set lo up"]
        tools.batch("ip", lines, namespace=place)
        # A limit is on what an end sends: downloads at the bridge's end, uploads at the device's.
        for mbit, link, namespace in ((device.down_mbit, place, None), (device.up_mbit, "eth0", place)):
            if mbit < math.inf:
                tools.batch("tc", [f"qdisc add dev {link} root {_limited_to(mbit)}"], namespace=namespace)


def set_link(number: int, device: int, *, is_alive: bool) -> None:
    """Cut a device's link, or mend it."""
    tools.run("ip", "link", "set", place_of(number, device), "up" if is_alive else "down")


def process_ids(number: int) -> set[int]:
    """Return the ids of all processes in a testbed's namespaces."""
    return {int(text) for place in _namespaces(number) for text in tools.run("ip", "netns", "pids", place).split()}


def remove(number: int) -> None:
    """Remove a testbed's network, as much of it as there is; raises `PacelineError` if something stays."""
    # Links first: without, they would go some time after their namespaces.
    lines = [f"link del {name}" for name in _links(number)] + [f"netns del {name}" for name in _namespaces(number)]
    if lines:
        tools.batch("ip", lines, is_lenient=True)
    left = [*_links(number), *_namespaces(number)]
    if left:
        raise PacelineError(f"a testbed's links or network namespaces cannot be removed: {', '.join(left)}")


def address_of(number: int, device: int) -> str:
    """Return the address of a device, or of the host, which is number 0."""
    return f"198.19.{number}.{device + 1}"


def _limited_to(mbit: float) -> str:
    bytes_per_second = mbit * 1e6 / 8
    burst = max(_LEAST_BURST_BYTES, int(bytes_per_second * _BURST_SECONDS))
    queue = max(_LEAST_QUEUE_BYTES, int(bytes_per_second * _QUEUE_SECONDS))
    return f"tbf rate {round(mbit * 1e6)}bit burst {burst} limit {queue + burst}"


def _links(number: int) -> list[str]:
    listed = msgspec.json.decode(tools.run("ip", "-json", "link", "show"), type=list[dict[str, object]])
    return [name for link in listed if _is_of(number, name := str(link["ifname"]))]


def _namespaces(number: int) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return [name for name in os.listdir(_NAMESPACES) if _is_of(number, name)]
    return []


def _is_of(number: int, name: str) -> bool:
    return name == _bridge_of(number) or name.startswith(prefix_of(number))


def _bridge_of(number: int) -> str:
    return f"paceline{number}"
