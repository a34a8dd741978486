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

Programs that use asyncio import pawld.aio.
"""

from __future__ import annotations

import _thread
import threading
from base64 import b64encode
from types import TracebackType
from typing import Any, Callable, Coroutine, Dict, Iterable, List, Optional, Tuple, Type, TypeVar

from . import _steps
from ._validity import Validity, LockLost
from ._threads import IsSet, Transport, Wait, Worker, at_once, go_on
from ._wire import TLS, Answer, Error, Token

__all__ = ["Session", "Lock", "Error", "LockLost"]

T = TypeVar("T")


class Lock(Validity):
    """One acquisition of a lock or of several at once, or one term of an election."""

    def __init__(self, session: "Session", request_id: str, names: List[str], max_hold: int, stall: int) -> None:
        super().__init__(request_id, names, session._ttl, max_hold, stall)
        self._session = session
        self._wanted: threading.Event = threading.Event()

    def wanted(self) -> threading.Event:
        """Set once somebody waits behind it. It is a hint. It ends nothing, and stays set if nobody waits any more.

        For a lock that is shared it means somebody who waits for it alone; of several names, for any of them. It is
        never set for a slot or a term. The first call has the session ask pawld with each renewal: that begins
        within a quarter of the TTL, and finds those who waited before, too.
        """
        self._asks = True
        return self._wanted

    def confirm(self) -> None:
        """Queries etcd. Raises LockLost unless it is held."""
        at_once(self._session._query(self, "Confirm", {}))

    def progress(self) -> None:
        """Reports that the work has got something done. Raises LockLost unless the lock is held.

        A lock that was acquired with stall is lost when none came for that many seconds, even while the session renews
        it. Call it from the work, each time something is done: one request to pawld, of half a second at most. If pawld
        does not answer, it does not count, and nothing is raised while the lock is held.
        """
        at_once(self._session._progress(self))

    def proclaim(self, value: bytes) -> None:
        """Changes the value of an election's term."""
        at_once(self._session._query(self, "Proclaim", {"value": b64encode(value).decode()}))

    def release(self) -> None:
        """Releases the lock. Raises LockLost if it was lost before."""
        at_once(self._session._release(self))

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self.release()
        except (Error, LockLost):
            if error is None:
                raise


