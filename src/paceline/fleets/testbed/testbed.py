"""A testbed as a whole: built, and removed whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import PacelineError
from paceline.fleets.testbed import cgroups, network, numbering, tools
from paceline.fleets.testbed.devices import TestbedDevice

_GRACE_SECONDS = 10.0  # for killed processes to be gone


@dataclass(frozen=True)
class Testbed:
    """A testbed that is ready for its members; devices count from 1.

    Attributes:
        number: number that no other testbed on this machine has.
    """

    number: int
    _hierarchy: cgroups.Hierarchy

    @property
    def address(self) -> str:
        """Address that the host must listen on."""
        return network.address_of(self.number, 0)

    def address_of(self, device: int) -> str:
        """Return the address of a device."""
        return network.address_of(self.number, device)

    def prefix(self, device: int) -> list[str]:
        """What to put before a command so that it runs on a device, and does not outlive this process."""
        namespace = f"--net=/var/run/netns/{network.place_of(self.number, device)}"
        return [tools.path_of("nsenter"), namespace, tools.path_of("setpriv"), "--pdeathsig", "KILL"]

    def adopt(self, device: int, process_id: int) -> None:
        """Make a process share what the device has of the processor."""
        self._hierarchy.adopt(network.place_of(self.number, device), process_id)

    def limit(self, device: int, cpu_share: float) -> None:
        """Change what the device has of the processor."""
        self._hierarchy.limit(network.place_of(self.number, device), cpu_share)

    def cut(self, device: int) -> None:
        """Have nothing get through to a device or back, as if its cable were pulled."""
        network.set_link(self.number, device, is_alive=False)

    def mend(self, device: int) -> None:
        """Undo a cut."""
        network.set_link(self.number, device, is_alive=True)


@contextlib.contextmanager
def build_testbed(devices: Sequence[TestbedDevice]) -> Iterator[Testbed]:
    """Build a testbed for the block. What testbeds left behind whose process was killed is removed first."""
    with numbering.claimed(tools.RUN, _remove) as number:
        places = [network.place_of(number, device) for device in range(1, len(devices) + 1)]
        hierarchy = cgroups.prepare(places, _private_of(number))
        network.build(number, devices)
        yield Testbed(number, hierarchy)


def _remove(number: int) -> None:
    """Remove all there is of a testbed; its processes are killed."""
    prefix = network.prefix_of(number)
    give_up = time.monotonic() + _GRACE_SECONDS
    while left := network.process_ids(number) | cgroups.members(prefix):
        if time.monotonic() > give_up:
            raise PacelineError(f"processes {sorted(left)} of a testbed cannot be killed")
        for process_id in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        time.sleep(0.01)
    network.remove(number)
    cgroups.remove(prefix)
    cgroups.unmount(_private_of(number))


def _private_of(number: int) -> Path:
    return tools.RUN / f"cgroups{number}"
