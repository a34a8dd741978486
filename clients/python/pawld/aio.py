"""Strict locks and elections on etcd, through the daemon pawld, for programs that use asyncio.

    async with pawld.aio.Session() as session, session.lock("report") as lock:
        async for row in rows:
            lock.check()                       # raises LockLost; compares the clock, does no I/O
            await store(row, token=lock.token)  # the storage refuses a token below the highest it has seen

A task that is cancelled while it waits gives its position in the queue up, and holds nothing
afterwards: asyncio.timeout, asyncio.wait_for and a TaskGroup may end any wait. Neither a wait
nor a lock has a thread, and a session has none. It belongs to the event loop that first uses it.

A lock is believed in as in pawld. What blocks the event loop for longer than the TTL delays the
renewals: then the next check raises LockLost.
"""

from __future__ import annotations

import asyncio
import logging
import socket as _socket
import time
from base64 import b64encode
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Coroutine, Iterable, List, Optional, Set, Tuple, Type, TypeVar, cast

from . import _steps
from ._validity import Validity, LockLost
from ._wire import FAILURES, TLS, Answer, Captured, Error, Text, Token, Wire, numeric, received, say

__all__ = ["Session", "Lock", "Error", "LockLost"]

T = TypeVar("T")


class Lock(Validity):
    """One acquisition of a lock or of several at once, or one term of an election."""

    def __init__(self, session: "Session", request_id: str, names: List[str], max_hold: int, stall: int) -> None:
        super().__init__(request_id, names, session._ttl, max_hold, stall)
        self._session = session
        self._wanted: asyncio.Event = asyncio.Event()

    def wanted(self) -> asyncio.Event:
        """Set once somebody waits behind it. It is a hint. It ends nothing, and stays set if nobody waits any more.

        For a lock that is shared it means somebody who waits for it alone; of several names, for any of them. It is
        never set for a slot or a term. The first call has the session ask pawld with each renewal: that begins
        within a quarter of the TTL, and finds those who waited before, too.
        """
        self._asks = True
        return self._wanted

    async def confirm(self) -> None:
        """Queries etcd. Raises LockLost unless it is held."""
        await self._session._query(self, "Confirm", {})

    async def progress(self) -> None:
        """Reports that the work has got something done. Raises LockLost unless the lock is held.

        A lock that was acquired with stall is lost when none came for that many seconds, even while the session renews
        it. Call it from the work, each time something is done: one request to pawld, of half a second at most. If pawld
        does not answer, it does not count, and nothing is raised while the lock is held.
        """
        await self._session._progress(self)

    async def proclaim(self, value: bytes) -> None:
        """Changes the value of an election's term."""
        await self._session._query(self, "Proclaim", {"value": b64encode(value).decode()})

    async def release(self) -> None:
        """Releases the lock. Raises LockLost if it was lost before. If it is cancelled, the release continues."""
        await self._session._release(self)

    async def __aenter__(self) -> "Lock":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            await self.release()
        except (Error, LockLost):
            if error is None:
                raise


class Wait:
    """What one caller waits for. Nothing but the event loop's thread can end it."""

    def __init__(self) -> None:
        self._error: Optional[BaseException] = None
        self._task: Optional["asyncio.Future[Any]"] = None

    def end(self, error: BaseException) -> None:
        self._error = error
        if self._task is not None:
            self._task.cancel()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    async def run(self, steps: Coroutine[Any, Any, T], seconds: Optional[float]) -> T:
        """What steps give within that many seconds. Who cancels all tasks ends them like a connection that breaks."""
        if self._error is not None:
            steps.close()
            raise self._error
        task = asyncio.ensure_future(steps)
        self._task = task
        task.add_done_callback(lambda t: t.cancelled() or t.exception())  # the waiter may have gone
        try:
            await asyncio.wait({task}, timeout=seconds)
        finally:
            self._task = None
            late = task.cancel()
        self.check()
        if late:
            raise _socket.timeout("timed out")
        if task.cancelled():
            raise Cut("its task was cancelled")
        return task.result()


class Cut(ConnectionAbortedError):
    """Somebody else has cancelled the task that a call is made in."""


