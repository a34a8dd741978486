"""Strict locks and elections on etcd, through the daemon pawld.

    with pawld.Session() as session, session.acquire("report") as lock:
        for row in rows:
            lock.check()                 # raises LockLost; compares the clock, does no I/O
            store(row, token=lock.token)  # the storage refuses a token below the highest it has seen

A lock is believed in for as long as pawld said, counted from before the request that it
answered was written, on a clock that runs while the machine is suspended. So the first
look after a pause is right, without a network. Only the process that acquired a lock has it.

Threads share a session without a mutex: what they share is replaced or added as a whole. So a
signal handler may call what it likes, whatever it interrupts. The logger "pawld" is told when
pawld does not answer, and when it answers again.
"""

from __future__ import annotations

import _thread
import errno
import http.client
import io
import json
import logging
import os
import secrets
import socket as _socket
import ssl as _ssl
import stat
import threading
import time
from base64 import b64encode
from collections import deque
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Tuple, Type

__all__ = ["Session", "Lock", "Error", "LockLost"]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_MARGIN = 0.5
"""How much longer than its wait a call may take, for the way there and back."""

_PATIENCE = 10.0
"""How long a call without a timeout of its own may take."""

_AGAIN = ["unavailable", "resource_exhausted"]
"""The codes of refusals that pass: pawld, or etcd, is away, or a limit is reached."""


_log = logging.getLogger("pawld")

_process = object()
"""This process. A fork's child gets another one: a pid can repeat."""


def _forked() -> None:
    global _process
    _process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Error(Exception):
    """A call that was refused, or that pawld or etcd does not answer: code says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class LockLost(Exception):
    """The lock is not held any more; why says what ended it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"lock {name!r} is not held: {why}")
        self.name = name
        self.why = why


class _Instant:
    """A reading of both clocks: one that counts a suspend, and the wall's."""

    __slots__ = ("boot", "wall")

    def __init__(self) -> None:
        self.boot = time.clock_gettime_ns(_CLOCK)
        self.wall = time.time_ns()

    def since(self, earlier: "_Instant") -> int:
        return max(self.boot - earlier.boot, self.wall - earlier.wall)


class Lock:
    """One acquisition of a lock or of several at once, or one term of an election."""

    def __init__(self, session: "Session", request_id: str, names: List[str], max_hold: int) -> None:
        self.name = ", ".join(names)
        self.names = names
        self.token = 0
        """For the storage: greater than that of every holder before, of each of its names."""
        self.slot = 0
        """Of a semaphore: its number, that no other holder has."""
        self.keys: List[str] = []
        """Its keys in etcd, one for each of its names."""
        self._session = session
        self._id = request_id
        self._belief = (_Instant(), 0)  # since when, and for how many ns
        self._max_hold = max_hold
        self._ended: Dict[str, str] = {}  # "why", once it has: the first to say so is right
        self._lost = ""
        self._known: Optional[_Instant] = None
        self._guard = threading.RLock()  # of those that extend the belief: who looks takes nothing

    def held(self) -> bool:
        """Whether it is held, by the clock at this call. It does no I/O."""
        return self._why() == ""

    def check(self) -> None:
        """Raises LockLost unless it is held. It does no I/O."""
        why = self._why()
        if why:
            raise LockLost(self.name, why)

    def _why(self) -> str:
        if self._session._process is not _process:
            return "another process acquired it"
        now = _Instant()  # before the belief is read: who is stopped in between ends none that was extended
        sent, valid = self._belief
        if now.since(sent) >= valid:
            self._end(self._bound())  # what has ended stays ended
        return self._ended.get("why", "")

    def _left(self) -> int:
        """For how many ns it is believed in, if nothing extends it."""
        now = _Instant()
        sent, valid = self._belief
        return 0 if self._ended else max(valid - now.since(sent), 0)

    def _bound(self) -> str:
        """What ended the belief, as far as the client can tell: MAX_HOLD if the hold's limit comes before the end of the TTL."""
        sent, _ = self._belief
        until = sent.since(self._known or sent) + int(self._session._ttl * 1e9)
        return "MAX_HOLD" if 0 < self._max_hold <= until else "EXPIRED"

    def _believe(self, sent: _Instant, answer: Dict[str, Any]) -> None:
        valid = int(answer.get("validForMs", "0")) * 1_000_000
        now = _Instant()
        with self._guard:
            if self._known is None:
                self.token = int(answer["token"])
                self.keys = answer["keys"]
                self.slot = int(answer.get("slot", 0))
                self._belief = sent, valid
                self._known = now
                return
            before, was = self._belief
            if now.since(before) >= was:
                self._end(self._bound())
            elif now.since(sent) - valid < now.since(before) - was:
                self._belief = sent, valid

    def _end(self, why: str) -> None:
        self._ended.setdefault("why", why)

    def _lose(self, why: str) -> None:
        """What release says. pawld does not know it for ever: then it is what ended the belief."""
        self._end(self._why() or why or "NOT_HELD")
        self._lost = why or self._lost or self._ended["why"]

    def confirm(self) -> None:
        """Queries etcd. Raises LockLost unless it is held."""
        self._ask("Confirm", {})

    def proclaim(self, value: bytes) -> None:
        """Changes the value of an election's term."""
        self._ask("Proclaim", {"value": b64encode(value).decode()})

    def _ask(self, method: str, more: Dict[str, Any]) -> None:
        self.check()
        sent = _Instant()
        answer = self._session._query(self, method, {"session": self._session._id, "requestId": self._id, **more})["lock"]
        if answer["state"] == "HELD":
            self._believe(sent, answer)
        else:
            self._lose(answer.get("why", "NOT_HELD"))
        self.check()

    def release(self) -> None:
        """Gives it back. Raises LockLost if it was not held until now."""
        ended = self._why()
        self._end("released")  # before anything is sent
        if self._lost:
            if len(self.names) > 1 and self._session._process is _process:
                self._session._give_up([self._id])  # what is left of it
            raise LockLost(self.name, self._lost)
        result = self._session._release(self)
        if not result.get("released", False):
            why = result.get("why", "NOT_HELD")
            raise LockLost(self.name, ended or why if why == "NOT_HELD" else why)  # pawld has forgotten it

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self.release()
        except (Error, LockLost):
            if error is None:
                raise


