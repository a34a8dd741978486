"""Strict locks and elections on etcd, through the daemon pawld.

    with pawld.Session() as session, session.acquire("report") as lock:
        for row in rows:
            lock.check()                 # raises LockLost; compares the clock, does no I/O
            store(row, token=lock.token)  # the storage refuses a token below the highest it has seen

A lock is believed in for as long as pawld said, counted from before the request that it
answered was written, on a clock that runs while the machine is suspended. So the first
look after a pause is right, without a network. Only the process that acquired a lock has it.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import secrets
import socket as _socket
import ssl as _ssl
import threading
import time
from base64 import b64encode
from types import TracebackType
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple, Type

__all__ = ["Session", "Lock", "Error", "LockLost"]

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_MARGIN = 0.5
"""How much longer than its wait a call may take, for the way there and back."""

_PATIENCE = 10.0
"""How long a call without a timeout of its own may take."""

_AGAIN = ["unavailable", "resource_exhausted"]
"""The codes of refusals that pass: pawld, or etcd, is away, or a limit is reached."""


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
        self._sent = _Instant()
        self._valid = 0
        self._max_hold = max_hold
        self._ended = ""
        self._lost = ""
        self._known: Optional[_Instant] = None
        self._guard = threading.Lock()

    def held(self) -> bool:
        """Whether it is held, by the clock at this call. It does no I/O."""
        return self._why() == ""

    def check(self) -> None:
        """Raises LockLost unless it is held. It does no I/O."""
        why = self._why()
        if why:
            raise LockLost(self.name, why)

    def _why(self) -> str:
        if os.getpid() != self._session._pid:
            return "another process acquired it"
        with self._guard:
            if not self._ended and _Instant().since(self._sent) >= self._valid:
                self._ended = self._bound()  # what has ended stays ended
            return self._ended

    def _bound(self) -> str:
        """What ended the belief, as far as the client can tell: MAX_HOLD if the hold's limit comes before the end of the TTL."""
        until = self._sent.since(self._known or self._sent) + int(self._session._ttl * 1e9)
        return "MAX_HOLD" if 0 < self._max_hold <= until else "EXPIRED"

    def _believe(self, sent: _Instant, answer: Dict[str, Any]) -> None:
        valid = int(answer.get("validForMs", "0")) * 1_000_000
        now = _Instant()
        with self._guard:
            if self._known is None:
                self.token = int(answer["token"])
                self.keys = answer["keys"]
                self.slot = int(answer.get("slot", 0))
                self._known = now
                self._sent, self._valid = sent, valid
            elif not self._ended:
                if now.since(self._sent) >= self._valid:
                    self._ended = self._bound()
                elif now.since(sent) - valid < now.since(self._sent) - self._valid:
                    self._sent, self._valid = sent, valid

    def _end(self, why: str) -> None:
        if os.getpid() != self._session._pid:
            return  # it holds nothing, and the guard may have been taken when it was forked
        with self._guard:
            self._ended = self._ended or why

    def _lose(self, why: str) -> None:
        """What release says. pawld does not know it for ever: then it is what ended the belief."""
        self._end(self._why() or why or "NOT_HELD")
        self._lost = why or self._lost or self._ended

    def confirm(self) -> None:
        """Queries etcd. Raises LockLost unless it is held."""
        self._ask("Confirm", {})

    def proclaim(self, value: bytes) -> None:
        """Changes the value of an election's term."""
        self._ask("Proclaim", {"value": b64encode(value).decode()})

    def _ask(self, method: str, more: Dict[str, Any]) -> None:
        self.check()
        sent = _Instant()
        answer = self._session._call(method, {"session": self._session._id, "requestId": self._id, **more}, _PATIENCE)["lock"]
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
            if len(self.names) > 1:
                self._session._free(self._id)  # what is left of it
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
        self._socket, self._address, self._ssl, self._token = socket, address, ssl, token
        self._ttl, self._owner, self._bind = ttl, owner, bind
        self._id = secrets.token_hex(16)
        self._pid = os.getpid()
        self._change = threading.Condition()
        self._locks: Dict[str, Lock] = {}
        self._asked: Dict[str, Lock] = {}  # being acquired
        self._releasing: Set[str] = set()
        self._settled: List[str] = []
        self._opened = False  # an Acquire was sent
        self._closed = False
        self._renewer: Optional[threading.Thread] = None

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
        if os.getpid() != self._pid:
            raise Error("invalid_argument", "the session is another process's")
        lock = Lock(self, secrets.token_hex(16), names, more.get("maxHoldMs", 0) * 1_000_000)
        body = {"session": self._id, "requestId": lock._id, "names": names, "owner": self._owner, "ttlMs": int(self._ttl * 1000), **more}
        if self._bind:
            body["bind"] = True
        end = None if timeout is None else time.monotonic() + timeout
        with self._change:
            self._asked[lock._id] = lock
            self._opened = True
        passing = ["unavailable"]
        try:
            while True:
                left = self._ttl / 2 if end is None else min(end - time.monotonic(), self._ttl / 2)
                body["waitMs"] = max(int(left * 1000), 0)
                sent = _Instant()
                try:
                    answer = self._call("Acquire", body, max(left, 0) + _MARGIN)
                except Error as e:
                    if e.code not in passing or (end is not None and time.monotonic() >= end):
                        raise
                    time.sleep(0.1)
                    continue
                state = answer["state"]
                if state == "HELD":
                    lock._believe(sent, answer["lock"])
                    self._keep(lock)
                    lock.check()
                    return lock
                if state == "BUSY":
                    return None
                if state == "LOST":
                    raise LockLost(lock.name, answer["lock"].get("why", "NOT_HELD"))
                passing = _AGAIN  # a limit is no reason to give the position up
                with self._change:
                    self._begin()  # what an earlier acquisition won, and never learned of, may be in the way
                if end is not None and time.monotonic() >= end:
                    raise TimeoutError(f"lock {lock.name!r}: not held after {timeout} s")
        except BaseException:
            lock._end("given up")
            freeing = self._free_later(lock._id)
            freeing.join(_MARGIN / 2)  # where pawld answers, it is done when this returns
            with self._change:
                self._locks.pop(lock._id, None)
            raise
        finally:
            with self._change:
                self._asked.pop(lock._id, None)

    def _keep(self, lock: Lock) -> None:
        with self._change:
            if self._closed:
                raise Error("invalid_argument", "the session is closed")
            self._locks[lock._id] = lock
            self._begin()

    def _begin(self) -> None:
        """Starts the thread, or wakes it; self._change is held."""
        if self._renewer is None:
            self._renewer = threading.Thread(target=self._renew, name="pawld", daemon=True)
            self._renewer.start()
        self._change.notify()

    def _renew(self) -> None:
        """Runs in the thread: renews while there are locks, or while one is waited for."""
        while True:
            with self._change:
                while not self._locks and not self._asked and not self._closed:
                    self._change.wait()
                if self._closed:
                    return
                settled, self._settled = self._settled, []
            wait = self._ttl / 4
            sent = _Instant()
            try:
                answer = self._call("Renew", {"session": self._id, "waitMs": int(wait * 1000), "settled": settled}, wait + self._ttl / 4)
            except Error as e:
                if e.code in _AGAIN:
                    with self._change:
                        self._settled += settled
                time.sleep(min(0.1, self._ttl / 20))
                continue
            listed = {l["requestId"]: l for l in answer.get("locks", [])}
            unwanted = []
            unparked = not listed  # pawld parks no Renew of a session that it does not know
            with self._change:
                for request_id, entry in listed.items():
                    if request_id in self._locks or request_id in self._asked:
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
                            if lock._ended != "released":
                                lock._lose("")
                            unwanted.append(request_id)
                    elif seen is not None or (lock._known is not None and sent.boot >= lock._known.boot):
                        if lock._ended != "released":  # otherwise Release says what became of it
                            lock._lose((seen or {}).get("why", ""))
                        if request_id not in self._releasing:  # its answer may be lost, and sent again it must find what it did
                            self._settle(request_id)
                        elif seen is not None:
                            unparked = True
            for request_id in unwanted:
                self._free_later(request_id)
            if unparked:
                time.sleep(min(0.1, self._ttl / 20))

    def _settle(self, request_id: str) -> None:
        self._locks.pop(request_id, None)
        self._settled = (self._settled + [request_id])[-100:]

    def _release(self, lock: Lock) -> Dict[str, Any]:
        if os.getpid() != self._pid:
            return {"why": "another process acquired it"}
        with self._change:
            self._releasing.add(lock._id)
        try:
            answer = self._call_release({"session": self._id, "requestIds": [lock._id]}, self._ttl)
            with self._change:
                self._settle(lock._id)
        finally:
            with self._change:
                self._releasing.discard(lock._id)
        results: List[Dict[str, Any]] = answer.get("results") or [{}]  # of a session that has ended there are none
        return results[0]

    def _call_release(self, body: Dict[str, Any], timeout: float) -> Dict[str, Any]:
        """Calls again where pawld is away, or at a limit: until then another waits for what is kept."""
        end = time.monotonic() + timeout
        while True:
            try:
                return self._call("Release", body, max(end - time.monotonic(), 0) + _MARGIN)
            except Error as e:
                if e.code not in _AGAIN or time.monotonic() >= end:
                    raise
                time.sleep(0.1)

    def _free(self, request_id: str) -> None:
        """Releases what nobody believes in. Where that is lost, the next Renew lists it."""
        try:
            self._call("Release", {"session": self._id, "requestIds": [request_id]}, 1)
        except Error:
            pass

    def _free_later(self, request_id: str) -> threading.Thread:
        thread = threading.Thread(target=self._free, args=(request_id,), name="pawld", daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Gives everything back."""
        if os.getpid() != self._pid:
            return
        with self._change:
            if self._closed:
                return
            self._closed = True
            locks, self._locks = list(self._locks.values()), {}
            self._change.notify()
        for lock in locks:
            lock._end("the session was closed")
        if locks:
            self._call_release({"session": self._id}, self._ttl)
        elif self._opened:  # it counts until it ends; where pawld is away, its TTL ends it
            try:
                self._call_release({"session": self._id}, _MARGIN)
            except Error:
                pass

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self.close()
        except Error:
            if error is None:
                raise

    def _call(self, method: str, body: Dict[str, Any], timeout: float) -> Dict[str, Any]:
        """One request on a connection of its own. It takes no longer than timeout, once the host's name is looked up."""
        if os.getpid() != self._pid:
            raise Error("invalid_argument", "the session is another process's")
        end = time.monotonic() + timeout
        connection = http.client.HTTPConnection("pawl") if self._address is None else http.client.HTTPConnection(*self._address)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        try:
            connection.sock = _Timed(self._connect(connection, end), end)  # type: ignore[assignment]
            headers["Connect-Timeout-Ms"] = str(max(int((end - time.monotonic()) * 1000), 1))
            connection.request("POST", "/pawl.v1.Locks/" + method, json.dumps(body), headers)
            with connection.getresponse() as response:
                answer = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise Error("unavailable", f"pawld does not answer: {e}") from e
        finally:
            connection.close()
        if response.status != 200:
            raise Error(answer.get("code", "unknown"), answer.get("message", ""))
        return answer  # type: ignore[no-any-return]

    def _connect(self, to: http.client.HTTPConnection, end: float) -> _socket.socket:
        if self._address is None:
            return _reach(_socket.AF_UNIX, self._socket, end)
        found = _socket.getaddrinfo(to.host, to.port, type=_socket.SOCK_STREAM)
        for n, (family, _, _, _, at) in enumerate(found):
            now = time.monotonic()
            try:
                sock = _reach(family, at, now + (end - now) / (len(found) - n))  # the others get the rest of the time
                break
            except OSError:
                if n == len(found) - 1:
                    raise
        try:
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            return sock if self._ssl is None else self._ssl.wrap_socket(_Timed(sock, end).arm(), server_hostname=to.host)
        except BaseException:
            sock.close()
            raise


def _reach(family: int, at: Any, end: float) -> _socket.socket:
    sock = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        _Timed(sock, end).arm().connect(at)
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
