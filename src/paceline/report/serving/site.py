"""The page of a run at the address where devices join: browsers get the page, devices and programs the calls."""

from __future__ import annotations

from paceline.axon.host_names import HostNames
from paceline.axon.messages import Request
from paceline.axon.transports.base import Site
from paceline.report.serving.app import EVENTS
from paceline.report.serving.door import SESSION, Door
from paceline.report.serving.process import PageProcess
from paceline.topologies.base import Environment


class PageSite(Door, Site):
    """Shows a run to browsers whose owner may see how far it is.

    Args:
        env: environment of the run's host, or of the host's part in a run without one.
        host: address that it listens on.
        hosts: further names of this machine.
        is_encrypted: whether it is reached by TLS.
    """

    def __init__(self, env: Environment, host: str, hosts: tuple[str, ...], *, is_encrypted: bool) -> None:
        assert env.folder is not None and env.access is not None, "a host has both"
        self._process = PageProcess(env.folder)
        access = env.access
        names = HostNames(host, hosts)
        super().__init__(
            self._process.handle, access.refuse_viewer, names, is_open=access.is_open, is_encrypted=is_encrypted
        )

    def serves(self, head: Request) -> bool:
        is_browser = head.method in ("GET", "HEAD") and "text/html" in head.headers.get("accept", "")
        return head.path in (EVENTS, SESSION) or (head.path == "/" and is_browser)

    async def close(self) -> None:
        await self._process.close()