class Worker:
    """A task that runs rounds while there is work, whatever a round raises. begin starts it, and starts it again.

    Where it is cancelled, perhaps with all tasks, it begins again after a moment. A loop that ends has ended by then.
    """

    def __init__(self, session: "Session", round: Callable[[Wait, bool], Coroutine[Any, Any, bool]], work: Callable[[], bool]) -> None:
        self._session, self._round, self._work = session, round, work
        self._task: Optional["asyncio.Task[None]"] = None

    def begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._ended)

    def wake(self) -> None:
        pass  # it waits for no work, so it ends

    async def _run(self) -> None:
        wait = Wait()
        self._session._waits[wait] = None
        try:
            await self._session._rounds(self._round, self._work, wait)
        except Error:
            pass  # closed
        finally:
            self._session._waits.pop(wait, None)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            task.get_loop().call_later(min(0.1, self._session._ttl / 20), self._again)

    def _again(self) -> None:
        if self._work() and not self._session._closed:
            say(logging.WARNING, "the task that renews and releases locks was cancelled: it is begun again")
            self.begin()


class Transport(Wire):
    """Sends requests to pawld, each on a new connection."""

    async def send(self, method: str, body: Answer, timeout: float, wait: Wait) -> Answer:
        try:
            status, reason, text = await wait.run(self._exchange(method, body, time.monotonic() + timeout), timeout)
        except FAILURES as e:
            raise self._failure(e) from e
        return self._answer(status, reason, text)

    async def _exchange(self, method: str, body: Answer, end: float) -> Text:
        connection, written = self._connection(), Captured()
        if self._address is None:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        else:
            host, port, tls = connection.host, connection.port, self._ssl()
            found = numeric(host, port) or await asyncio.get_running_loop().getaddrinfo(host, port, type=_socket.SOCK_STREAM)
            reader, writer = await asyncio.open_connection(sock=await _reach(found), ssl=tls, server_hostname=host if tls else None)
        try:
            connection.sock = cast(Any, written)
            self._request(connection, method, body, end - time.monotonic())
            writer.write(written.data)
            data, want, ended = b"", 0, False
            while True:
                while len(data) < want and not ended:
                    part = await reader.read(1 << 16)
                    data, ended = data + part, not part
                answer = received(data, ended)
                if not isinstance(answer, int):
                    return answer
                want = answer
        finally:
            writer.transport.abort()  # close would wait for the other side


