"""The names under which a worker may be called, against web pages that call it under names of their own.

A page can give its own host name the address of this machine ("DNS rebinding"); the browser then takes requests to the
worker for requests to the page's server, and sends no `Origin` with them. The `Host` header shows the page's name.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Collection, Mapping

from paceline.axon.access import is_ip_address
from paceline.axon.messages import Reply

_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<name>[^:\[\]]+))(?::\d{1,5})?")


class HostNames:
    """Names of this machine.

    Args:
        listening: host name or address that the worker listens on.
        further: names that its owner adds.
    """

    def __init__(self, listening: str, further: Collection[str] = ()) -> None:
        here = platform.node().lower()
        names = ("localhost", listening, here, f"{here}.local", *further)
        self._names = {name.lower().rstrip(".") for name in names if name}

    def refuse(self, headers: Mapping[str, str]) -> Reply | None:
        """Refuse a request for another host. An address is always right: no page can have taken it for a name."""
        given = headers.get("host")
        if given is None or self._is_known(given):
            return None
        return Reply.refusal(
            403,
            f"{given[:100]!r} is no name of this worker: call it by its address, or start it with --allow-host NAME",
        )

    def _is_known(self, given: str) -> bool:
        found = _HOST.fullmatch(given.strip())
        if found is None:
            return False
        host = (found["ipv6"] or found["name"]).lower().rstrip(".")
        return host in self._names or is_ip_address(host)
