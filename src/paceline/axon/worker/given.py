"""The replies that a worker gave to calls with an id, so that one that was lost on its way can be given again."""

from __future__ import annotations

from collections import OrderedDict

from paceline.axon.messages import Reply, num_bytes

MAX_IDS = 1 << 16
"""Ids of calls that are known again."""

MAX_REPLY_BYTES = 1 << 14
"""Largest reply that is kept; a call whose reply was larger is refused when it is repeated."""

MAX_REPLIES = 1 << 13
"""Replies that are kept: who asks again does so within seconds."""

MAX_KEPT_BYTES = 1 << 24
"""Bytes of all replies that are kept."""


class GivenReplies:
    """Ids of simplex calls that were received, and the short replies to them, the newest of each."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._replies: OrderedDict[str, tuple[Reply, int]] = OrderedDict()
        self._num_bytes = 0

    def note(self, call_id: str) -> bool:
        """Note an id; returns whether it is new."""
        if call_id in self._ids:
            return False
        self._ids[call_id] = None
        if len(self._ids) > MAX_IDS:
            self._ids.popitem(last=False)
        return True

    def keep(self, call_id: str, reply: Reply) -> None:
        """Keep the reply to a call, if it is short."""
        size = num_bytes(reply.body)
        if size > MAX_REPLY_BYTES:
            return
        copied = Reply(reply.status, reply.headers, [b"".join(reply.body)])
        self._replies[call_id] = (copied, size)
        self._num_bytes += size
        while self._num_bytes > MAX_KEPT_BYTES or len(self._replies) > MAX_REPLIES:
            _, (_, dropped) = self._replies.popitem(last=False)
            self._num_bytes -= dropped

    def forget(self, call_id: str) -> None:
        """Forget a call that was stopped halfway: it may be made again."""
        self._ids.pop(call_id, None)

    def again(self, call_id: str) -> Reply | None:
        """Return the reply to a call that was received before; None if it is not known."""
        known = self._replies.get(call_id)
        return None if known is None else Reply(known[0].status, known[0].headers, known[0].body)