class Session:
    """What a process's locks hang on. It renews them in a thread of its own."""

    def __init__(
        self,
        socket: str = "/run/pawl/pawld.sock",
        *,
        address: Optional[Tuple[str, int]] = None,
        ssl: Optional[_ssl.SSLContext] = None,
        token: str = "",
        ttl: float = 10.0,
        owner: str = "",
        bind: bool = False,
    ) -> None:
        """address, with ssl or with token, is that of pawld's --listen; else socket is used.

        With bind, the session is bound to this process, on the Unix socket and Linux 6.5 and later:
        when the process exits, its locks are given up at once.
        """
        if any(not "!" <= c <= "~" for c in token):  # http.client's own error would show it
            raise Error("invalid_argument", "token has a space, a line's end or another character that no token has: strip what a file has around it")
        self._transport = _Transport(socket, address, ssl, token)
        self._ttl, self._owner, self._bind = ttl, owner, bind
        self._id = secrets.token_hex(16)
        self._process = _process
        self._locks: Dict[str, Lock] = {}
        self._asked: Dict[str, Lock] = {}  # being acquired
        self._waits: Dict[_Wait, None] = {}  # that close ends
        self._releasing: Dict[str, None] = {}
        self._settled: Deque[str] = deque(maxlen=100)
        self._unwanted: Dict[str, float] = {}  # to be released; until when that is of use
        self._opened = False  # an Acquire was sent
        self._closing: Dict[str, object] = {}  # who does it, once it has begun
        self._away = ""  # the code that calls fail with
        self._renewer = _Worker(self, self._renew, lambda: bool(self._locks or self._asked))
        self._releaser = _Worker(self, self._free, lambda: bool(self._unwanted))

    @property
    def _closed(self) -> bool:
        return bool(self._closing)

    def acquire(
        self,
        name: str,
        *,
        timeout: Optional[float] = None,
        shared: bool = False,
        max_hold: float = 0,
        delay: float = 0,
    ) -> Lock:
        """Waits until the lock is held; raises TimeoutError after timeout seconds."""
        lock = self._acquire([name], timeout, {
            "mode": "SHARED" if shared else "EXCLUSIVE", "maxHoldMs": int(max_hold * 1000), "delayMs": int(delay * 1000),
        })
        assert lock is not None
        return lock

    def acquire_all(
        self, names: Iterable[str], *, shared: Iterable[str] = (), timeout: Optional[float] = None, max_hold: float = 0
    ) -> Lock:
        """Waits until all names are held at once, those of shared together with other readers.

        Acquisitions of several names never wait for one another in a circle, whatever their order.
        """
        lock = self._acquire(*self._set(names, shared, timeout, {"maxHoldMs": int(max_hold * 1000)}))
        assert lock is not None
        return lock

    def try_acquire_all(self, names: Iterable[str], *, shared: Iterable[str] = (), max_hold: float = 0) -> Optional[Lock]:
        """All of the names or none: None where one of them is not free."""
        return self._acquire(*self._set(names, shared, self._ttl, {"maxHoldMs": int(max_hold * 1000), "try": True}))

    @staticmethod
    def _set(
        names: Iterable[str], shared: Iterable[str], timeout: Optional[float], more: Dict[str, Any]
    ) -> Tuple[List[str], Optional[float], Dict[str, Any]]:
        if isinstance(names, str) or isinstance(shared, str):
            raise TypeError("want several names, not one string")
        alone, together = list(names), list(shared)
        return alone + together, timeout, {"modes": ["EXCLUSIVE"] * len(alone) + ["SHARED"] * len(together), **more}

    def try_acquire(self, name: str, *, shared: bool = False, max_hold: float = 0) -> Optional[Lock]:
        """None where another holds the lock, or waits for it."""
        return self._acquire([name], self._ttl, {
            "mode": "SHARED" if shared else "EXCLUSIVE", "maxHoldMs": int(max_hold * 1000), "try": True,
        })

    def acquire_slot(self, name: str, limit: int, *, timeout: Optional[float] = None, max_hold: float = 0) -> Lock:
        """Waits until one of a semaphore's limit slots is held: lock.slot says which."""
        lock = self._acquire([name], timeout, {"mode": "SEMAPHORE", "limit": limit, "maxHoldMs": int(max_hold * 1000)})
        assert lock is not None
        return lock

    def try_acquire_slot(self, name: str, limit: int, *, max_hold: float = 0) -> Optional[Lock]:
        """None where no slot is free, or others wait for one."""
        return self._acquire([name], self._ttl, {
            "mode": "SEMAPHORE", "limit": limit, "maxHoldMs": int(max_hold * 1000), "try": True,
        })

    def campaign(self, name: str, value: bytes = b"", *, timeout: Optional[float] = None) -> Lock:
        """Waits until it leads: the Lock is its term."""
        lock = self._acquire([name], timeout, {"mode": "ELECTION", "value": b64encode(value).decode()})
        assert lock is not None
        return lock

    def _acquire(self, names: List[str], timeout: Optional[float], more: Dict[str, Any]) -> Optional[Lock]:
        lock = Lock(self, secrets.token_hex(16), names, more.get("maxHoldMs", 0) * 1_000_000)
        body = {"session": self._id, "requestId": lock._id, "names": names, "owner": self._owner, "ttlMs": int(self._ttl * 1000), **more}
        if self._bind:
            body["bind"] = True
        if self._process is not _process:
            raise Error("invalid_argument", "the session is another process's")
        wait = _Wait()
        try:
            self._asked[lock._id] = lock
            self._waits[wait] = None
            if self._closed:  # looked at when close can see the two
                raise _closed()
            self._opened = True
            won = self._poll(lock, body, wait, timeout)
            if won is not None:
                self._locks[lock._id] = lock  # before it leaves _asked, and before close is looked at
                if self._closed:
                    raise _closed()
                self._renewer.begin()
                lock.check()
            self._asked.pop(lock._id, None)
            return won
        except BaseException:
            lock._end("given up")
            self._locks.pop(lock._id, None)
            self._give_up([lock._id])
            raise
        finally:
            self._asked.pop(lock._id, None)
            self._waits.pop(wait, None)

    def _poll(self, lock: Lock, body: Dict[str, Any], wait: "_Wait", timeout: Optional[float]) -> Optional[Lock]:
        """The lock, when it is held; None when it is busy."""
        end = None if timeout is None else time.monotonic() + timeout
        passing = ["unavailable"]
        while True:
            left = self._ttl / 2 if end is None else max(min(end - time.monotonic(), self._ttl / 2), 0)
            sent = _Instant()
            try:
                answer = self._call("Acquire", {**body, "waitMs": int(left * 1000)}, left + _MARGIN, wait)
            except Error as e:
                if e.code not in passing or (end is not None and time.monotonic() >= end):
                    raise
                wait.pause(0.1)
                continue
            if answer["state"] == "HELD":
                lock._believe(sent, answer["lock"])
                return lock
            if answer["state"] == "BUSY":
                return None
            if answer["state"] == "LOST":
                raise LockLost(lock.name, answer["lock"].get("why", "NOT_HELD"))
            passing = _AGAIN  # a limit is no reason to give the position up
            self._renewer.begin()  # what an earlier acquisition won, and never learned of, may be in the way
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"lock {lock.name!r}: not held after {timeout} s")

    def _renew(self, wait: "_Wait", failed: bool) -> bool:
        """One round of the renewer. Returns whether the next one waits for a moment."""
        settled: List[str] = []
        while self._settled:
            settled.append(self._settled.popleft())
        believed = [left for left in (lock._left() / 1e9 for lock in list(self._locks.values())) if left > 0]
        left = min(believed) if believed else self._ttl
        park = 0 if failed else min(self._ttl / 4, left / 2)
        patience = max(min(self._ttl / 4, (left - park) / 2), self._ttl / 20)
        sent = _Instant()
        try:
            answer = self._call("Renew", {"session": self._id, "waitMs": int(park * 1000), "settled": settled}, park + patience, wait)
        except BaseException as e:
            if not isinstance(e, Error) or e.code in _AGAIN:
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
                if not lock.held():  # its belief has ended, or its release failed
                    if lock._ended["why"] != "released":
                        lock._lose("")
                    unwanted.append(request_id)
            elif seen is not None or (lock._known is not None and sent.boot >= lock._known.boot):
                if lock._ended.get("why") != "released":  # otherwise Release says what became of it
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

    def _release(self, lock: Lock) -> Dict[str, Any]:
        if self._process is not _process:
            return {"why": "another process acquired it"}
        self._releasing[lock._id] = None
        try:
            answer = self._call_release({"session": self._id, "requestIds": [lock._id]}, self._ttl)
            self._settle(lock._id)
        finally:
            self._releasing.pop(lock._id, None)
        results: List[Dict[str, Any]] = answer.get("results") or [{}]  # of a session that has ended there are none
        return results[0]

    def _call_release(self, body: Dict[str, Any], timeout: float) -> Dict[str, Any]:
        """Calls again where pawld is away, or at a limit: until then another waits for what is kept."""
        end = time.monotonic() + timeout
        wait = _Wait()  # nothing ends it but its time
        while True:
            try:
                return self._call("Release", body, max(end - time.monotonic(), 0) + _MARGIN, wait)
            except Error as e:
                if e.code not in _AGAIN or time.monotonic() >= end:
                    raise
                wait.pause(0.1)

    def _want_not(self, request_ids: List[str]) -> None:
        """Has what nobody believes in be released in the background. A TTL later pawld has given it up itself."""
        for request_id in request_ids:
            self._unwanted.setdefault(request_id, time.monotonic() + self._ttl)
        if request_ids:
            try:
                self._releaser.begin()
            except RuntimeError:
                pass  # no thread can be started: the next Renew lists it

    def _give_up(self, request_ids: List[str]) -> None:
        """Releases what nobody believes in: where pawld answers, before this returns."""
        if self._closed:
            return  # close does it
        for request_id in request_ids:
            self._unwanted.setdefault(request_id, time.monotonic() + self._ttl)
        try:
            self._free_all(request_ids, _MARGIN / 2, _Wait())
        except Error:
            try:
                self._releaser.begin()
            except RuntimeError:
                pass  # the next one that begins, or a Renew that lists it, does it

    def _free(self, wait: "_Wait", failed: bool) -> bool:
        """One round of the releaser."""
        for request_id, until in list(self._unwanted.items()):
            if time.monotonic() >= until:
                self._unwanted.pop(request_id, None)
        self._free_all(list(self._unwanted)[:100], 1, wait)
        return False

    def _free_all(self, request_ids: List[str], timeout: float, wait: "_Wait") -> None:
        try:
            if request_ids:
                self._call("Release", {"session": self._id, "requestIds": request_ids}, timeout, wait)
        except Error as e:
            if e.code in _AGAIN:
                raise
        for request_id in request_ids:
            self._unwanted.pop(request_id, None)

    def close(self) -> None:
        """Gives everything back, and ends what waits."""
        if self._process is not _process:
            return
        me = object()
        if self._closing.setdefault("by", me) is not me:
            return
        # The beliefs end before anything is given back, by anybody.
        locks, asked = list(self._locks.values()), list(self._asked.values())
        for lock in locks + asked:
            lock._end("the session was closed")
        for wait in list(self._waits):
            wait.end(_closed())
        for worker in self._renewer, self._releaser:
            worker.wake()
        # An Acquire that pawld reads later opens no session again: it is refused.
        wanted = [lock._id for lock in asked] + list(self._unwanted)
        bodies: List[Dict[str, Any]] = [{"session": self._id, "requestIds": wanted}] if wanted else []
        bodies.append({"session": self._id})
        if not self._opened:
            return
        end = time.monotonic() + (self._ttl if locks else _MARGIN)
        try:
            for body in bodies:
                self._call_release(body, max(end - time.monotonic(), 0))
        except Error:
            if locks:
                raise  # else it counts until it ends, and where pawld is away, its TTL ends it

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self.close()
        except Error:
            if error is None:
                raise

    def _query(self, lock: Lock, method: str, body: Dict[str, Any]) -> Dict[str, Any]:
        wait = _Wait()
        self._waits[wait] = None
        try:
            lock.check()  # looked at when close can see the wait
            return self._call(method, body, _PATIENCE, wait)
        finally:
            self._waits.pop(wait, None)

    def _call(self, method: str, body: Dict[str, Any], timeout: float, wait: Optional["_Wait"] = None) -> Dict[str, Any]:
        """One request, which takes no longer than timeout. The end of wait ends it."""
        if self._process is not _process:
            raise Error("invalid_argument", "the session is another process's")
        try:
            answer = _checked(method, self._transport.send(method, body, timeout, wait or _Wait()))
        except Error as e:
            if e.code in _AGAIN:  # another failure is no answer
                self._hear(e)
            raise
        self._hear(None)
        return answer

    def _hear(self, e: Optional[Error]) -> None:
        """Logs the first of the failures that pass, and their end."""
        code = e.code if e is not None else ""
        before, self._away = self._away, code
        if code and code != before:
            _say(logging.WARNING, "pawld is called again: %s", e)
        elif before and not code:
            _say(logging.INFO, "pawld answers again")


