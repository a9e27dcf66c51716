"""A worker's functions at the address of another worker, under a path of their own."""

from __future__ import annotations

from dataclasses import replace

from paceline.axon.messages import Reply, Request
from paceline.axon.transports.base import Site
from paceline.axon.worker.app import WorkerApp


class MountedApp(Site):
    """An app that answers the requests below a path.

    Args:
        path: such as ``/relay``; the app sees what comes after it.
    """

    def __init__(self, path: str, app: WorkerApp) -> None:
        self._path = path
        self._app = app

    def serves(self, head: Request) -> bool:
        return head.path.startswith(f"{self._path}/")

    def admit(self, head: Request, num_body_bytes: int) -> Reply | None:
        return self._app.admit(self._below(head), num_body_bytes)

    async def handle(self, request: Request) -> Reply:
        return await self._app.handle(self._below(request))

    async def close(self) -> None:
        await self._app.close(0)
        await self._app.close_executors()

    def _below(self, request: Request) -> Request:
        return replace(request, path=request.path.removeprefix(self._path))
