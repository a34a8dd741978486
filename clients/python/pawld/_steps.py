"""What a session does, step by step, for threads and for asyncio alike: acquire, renew, release, close.

The steps are coroutines. A session of asyncio suspends in them. A session of threads waits inside
of what they await, so that they never suspend, and run to their end at once.
"""

from __future__ import annotations

import logging
import secrets
import time
from base64 import b64encode
from collections import deque
from typing import Any, Awaitable, Callable, Coroutine, Deque, Dict, Generic, Iterable, List, Optional, Protocol, Tuple, Type, TypeVar

from ._validity import Validity, Instant, LockLost, process
from ._wire import AGAIN, Answer, Error, checked, closed, say

MARGIN = 0.5
"""How much longer than its wait a call may take, for the way there and back."""

PATIENCE = 10.0
"""How long a call without a timeout may take."""

Wanted = Tuple[List[str], Dict[str, Any]]
"""The names of an acquisition, and what else an Acquire says."""


def bounds(max_hold: float, stall: float) -> Dict[str, Any]:
    return {"maxHoldMs": int(max_hold * 1000), "stallMs": int(stall * 1000)}


def one(name: str, shared: bool, max_hold: float, stall: float) -> Wanted:
    return [name], {"mode": "SHARED" if shared else "EXCLUSIVE", **bounds(max_hold, stall)}


def several(names: Iterable[str], shared: Iterable[str], max_hold: float, stall: float) -> Wanted:
    if isinstance(names, str) or isinstance(shared, str):
        raise TypeError("want several names, not one string")
    alone, together = list(names), list(shared)
    return alone + together, {"modes": ["EXCLUSIVE"] * len(alone) + ["SHARED"] * len(together), **bounds(max_hold, stall)}


def slot(name: str, limit: int, max_hold: float, stall: float) -> Wanted:
    return [name], {"mode": "SEMAPHORE", "limit": limit, **bounds(max_hold, stall)}


def term(name: str, value: bytes, stall: float) -> Wanted:
    return [name], {"mode": "ELECTION", "value": b64encode(value).decode(), **bounds(0, stall)}


class Wait(Protocol):
    """What one caller waits for. end ends it, and check raises what it was ended with."""

    def end(self, error: BaseException) -> None: ...

    def check(self) -> None: ...


class Worker(Protocol):
    """What runs rounds in the background. begin starts it, and starts it again."""

    def begin(self) -> None: ...

    def wake(self) -> None: ...


L = TypeVar("L", bound=Validity)
T = TypeVar("T")
W = TypeVar("W", bound=Wait)