def _say(level: int, text: str, *args: object) -> None:
    try:
        _log.log(level, text, *args)
    except Exception:
        pass  # a filter's: what is renewed does not depend on it


def _closed() -> Error:
    return Error("closed", "the session is closed")


def _not_pawld(why: object) -> Error:
    return Error("unimplemented", f"what answers is not pawld: {why}")


def _checked(method: str, answer: Dict[str, Any]) -> Dict[str, Any]:
    """The answer, if it has the form of method's."""
    try:
        locks = answer.get("locks", []) if method == "Renew" else []
        if method in ("Confirm", "Proclaim") or (method == "Acquire" and answer["state"] in ("HELD", "LOST")):
            locks = [answer["lock"]]
        elif method == "Acquire" and answer["state"] not in ("BUSY", "WAITING"):
            raise ValueError(f"state {answer['state']!r}")
        elif method == "Release":
            for result in answer.get("results", []):
                result.get("released"), result.get("why")
        for lock in locks:
            lock["requestId"], lock.get("why")
            if lock["state"] == "HELD":
                int(lock["token"]), int(lock.get("validForMs", "0")), int(lock.get("slot", 0)), lock["keys"][0]
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as e:
        raise _not_pawld(f"its answer to {method} is malformed: {e!r}") from e
    return answer


