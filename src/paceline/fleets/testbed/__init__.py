"""An emulated testbed on this machine: a network namespace, a limited link and a share of the processor per device.

The learners are ``paceline join`` processes, and the orchestrator is the one that ``paceline serve`` runs; the kernel
holds them back. Needs Linux, and root.
"""

from paceline.fleets.testbed.devices import TestbedDevice
from paceline.fleets.testbed.fleet import TestbedFleet

__all__ = ["TestbedDevice", "TestbedFleet"]
