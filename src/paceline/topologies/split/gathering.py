"""What sources bring to the meetings of an epoch, and the answers that they wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from typing import Any

from paceline.axon import loops
from paceline.topologies.split.messages import Answer, Meeting, Tensors


class Gathering:
    """The meetings of one epoch, one after the other.

    Args:
        kept: answers of so many meetings are kept, for who asks again because one was lost on its way.

    Attributes:
        index: the meeting that is on.
    """

    def __init__(self, epoch: int, meetings: Sequence[Meeting], kept: int) -> None:
        self.epoch = epoch
        self.meetings = meetings
        self.index = 0
        self._kept = kept
        self._brought: dict[int, dict[str, Any]] = {}
        self._answers: dict[tuple[int, str], asyncio.Future[Answer]] = {}

    def has(self, source: str, index: int) -> bool:
        """Whether a source has brought what it should."""
        return source in self._brought.get(index, ())

    def put(self, source: str, index: int, content: Any) -> None:
        """Keep what a source brought to a meeting that is still to come, or on."""
        self._brought.setdefault(index, {})[source] = content

    def brought(self, index: int) -> dict[str, Any]:
        """What was brought to a meeting so far, by source."""
        return self._brought.get(index, {})

    def waiting_after(self, index: int) -> Set[str]:
        """Who has brought something to a later meeting."""
        return {source for later, box in self._brought.items() if later > index for source in box}

    def forget(self, source: str) -> None:
        """Drop what a source brought that nobody has looked at: it will bring it anew."""
        for index, box in self._brought.items():
            if index >= self.index:
                box.pop(source, None)

    def answer(self, answers: Mapping[str, Tensors]) -> None:
        """Answer all who brought something to the meeting that is on, and go on to the next."""
        for source in self._brought.pop(self.index, {}):
            answer = self._answer(source, self.index)
            if not answer.done():
                answer.set_result(Answer(status="ready", tensors=dict(answers.get(source, {}))))
        self.index += 1
        for index, source in [key for key in self._answers if key[0] < self.index - self._kept]:
            del self._answers[index, source]

    async def answer_to(self, source: str, index: int, wait_seconds: float) -> Answer:
        """The answer that a source waits for, or ``wait`` if that takes long."""
        if index < self.index and (index, source) not in self._answers:
            return Answer(status="late")
        answer = self._answer(source, index)
        return answer.result() if await loops.settled(answer, wait_seconds) else Answer(status="wait")

    def _answer(self, source: str, index: int) -> asyncio.Future[Answer]:
        key = (index, source)
        if key not in self._answers:
            self._answers[key] = asyncio.get_running_loop().create_future()
        return self._answers[key]

    def end(self) -> None:
        """Nobody will be answered any more who has not been."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(Answer(status="late"))
