"""Offering functions to other devices.

from paceline import axon

@axon.worker.rpc()
def simple_hello(name):
    return f"Hello {name}!!"

axon.worker.init()
"""

from paceline.axon.transports.base import DEFAULT_PORT
from paceline.axon.worker.executors import is_cancelled
from paceline.axon.worker.worker import Worker, default, init, rpc, serve, service

__all__ = ["DEFAULT_PORT", "Worker", "default", "init", "is_cancelled", "rpc", "serve", "service"]