async def _reach(found: List[Any]) -> _socket.socket:
    """The first socket that connects. An address that does not answer leaves the next one its time, from 0.25 s on."""
    rest, failed = list(found), OSError("no address")
    trying: Set["asyncio.Task[_socket.socket]"] = set()
    try:
        while rest or trying:
            if rest:
                trying.add(asyncio.ensure_future(_connect(*rest.pop(0))))
            done, _ = await asyncio.wait(trying, timeout=0.25 if rest else None, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                trying.discard(task)
                try:
                    return task.result()
                except OSError as e:
                    failed = e
        raise failed
    finally:
        for task in trying:
            task.add_done_callback(_close)
            task.cancel()


def _close(connecting: "asyncio.Task[_socket.socket]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


async def _connect(family: int, kind: int, proto: int, _: str, at: Any) -> _socket.socket:
    sock = _socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, at)
    except BaseException:
        sock.close()
        raise
    return sock


class Session(_steps.Steps[Lock, Wait]):
    """What a process's locks depend on. It renews them in a background task."""

    _survived = Exception  # not its cancellation, at the end of the event loop

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
        SSLContext: they are asked at each call, and must not block. Where they fail, or give what cannot be
        used, what they gave before counts; the first call raises an Error with the code invalid_argument.

        With bind, the session is bound to this process, on the Unix socket and Linux 6.5 and later:
        when the process exits, its locks are given up at once.
        """
        super().__init__(ttl, owner, bind)
        self._transport = Transport(socket, address, ssl, token)
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._renewer = Worker(self, self._renew, lambda: bool(self._locks or self._asked))
        self._releaser = Worker(self, self._free, lambda: bool(self._unwanted))
        self._workers = self._renewer, self._releaser
        self._cleanups: Set["asyncio.Task[Any]"] = set()  # the loop itself keeps none

    @asynccontextmanager
    async def lock(
        self, name: str, *, timeout: Optional[float] = None, shared: bool = False, max_hold: float = 0, stall: float = 0
    ) -> AsyncIterator[Lock]:
        """acquire, for async with: it is released at the end."""
        async with await self.acquire(name, timeout=timeout, shared=shared, max_hold=max_hold, stall=stall) as lock:
            yield lock

    async def acquire(
        self, name: str, *, timeout: Optional[float] = None, shared: bool = False, max_hold: float = 0, stall: float = 0
    ) -> Lock:
        """Waits until the lock is held. Raises TimeoutError after timeout seconds."""
        return await self._acquire(_steps.one(name, shared, max_hold, stall), timeout, Wait())

    async def try_acquire(self, name: str, *, shared: bool = False, max_hold: float = 0, stall: float = 0) -> Optional[Lock]:
        """None if another holds the lock, or waits for it."""
        return await self._try_acquire(_steps.one(name, shared, max_hold, stall), Wait())

    async def acquire_all(
        self, names: Iterable[str], *, shared: Iterable[str] = (), timeout: Optional[float] = None, max_hold: float = 0, stall: float = 0
    ) -> Lock:
        """Waits until all names are held at once, those of shared together with other readers.

        Acquisitions of several names never wait for one another in a circle, whatever their order.
        """
        return await self._acquire(_steps.several(names, shared, max_hold, stall), timeout, Wait())

    async def try_acquire_all(self, names: Iterable[str], *, shared: Iterable[str] = (), max_hold: float = 0, stall: float = 0) -> Optional[Lock]:
        """All of the names or none. None if one of them is not free."""
        return await self._try_acquire(_steps.several(names, shared, max_hold, stall), Wait())

    async def acquire_slot(self, name: str, limit: int, *, timeout: Optional[float] = None, max_hold: float = 0, stall: float = 0) -> Lock:
        """Waits until one of a semaphore's limit slots is held. lock.slot says which."""
        return await self._acquire(_steps.slot(name, limit, max_hold, stall), timeout, Wait())

    async def try_acquire_slot(self, name: str, limit: int, *, max_hold: float = 0, stall: float = 0) -> Optional[Lock]:
        """None if no slot is free, or if others wait for one."""
        return await self._try_acquire(_steps.slot(name, limit, max_hold, stall), Wait())

    async def campaign(self, name: str, value: bytes = b"", *, timeout: Optional[float] = None, stall: float = 0) -> Lock:
        """Waits until it leads. The Lock is its term."""
        return await self._acquire(_steps.term(name, value, stall), timeout, Wait())

    async def close(self) -> None:
        """Releases everything, and ends what waits.

        If it is cancelled, it goes on in the background. Called again, it waits until everything is given back.
        """
        await self._close()

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            await self.close()
        except Error:
            if error is None:
                raise

    def _mine(self) -> None:
        super()._mine()
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise Error("invalid_argument", "the session is another event loop's")
        self._loop = loop

    def _lock(self, request_id: str, names: List[str], max_hold: int, stall: int) -> Lock:
        return Lock(self, request_id, names, max_hold, stall)

    def _wait(self) -> Wait:
        return Wait()

    def _caller(self) -> object:
        return asyncio.current_task()

    async def _apart(self, steps: Callable[[float], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Where all tasks are cancelled, the steps are done again in a hurry, because the loop may be about to end."""
        loop = asyncio.get_running_loop()
        done: "asyncio.Future[T]" = loop.create_future()
        began: List[None] = []

        async def run() -> T:
            began.append(None)
            try:
                return await steps(seconds)
            except asyncio.CancelledError:
                return await steps(min(seconds, _steps.MARGIN))

        def begin() -> None:
            task = loop.create_task(run())
            self._cleanups.add(task)
            task.add_done_callback(ended)

        def ended(task: "asyncio.Task[T]") -> None:
            self._cleanups.discard(task)
            e = Error("unavailable", "its task was cancelled") if task.cancelled() else task.exception()
            if task.cancelled() and not began:
                begin()
            elif done.done():  # its caller has gone
                if e is not None:
                    say(logging.WARNING, "what goes on in the background failed: %r", e)
            elif e is not None:
                done.set_exception(e)
            else:
                done.set_result(task.result())

        begin()
        return await done

    async def _send(self, method: str, body: Answer, timeout: float, wait: Wait) -> Answer:
        return await self._transport.send(method, body, timeout, wait)

    async def _pause(self, wait: Wait, seconds: float) -> None:
        try:
            await wait.run(asyncio.sleep(seconds), None)
        except Cut:
            pass
