"""Split models without anything between their parts: one process does what all of them do, one after the other.

Run as a module, by `lifeline`, it prints what that took.
"""

from __future__ import annotations

import json
import sys

import numpy as np

import split_work
from split_work import NUM_EPOCHS, SourcePart, TrunkPart, source_name
from steps import Mark, told


def main() -> None:
    """Train, and tell."""
    prepared = split_work.prepare(**json.loads(sys.argv[1]))
    trunk = TrunkPart(prepared)
    sources = {source_name(number): SourcePart(prepared) for number in range(1, prepared.job.sources + 1)}
    num_steps = split_work.num_steps(prepared)
    start = Mark.now()
    for epoch in range(1, NUM_EPOCHS + 1):
        start = Mark.now()
        for step in range(num_steps):
            gradients = trunk.step(epoch, step, {name: one.forward(epoch, step) for name, one in sources.items()})
            for name, one in sources.items():
                one.backward(step, gradients[name])
    taken = Mark.now().since(start)
    print(json.dumps(told(taken, [], float(np.mean(trunk.losses[-num_steps:])))))


if __name__ == "__main__":
    main()