class _Wait:
    """What one caller waits for: a pause, the look-up of a name, or a socket. Any thread can end it, and a signal handler."""

    def __init__(self) -> None:
        self._error: Optional[BaseException] = None
        self._sock: Optional[_socket.socket] = None
        self._bell: "SimpleQueue[None]" = SimpleQueue()

    def end(self, error: BaseException) -> None:
        self._error = error
        self._bell.put(None)
        sock = self._sock
        if sock is not None:
            try:
                _socket.socket.shutdown(sock, _socket.SHUT_RDWR)  # not ssl's, which changes what its reader uses
            except OSError:
                pass  # not connected, or closed

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def on(self, sock: _socket.socket) -> None:
        self._sock = sock
        self.check()  # end may have come before

    def ring(self) -> None:
        self._bell.put(None)

    def until(self, done: Callable[[], bool], end: float) -> bool:
        """Waits until done, which who makes it so rings for. Returns whether that was before end."""
        while not done():
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return False
            try:
                self._bell.get(timeout=left)
            except Empty:
                pass
        return True

    def pause(self, seconds: float) -> None:
        self.until(lambda: False, time.monotonic() + seconds)
        self.check()


class _Worker:
    """A thread that runs rounds while there is work, whatever a round raises. begin starts it, and starts it again."""

    def __init__(self, session: Session, round: Callable[[_Wait, bool], bool], work: Callable[[], bool]) -> None:
        self._session, self._round, self._work = session, round, work
        self._bell: "SimpleQueue[None]" = SimpleQueue()
        self._running: Dict[str, object] = {}

    def wake(self) -> None:
        if self._bell.empty():
            self._bell.put(None)

    def begin(self) -> None:
        self.wake()
        if not self._running:
            _thread.start_new_thread(self._run, ())  # threading's start takes locks that a signal handler may find taken

    def _run(self) -> None:
        me = object()
        if self._running.setdefault("by", me) is not me:
            return  # two were started at once
        session = self._session
        wait = _Wait()
        session._waits[wait] = None
        failed = False
        try:
            while not session._closed:
                if not self._work():
                    self._bell.get()
                    continue
                try:
                    pause = self._round(wait, failed)
                    failed = False
                except BaseException as e:
                    if not failed and not (isinstance(e, Error) and e.code in (*_AGAIN, "closed")):
                        _say(logging.WARNING, "it is tried again: %r", e)
                    pause = failed = True
                if pause and not session._closed:
                    wait.pause(min(0.1, session._ttl / 20))
        except Error:
            pass  # closed
        finally:
            session._waits.pop(wait, None)
            self._running.clear()


