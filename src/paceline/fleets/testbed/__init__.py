"""An emulated testbed on this machine: a network namespace, a limited link and a share of the processor per device.

Members are processes of ``paceline join`` or ``paceline gossip``, which the kernel holds back; the host runs in this
process. Needs Linux, and root.
"""

from paceline.fleets.testbed.devices import TestbedDevice
from paceline.fleets.testbed.fleet import TestbedFleet

__all__ = ["TestbedDevice", "TestbedFleet"]
