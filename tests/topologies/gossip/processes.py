"""Peers as processes, in real time."""

import subprocess
import sys
import time

from paceline import events


class PeerProcess:
    """A peer in a process of its own, whose events go to a file.

    It is so slow that a newcomer has loaded its code long before the others are done.
    """

    def __init__(self, folder, name, part, *others, prefix=(), options=("--listen", "127.0.0.1:0")):
        self.name = name
        self._log = folder / f"{name}.jsonl"
        self.model = folder / f"{name}.safetensors"
        known = [word for address in others for word in ("--peer", address)]
        command = ["gossip", "job.toml", *options, "--name", name, "--data", part, *known]
        command += ["--emulate", "slowdown=30", "--token", "S3cret", "--save", self.model.name, "--json"]
        with self._log.open("wb") as log, (folder / f"{name}.err").open("wb") as errors:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "paceline", *command], cwd=folder, stdout=log, stderr=errors
            )

    def events(self, kind):
        """What it reported so far of one kind."""
        lines = self._log.read_bytes().splitlines(True)
        recorded = [events.from_line(line) for line in lines if line.endswith(b"\n")]
        return [event for event in recorded if isinstance(event, kind)]

    def wait_for(self, kind, is_it=lambda event: True):
        """The first event of a kind that is the one; for at most three minutes."""
        for _ in range(1800):
            found = next((event for event in self.events(kind) if is_it(event)), None)
            if found is not None:
                return found
            assert self.process.poll() is None, (self.name, self.errors())
            time.sleep(0.1)
        raise AssertionError(f"{self.name} reported no {kind.__name__} in three minutes")

    def errors(self):
        """What it wrote to standard error."""
        return self._log.with_suffix(".err").read_text()