class _Transport:
    """Sends requests to pawld, each on a connection of its own."""

    def __init__(self, socket: str, address: Optional[Tuple[str, int]], ssl: Optional[_ssl.SSLContext], token: str) -> None:
        self._socket, self._address, self._ssl, self._token = socket, address, ssl, token

    def send(self, method: str, body: Dict[str, Any], timeout: float, wait: _Wait) -> Dict[str, Any]:
        end = time.monotonic() + timeout
        connection = http.client.HTTPConnection("pawl") if self._address is None else http.client.HTTPConnection(*self._address)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        try:
            connection.sock = _Timed(self._connect(connection, end, wait), end)  # type: ignore[assignment]
            headers["Connect-Timeout-Ms"] = str(max(int((end - time.monotonic()) * 1000), 1))
            connection.request("POST", "/pawl.v1.Locks/" + method, json.dumps(body), headers)
            with connection.getresponse() as response:
                text = response.read()
        except (OSError, http.client.HTTPException, ValueError) as e:
            wait.check()
            raise self._failure(e) from e
        finally:
            connection.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if isinstance(answer, dict):
            if response.status == 200:
                return answer
            if isinstance(answer.get("code"), str):
                raise Error(answer["code"], str(answer.get("message", "")))
        if response.status in (408, 425, 429, 502, 503, 504):  # a proxy's
            raise Error("unavailable", f"pawld does not answer: {response.status} {response.reason}")
        raise _not_pawld(f"{response.status} {response.reason}, and no answer of pawld's")

    def _failure(self, e: Exception) -> Error:
        """What a call failed with: unavailable, unless a call again would fail, too."""
        if isinstance(e, _ssl.SSLCertVerificationError):
            return Error("unauthenticated", f"the certificate of pawld is not accepted: {e}")
        if isinstance(e, _ssl.SSLError) and not isinstance(e, (_ssl.SSLEOFError, _ssl.SSLZeroReturnError, _ssl.SSLSyscallError)):
            if "ALERT" in (getattr(e, "reason", None) or ""):
                return Error("unauthenticated", f"pawld refuses the connection: {e}")
            return _not_pawld(e)
        if isinstance(e, _socket.gaierror):
            if e.errno not in (_socket.EAI_AGAIN, _socket.EAI_MEMORY, _socket.EAI_SYSTEM):
                return Error("invalid_argument", f"host {self._address and self._address[0]!r} is not known: {e}")
        elif isinstance(e, PermissionError):
            return Error("permission_denied", f"{self._socket if self._address is None else self._address}: {e}")
        elif isinstance(e, http.client.HTTPException) and not isinstance(e, (http.client.IncompleteRead, http.client.RemoteDisconnected)):
            return _not_pawld(repr(e))
        elif self._address is None and isinstance(e, OSError):
            if "too long" in str(e) or e.errno == errno.ENAMETOOLONG:
                return Error("invalid_argument", f"{self._socket}: {e}")
            if e.errno in (errno.ENOTDIR, errno.ELOOP, errno.EPROTOTYPE) or (e.errno == errno.ECONNREFUSED and not self._is_socket()):
                return Error("invalid_argument", f"{self._socket} is not a socket")
        elif isinstance(e, ValueError):
            return Error("invalid_argument", str(e))
        return Error("unavailable", f"pawld does not answer: {e}")

    def _is_socket(self) -> bool:
        try:
            return stat.S_ISSOCK(os.stat(self._socket).st_mode)
        except OSError:
            return True  # it has gone, and may come again

    def _connect(self, to: http.client.HTTPConnection, end: float, wait: _Wait) -> _socket.socket:
        if self._address is None:
            return _reach(_socket.AF_UNIX, self._socket, end, wait)
        found = _look_up(to.host, to.port, end, wait)
        for n, (family, _, _, _, at) in enumerate(found):
            now = time.monotonic()
            try:
                sock = _reach(family, at, now + (end - now) / (len(found) - n), wait)  # the others get the rest of the time
                break
            except OSError:
                wait.check()
                if n == len(found) - 1:
                    raise
        try:
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            if self._ssl is not None:
                sock = self._ssl.wrap_socket(_Timed(sock, end).arm(), server_hostname=to.host, do_handshake_on_connect=False)
                wait.on(sock)
                _Timed(sock, end).arm().do_handshake()  # type: ignore[attr-defined]
            return sock
        except BaseException:
            sock.close()
            raise