class Steps(Generic[L, W]):
    """The state of a session, and its steps. What they wait for, and who runs them, is the client's."""

    _renewer: Worker
    _releaser: Worker
    _workers: Tuple[Worker, ...]
    _survived: Type[BaseException] = BaseException
    """The exceptions after which a worker continues."""

    def __init__(self, ttl: float, owner: str, bind: bool) -> None:
        self._ttl, self._owner, self._bind = ttl, owner, bind
        self._id = secrets.token_hex(16)
        self._process = process()
        self._locks: Dict[str, L] = {}
        self._asked: Dict[str, L] = {}  # being acquired
        self._waits: Dict[W, None] = {}  # that close ends
        self._releasing: Dict[str, None] = {}
        self._settled: Deque[str] = deque(maxlen=100)
        self._unwanted: Dict[str, float] = {}  # to be released; until when that is of use
        self._opened = False  # an Acquire was sent
        self._closed = False
        self._giving: Dict[str, Tuple[object, object]] = {}  # who gives all back, while it is under way
        self._given = False  # all was given back
        self._away = ""  # the code that calls fail with

    def _lock(self, request_id: str, names: List[str], max_hold: int, stall: int) -> L:
        raise NotImplementedError

    def _wait(self) -> W:
        """One that close does not end."""
        raise NotImplementedError

    def _send(self, method: str, body: Answer, timeout: float, wait: W) -> Awaitable[Answer]:
        raise NotImplementedError

    def _pause(self, wait: W, seconds: float) -> Awaitable[None]:
        raise NotImplementedError

    def _apart(self, steps: Callable[[float], Coroutine[Any, Any, T]], seconds: float) -> Awaitable[T]:
        """What steps give, which take that many seconds. If its caller is interrupted, they go on, or are done again, without it."""
        raise NotImplementedError

    def _caller(self) -> object:
        """The thread, or the task."""
        raise NotImplementedError

    def _mine(self) -> None:
        """Raises an Error if the session cannot be used."""
        if self._process is not process():
            raise Error("invalid_argument", "the session is another process's")

    async def _acquire(self, wanted: Wanted, timeout: Optional[float], wait: W) -> L:
        lock = await self._try(wanted, timeout, wait)
        assert lock is not None  # BUSY is the answer to a try alone
        return lock

    async def _try_acquire(self, wanted: Wanted, wait: W) -> Optional[L]:
        names, more = wanted
        return await self._try((names, {**more, "try": True}), self._ttl, wait)

    async def _try(self, wanted: Wanted, timeout: Optional[float], wait: W) -> Optional[L]:
        names, more = wanted
        self._mine()
        lock = self._lock(secrets.token_hex(16), names, more["maxHoldMs"] * 1_000_000, more["stallMs"] * 1_000_000)
        body = {"session": self._id, "requestId": lock._id, "names": names, "owner": self._owner, "ttlMs": int(self._ttl * 1000), **more}
        if self._bind:
            body["bind"] = True
        asked = False
        try:
            self._asked[lock._id] = lock
            self._waits[wait] = None
            if self._closed:  # looked at when close can see the two
                raise closed()
            wait.check()
            self._opened = asked = True
            won = await self._poll(lock, body, wait, timeout)
            if won is not None:
                self._locks[lock._id] = lock  # before it leaves _asked, and before close is looked at
                if self._closed:
                    raise closed()
                self._renewer.begin()
                lock.check()
            wait.check()  # it may have been ended in the instant of success
            self._asked.pop(lock._id, None)
            return won
        except BaseException as e:
            lock._end("given up")
            self._locks.pop(lock._id, None)
            if asked and not isinstance(e, GeneratorExit):  # the loop has ended, so nothing can be sent
                await self._give_up(lock._id)
            raise
        finally:
            self._asked.pop(lock._id, None)
            self._waits.pop(wait, None)

    async def _poll(self, lock: L, body: Answer, wait: W, timeout: Optional[float]) -> Optional[L]:
        """The lock, once it is held, or None if it is busy."""
        end = None if timeout is None else time.monotonic() + timeout
        passing: Tuple[str, ...] = ("unavailable",)
        while True:
            left = self._ttl / 2 if end is None else max(min(end - time.monotonic(), self._ttl / 2), 0)
            sent = Instant()
            try:
                answer = await self._call("Acquire", {**body, "waitMs": int(left * 1000)}, left + MARGIN, wait)
            except Error as e:
                if e.code not in passing or (end is not None and time.monotonic() >= end):
                    raise
                await self._pause(wait, 0.1)
                continue
            if answer["state"] == "HELD":
                lock._believe(sent, answer["lock"])
                return lock
            if answer["state"] == "BUSY":
                return None
            if answer["state"] == "LOST":
                raise LockLost(lock.name, answer["lock"].get("why", "NOT_HELD"))
            passing = AGAIN  # a limit is no reason to give the position up
            self._renewer.begin()  # what an earlier acquisition won, and never learned of, may be in the way
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"lock {lock.name!r}: not held after {timeout} s")

    async def _progress(self, lock: L) -> None:
        try:
            await self._query(lock, "Progress", {}, MARGIN)
        except Error as e:
            if e.code not in AGAIN:
                raise
            lock.check()

    async def _query(self, lock: L, method: str, more: Answer, timeout: float = PATIENCE) -> None:
        wait = self._wait()
        self._waits[wait] = None
        try:
            lock.check()  # looked at when close can see the wait
            sent = Instant()
            answer = (await self._call(method, {"session": self._id, "requestId": lock._id, **more}, timeout, wait))["lock"]
        finally:
            self._waits.pop(wait, None)
        if answer["state"] == "HELD":
            if method == "Progress":
                lock._progress(sent)
            lock._believe(sent, answer)
        else:
            lock._lose(answer.get("why", "NOT_HELD"))
        lock.check()

    async def _release(self, lock: L) -> None:
        ended = lock._why()
        lock._end("released")  # before anything is sent
        if lock._process is not process():
            raise LockLost(lock.name, ended)
        if lock._lost:
            if len(lock.names) > 1:
                await self._give_up(lock._id)  # what is left of it
            raise LockLost(lock.name, lock._lost)
        result = await self._apart(lambda seconds: self._result(lock, seconds), self._ttl)
        if not result.get("released", False):
            why = result.get("why", "NOT_HELD")
            raise LockLost(lock.name, ended or why if why == "NOT_HELD" else why)  # pawld has forgotten it

    async def _result(self, lock: L, seconds: float) -> Answer:
        self._releasing[lock._id] = None
        try:
            answer = await self._call_release({"session": self._id, "requestIds": [lock._id]}, seconds)
            self._settle(lock._id)
        finally:
            self._releasing.pop(lock._id, None)
        results: List[Answer] = answer.get("results") or [{}]  # of a session that has ended there are none
        return results[0]

    async def _call_release(self, body: Answer, timeout: float) -> Answer:
        """Calls again if pawld is away, or at a limit, because others wait for what is kept until then."""
        end = time.monotonic() + timeout
        wait = self._wait()  # nothing ends it but its time
        while True:
            try:
                return await self._call("Release", body, max(end - time.monotonic(), 0) + MARGIN, wait)
            except Error as e:
                if e.code not in AGAIN or time.monotonic() >= end:
                    raise
                await self._pause(wait, 0.1)

    async def _renew(self, wait: W, failed: bool) -> bool:
        """One round of the renewer. Returns whether the next one waits for a moment."""
        settled: List[str] = []
        while self._settled:
            settled.append(self._settled.popleft())
        believed = [left for left in (lock._left() / 1e9 for lock in list(self._locks.values())) if left > 0]
        left = min(believed) if believed else self._ttl
        park = 0 if failed else min(self._ttl / 4, left / 2)
        patience = max(min(self._ttl / 4, (left - park) / 2), self._ttl / 20)
        body: Answer = {"session": self._id, "waitMs": int(park * 1000), "settled": settled}
        if any(lock._asks for lock in list(self._locks.values())):
            body["wanted"] = True
        sent = Instant()
        try:
            answer = await self._call("Renew", body, park + patience, wait)
        except BaseException as e:
            if not isinstance(e, Error) or e.code in AGAIN:
                self._settled.extend(settled)
            raise
        listed = {l["requestId"]: l for l in answer.get("locks", [])}
        unwanted = []
        unparked = not listed  # pawld parks no Renew of a session that it does not know
        for request_id, entry in listed.items():
            if request_id in self._asked or request_id in self._locks:  # in this order: it leaves _asked last
                continue
            if entry["state"] == "HELD":  # won, and its answer, or its release, was lost
                unwanted.append(request_id)
            else:  # as long as it is not settled, pawld parks no Renew
                self._settle(request_id)
        for request_id, lock in list(self._locks.items()):
            seen = listed.get(request_id)
            if seen is not None and seen["state"] == "HELD":
                lock._believe(sent, seen)
                if lock._asks and seen.get("wanted") is True:
                    lock._wanted.set()
                if not lock.held():  # its validity has ended, or its release failed
                    if not lock._released():
                        lock._lose("")
                    unwanted.append(request_id)
            elif seen is not None or lock._knew(sent):
                if not lock._released():  # otherwise Release says what became of it
                    lock._lose((seen or {}).get("why", ""))
                if request_id not in self._releasing:  # its answer may be lost, and sent again it must find what it did
                    self._settle(request_id)
                elif seen is not None:
                    unparked = True
        self._want_not(unwanted)
        return unparked

    def _settle(self, request_id: str) -> None:
        self._locks.pop(request_id, None)
        self._settled.append(request_id)

    def _want_not(self, request_ids: List[str]) -> None:
        """Releases in the background what nobody believes in. A TTL later pawld has released it itself."""
        for request_id in request_ids:
            self._unwanted.setdefault(request_id, time.monotonic() + self._ttl)
        if request_ids:
            try:
                self._releaser.begin()
            except RuntimeError:
                pass  # no thread can be started: the next one that begins, or a Renew that lists it, does it

    async def _give_up(self, request_id: str) -> None:
        """Releases what nobody believes in: before this returns, if pawld answers."""
        if self._closed:
            return  # close does it
        self._unwanted.setdefault(request_id, time.monotonic() + self._ttl)

        async def free(seconds: float) -> None:
            try:
                await self._free_all([request_id], seconds, self._wait())
            except Error:
                self._want_not([request_id])

        await self._apart(free, MARGIN / 2)

    async def _free(self, wait: W, failed: bool) -> bool:
        """One round of the releaser."""
        for request_id, until in list(self._unwanted.items()):
            if time.monotonic() >= until:
                self._unwanted.pop(request_id, None)
        await self._free_all(list(self._unwanted)[:100], 1, wait)
        return False

    async def _free_all(self, request_ids: List[str], timeout: float, wait: W) -> None:
        try:
            if request_ids:
                await self._call("Release", {"session": self._id, "requestIds": request_ids}, timeout, wait)
        except Error as e:
            if e.code in AGAIN:
                raise
        for request_id in request_ids:
            self._unwanted.pop(request_id, None)

    async def _close(self) -> None:
        if self._process is not process():
            return
        self._closed = True
        asked = list(self._asked.values())
        # The validities end before anything is given back, by anybody.
        for lock in list(self._locks.values()) + asked:
            lock._end("the session was closed")
        for lock in asked:  # before their waits end, and forget them
            self._unwanted.setdefault(lock._id, time.monotonic() + self._ttl)
        for wait in list(self._waits):
            wait.end(closed())
        for worker in self._workers:
            worker.wake()
        if self._opened and not self._given:
            await self._apart(self._give_all_back, self._ttl if self._locks else MARGIN)

    async def _give_all_back(self, seconds: float) -> None:
        me = self._caller(), object()
        end = time.monotonic() + seconds
        wait = self._wait()
        try:
            while True:
                by = self._giving.setdefault("by", me)
                if by is me:
                    break
                if by[0] == me[0]:
                    return  # a signal handler interrupts it
                await self._pause(wait, 0.01)
            if not self._given:
                await self._release_all(end)
                self._given = True
        except Error:
            self._given = True  # nothing more is tried
            if self._locks:
                raise  # else it counts until it ends, and where pawld is away, its TTL ends it
        finally:
            if self._giving.get("by") is me:
                self._giving.clear()

    async def _release_all(self, end: float) -> None:
        """An Acquire that pawld reads later is refused, and opens no session again."""
        wanted = list(self._unwanted)
        bodies: List[Answer] = [{"session": self._id, "requestIds": wanted}] if wanted else []
        bodies.append({"session": self._id})
        for body in bodies:
            await self._call_release(body, max(end - time.monotonic(), 0))

    async def _rounds(self, round: Callable[[W, bool], Awaitable[bool]], work: Callable[[], bool], wait: W) -> None:
        """Runs rounds while there is work, whatever a round raises. close ends it with an Error."""
        failed = ""
        while work() and not self._closed:
            try:
                pause = await round(wait, bool(failed))
                failed = ""
            except self._survived as e:
                before, failed = failed, e.code if isinstance(e, Error) else type(e).__name__
                if failed not in (*AGAIN, "closed", before):  # _hear says what passes
                    say(logging.WARNING, "it is tried again: %r", e)
                    self._away = failed
                pause = True
            if pause and not self._closed:
                await self._pause(wait, min(0.1, self._ttl / 20))

    async def _call(self, method: str, body: Answer, timeout: float, wait: W) -> Answer:
        """One request, which takes no longer than timeout. The end of wait ends it."""
        self._mine()
        try:
            answer = checked(method, await self._send(method, body, timeout, wait))
        except Error as e:
            if e.code in AGAIN:  # another failure is no answer
                self._hear(e)
            raise
        self._hear(None)
        return answer

    def _hear(self, e: Optional[Error]) -> None:
        """Logs the first of some temporary failures, and their end."""
        code = e.code if e is not None else ""
        before, self._away = self._away, code
        if code and code != before:
            say(logging.WARNING, "pawld is called again: %s", e)
        elif before and not code:
            say(logging.INFO, "pawld answers again")