class Session(_steps.Steps[Lock, Wait]):
    """What a process's locks depend on. It renews them in a background thread."""

    def __init__(
        self,
        socket: str = "/run/pawl/pawld.sock",
        *,
        address: Optional[Tuple[str, int]] = None,
        ssl: TLS = None,
        token: Token = "",
        ttl: float = 10.0,
        owner: str = "",
        bind: bool = False,
    ) -> None:
        """address, with ssl or with token, is that of pawld's --listen. Otherwise socket is used.

        token may be a function or, as a pathlib.Path, a file, and ssl a function that returns an
        SSLContext: they are asked at each call, in any thread. Where they fail, or give what cannot be
        used, what they gave before counts; the first call raises an Error with the code invalid_argument.

        With bind, the session is bound to this process, on the Unix socket and Linux 6.5 and later:
        when the process exits, its locks are given up at once.
        """
        super().__init__(ttl, owner, bind)
        self._transport = Transport(socket, address, ssl, token)
        self._cancels: Dict[Wait, None] = {}  # that an event can end
        self._renewer = Worker(self, self._renew, lambda: bool(self._locks or self._asked))
        self._releaser = Worker(self, self._free, lambda: bool(self._unwanted))
        self._canceler = Worker(self, self._cancel, lambda: bool(self._cancels))
        self._workers = self._renewer, self._releaser, self._canceler

    def acquire(
        self,
        name: str,
        *,
        timeout: Optional[float] = None,
        shared: bool = False,
        max_hold: float = 0,
        stall: float = 0,
        cancel: Optional[IsSet] = None,
    ) -> Lock:
        """Waits until the lock is held. Raises TimeoutError after timeout seconds.

        Once cancel is set, a threading.Event or the like, it raises an Error with the code canceled within
        a tenth of a second. Then its position in the queue is given up, and nothing is held.
        """
        return self._hold(_steps.one(name, shared, max_hold, stall), timeout, cancel)

    def try_acquire(self, name: str, *, shared: bool = False, max_hold: float = 0, stall: float = 0) -> Optional[Lock]:
        """None if another holds the lock, or waits for it."""
        return at_once(self._try_acquire(_steps.one(name, shared, max_hold, stall), Wait()))

    def acquire_all(
        self,
        names: Iterable[str],
        *,
        shared: Iterable[str] = (),
        timeout: Optional[float] = None,
        max_hold: float = 0,
        stall: float = 0,
        cancel: Optional[IsSet] = None,
    ) -> Lock:
        """Waits until all names are held at once, those of shared together with other readers.

        Acquisitions of several names never wait for one another in a circle, whatever their order.
        """
        return self._hold(_steps.several(names, shared, max_hold, stall), timeout, cancel)

    def try_acquire_all(self, names: Iterable[str], *, shared: Iterable[str] = (), max_hold: float = 0, stall: float = 0) -> Optional[Lock]:
        """All of the names or none. None if one of them is not free."""
        return at_once(self._try_acquire(_steps.several(names, shared, max_hold, stall), Wait()))

    def acquire_slot(
        self, name: str, limit: int, *, timeout: Optional[float] = None, max_hold: float = 0, stall: float = 0, cancel: Optional[IsSet] = None
    ) -> Lock:
        """Waits until one of a semaphore's limit slots is held. lock.slot says which."""
        return self._hold(_steps.slot(name, limit, max_hold, stall), timeout, cancel)

    def try_acquire_slot(self, name: str, limit: int, *, max_hold: float = 0, stall: float = 0) -> Optional[Lock]:
        """None if no slot is free, or if others wait for one."""
        return at_once(self._try_acquire(_steps.slot(name, limit, max_hold, stall), Wait()))

    def campaign(self, name: str, value: bytes = b"", *, timeout: Optional[float] = None, stall: float = 0, cancel: Optional[IsSet] = None) -> Lock:
        """Waits until it leads. The Lock is its term."""
        return self._hold(_steps.term(name, value, stall), timeout, cancel)

    def _hold(self, wanted: _steps.Wanted, timeout: Optional[float], cancel: Optional[IsSet]) -> Lock:
        wait = Wait(cancel)
        try:
            if cancel is not None:
                self._cancels[wait] = None
                self._canceler.begin()
            return at_once(self._acquire(wanted, timeout, wait))
        finally:
            self._cancels.pop(wait, None)

    async def _cancel(self, wait: Wait, failed: bool) -> bool:
        """One round of checking the events, because nothing can wait for both a socket and an event."""
        for canceled in list(self._cancels):
            canceled.look()
        return True

    def close(self) -> None:
        """Releases everything, and ends what waits.

        If an exception of a signal handler ends it, it goes on in a thread. Called again, it waits until another
        thread's call, or that thread, has given everything back.
        """
        at_once(self._close())

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self.close()
        except Error:
            if error is None:
                raise

    def _lock(self, request_id: str, names: List[str], max_hold: int, stall: int) -> Lock:
        return Lock(self, request_id, names, max_hold, stall)

    def _wait(self) -> Wait:
        return Wait()

    def _caller(self) -> object:
        return _thread.get_ident()

    async def _apart(self, steps: Callable[[float], Coroutine[Any, Any, T]], seconds: float) -> T:
        try:
            return await steps(seconds)
        except (Error, LockLost):
            raise
        except BaseException:  # of a signal handler, or a test: its caller continues without it
            go_on(lambda: steps(seconds))
            raise

    async def _send(self, method: str, body: Answer, timeout: float, wait: Wait) -> Answer:
        return self._transport.send(method, body, timeout, wait)

    async def _pause(self, wait: Wait, seconds: float) -> None:
        wait.pause(seconds)
