"""How long a lock is believed in. It is as long as pawld said, counted from before the request that it answered was written.

Threads share it without a mutex: what they share is replaced or added as a whole. So a signal
handler may look at it, whatever it interrupts.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Dict, List, Optional, Protocol

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_process = object()
"""This process. A fork's child gets another one: a pid can repeat."""


def _forked() -> None:
    global _process
    _process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def process() -> object:
    return _process


class LockLost(Exception):
    """The lock is no longer held. why says what ended it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"lock {name!r} is not held: {why}")
        self.name = name
        self.why = why


class Instant:
    """A reading of both clocks, one that counts a suspend, and the wall clock."""

    __slots__ = ("boot", "wall")

    def __init__(self) -> None:
        self.boot = time.clock_gettime_ns(_CLOCK)
        self.wall = time.time_ns()

    def since(self, earlier: "Instant") -> int:
        return max(self.boot - earlier.boot, self.wall - earlier.wall)


class Flag(Protocol):
    """An event, of threads or of asyncio."""

    def set(self) -> None: ...


class Validity:
    """What both clients' Lock knows without I/O."""

    _wanted: Flag

    def __init__(self, request_id: str, names: List[str], ttl: float, max_hold: int, stall: int) -> None:
        self.name = ", ".join(names)
        self.names = names
        self.token = 0
        """For the storage. It is greater than the token of every holder before, of each of the names."""
        self.slot = 0
        """The number of a semaphore's slot, which no other holder has."""
        self.keys: List[str] = []
        """Its keys in etcd, one for each of its names."""
        self._id = request_id
        self._process = _process
        self._ttl = ttl
        self._validity = (Instant(), 0)  # since when, and for how many ns
        self._max_hold = max_hold
        self._stall = stall
        self._progressed: Optional[Instant] = None
        self._ended: Dict[str, str] = {}  # "why", once it has: the first to say so is right
        self._lost = ""
        self._asks = False  # whether it is wanted
        self._known: Optional[Instant] = None
        self._guard = threading.RLock()  # of those that extend the validity: who looks takes nothing

    def held(self) -> bool:
        """Whether it is held, by the clock at this call. It does no I/O."""
        return self._why() == ""

    def check(self) -> None:
        """Raises LockLost unless it is held. It does no I/O."""
        why = self._why()
        if why:
            raise LockLost(self.name, why)

    def _why(self) -> str:
        if self._process is not _process:
            return "another process acquired it"
        now = Instant()  # before the validity is read: who is stopped in between ends none that was extended
        sent, valid = self._validity
        if now.since(sent) >= valid:
            self._end(self._bound())  # what has ended stays ended
        return self._ended.get("why", "")

    def _left(self) -> int:
        """For how many more ns the lock is believed in, if nothing extends that."""
        now = Instant()
        sent, valid = self._validity
        return 0 if self._ended else max(valid - now.since(sent), 0)

    def _bound(self) -> str:
        """What ended the validity, as far as the client can tell. That is MAX_HOLD or STALLED if that bound comes before the end of the TTL."""
        sent, _ = self._validity
        known = self._known or sent
        until = sent.since(known) + int(self._ttl * 1e9)
        stall = (self._progressed or known).since(known) + self._stall if self._stall > 0 else until + 1
        if 0 < self._max_hold <= min(until, stall):
            return "MAX_HOLD"
        return "STALLED" if stall <= until else "EXPIRED"

    def _believe(self, sent: Instant, answer: Dict[str, Any]) -> None:
        valid = int(answer.get("validForMs", "0")) * 1_000_000
        now = Instant()
        with self._guard:
            if self._known is None:
                self.token = int(answer["token"])
                self.keys = answer["keys"]
                self.slot = int(answer.get("slot", 0))
                self._validity = sent, valid
                self._known = now
                return
            before, was = self._validity
            if now.since(before) >= was:
                self._end(self._bound())
            elif now.since(sent) - valid < now.since(before) - was:
                self._validity = sent, valid

    def _progress(self, sent: Instant) -> None:
        """A Progress that was sent then was answered."""
        with self._guard:
            if self._progressed is None or sent.boot > self._progressed.boot:
                self._progressed = sent

    def _knew(self, sent: Instant) -> bool:
        """Whether it was known to be held when a request was sent."""
        return self._known is not None and sent.boot >= self._known.boot

    def _end(self, why: str) -> None:
        self._ended.setdefault("why", why)

    def _released(self) -> bool:
        """Whether its release has begun."""
        return self._ended.get("why") == "released"

    def _lose(self, why: str) -> None:
        """Takes the reason that release reports. If pawld no longer knows one, that is what ended the validity."""
        self._end(self._why() or why or "NOT_HELD")
        self._lost = why or self._lost or self._ended["why"]