def _look_up(host: str, port: int, end: float, wait: _Wait) -> List[Any]:
    """The addresses of host. The system's look-up knows no end: it has a thread of its own."""
    try:
        return _socket.getaddrinfo(host, port, type=_socket.SOCK_STREAM, flags=_socket.AI_NUMERICHOST)
    except _socket.gaierror:
        pass
    found: List[Any] = []

    def look() -> None:
        try:
            found.append(_socket.getaddrinfo(host, port, type=_socket.SOCK_STREAM))
        except Exception as e:
            found.append(e)
        wait.ring()

    try:
        _thread.start_new_thread(look, ())
    except RuntimeError as e:
        raise OSError(str(e)) from e
    if not wait.until(lambda: bool(found), end):
        raise _socket.timeout("timed out")
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]  # type: ignore[no-any-return]


def _reach(family: int, at: Any, end: float, wait: _Wait) -> _socket.socket:
    sock = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        wait.on(sock)
        _Timed(sock, end).arm().connect(at)
        wait.check()
    except BaseException:
        sock.close()
        raise
    return sock


class _Timed:
    """A socket that ends at a time. A socket's own timeout begins again with each byte."""

    def __init__(self, sock: _socket.socket, end: float) -> None:
        self._sock, self._end = sock, end

    def close(self) -> None:
        self._sock.close()  # what makefile returned reads on: see there

    def arm(self) -> _socket.socket:
        left = self._end - time.monotonic()
        if left <= 0:
            raise _socket.timeout("timed out")
        self._sock.settimeout(left)
        return self._sock

    def sendall(self, data: bytes) -> None:
        while data:  # with TLS, sendall's own timeout begins again with each part
            data = data[self.arm().send(data):]

    def makefile(self, mode: str, *args: Any) -> io.BufferedReader:
        """The socket stays open until the file is closed, too: http.client closes the socket before
        it reads the body of an answer that says Connection: close."""
        return io.BufferedReader(_Answer(self, self._sock.makefile(mode, buffering=0)))


class _Answer(io.RawIOBase):
    """What a socket receives, until its _Timed ends."""

    def __init__(self, timed: _Timed, file: Any) -> None:
        self._timed, self._file = timed, file

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> Optional[int]:
        self._timed.arm()
        return self._file.readinto(into)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._file.close()
        super().close()
