"""How threads wait for pawld, and for one another, without a mutex."""

from __future__ import annotations

import _thread
import http.client
import io
import logging
import socket as _socket
import time
from queue import Empty, SimpleQueue
from typing import Any, Callable, Coroutine, Dict, List, Optional, Protocol, TypeVar, TYPE_CHECKING, cast

from ._wire import FAILURES, Answer, Error, Wire, numeric, say

if TYPE_CHECKING:
    from . import Session

T = TypeVar("T")


def at_once(steps: Coroutine[Any, Any, T]) -> T:
    """What steps give that never suspend."""
    try:
        steps.send(None)
    except StopIteration as done:
        given: T = done.value
        return given
    raise AssertionError("a step suspended")


def go_on(steps: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Runs steps in a thread of their own, which says what they raise."""

    def run() -> None:
        try:
            at_once(steps())
        except Exception as e:
            say(logging.WARNING, "what goes on in the background failed: %r", e)

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:
        pass  # no thread can be started: a Renew that lists a lock gives it back, or its time


class IsSet(Protocol):
    """A threading.Event, or another one."""

    def is_set(self) -> bool: ...


class Wait:
    """What one caller waits for, a pause, the look-up of a name, or a socket. Any thread or signal handler can end it."""

    def __init__(self, cancel: Optional[IsSet] = None) -> None:
        self._cancel = cancel
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

    def look(self) -> None:
        """Ends it if cancel is set."""
        if self._error is None and self._cancel is not None and self._cancel.is_set():
            self.end(Error("canceled", "the wait was canceled"))

    def check(self) -> None:
        self.look()
        if self._error is not None:
            raise self._error

    def on(self, sock: _socket.socket) -> None:
        self._sock = sock
        self.check()  # end may have come before

    def ring(self) -> None:
        self._bell.put(None)

    def until(self, done: Callable[[], bool], end: float) -> bool:
        """Waits until done. Whatever makes it done has to ring. Returns whether that was before end."""
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


class Worker:
    """A thread that runs rounds while there is work, whatever a round raises. begin starts it, and starts it again."""

    def __init__(self, session: "Session", round: Callable[[Wait, bool], Coroutine[Any, Any, bool]], work: Callable[[], bool]) -> None:
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
        wait = Wait()
        session._waits[wait] = None
        try:
            while not session._closed:
                at_once(session._rounds(self._round, self._work, wait))
                if not session._closed:
                    self._bell.get()
        except Error:
            pass  # closed
        finally:
            session._waits.pop(wait, None)
            self._running.clear()


class Transport(Wire):
    """Sends requests to pawld, each on a new connection."""

    def send(self, method: str, body: Answer, timeout: float, wait: Wait) -> Answer:
        end = time.monotonic() + timeout
        connection = self._connection()
        try:
            connection.sock = cast(Any, Timed(self._connect(connection, end, wait), end))
            self._request(connection, method, body, end - time.monotonic())
            with connection.getresponse() as response:
                text = response.read()
        except FAILURES as e:
            wait.check()
            raise self._failure(e) from e
        finally:
            connection.close()
        return self._answer(response.status, response.reason, text)

    def _connect(self, to: http.client.HTTPConnection, end: float, wait: Wait) -> _socket.socket:
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
            tls = self._ssl()
            if tls is not None:
                sock = tls.wrap_socket(Timed(sock, end).arm(), server_hostname=to.host, do_handshake_on_connect=False)
                wait.on(sock)
                Timed(sock, end).arm().do_handshake()  # type: ignore[attr-defined]
            return sock
        except BaseException:
            sock.close()
            raise


def _look_up(host: str, port: int, end: float, wait: Wait) -> List[Any]:
    """The addresses of host. The system's look-up cannot be ended, so it runs in a separate thread."""
    found = numeric(host, port)
    if found:
        return found

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


def _reach(family: int, at: Any, end: float, wait: Wait) -> _socket.socket:
    sock = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        wait.on(sock)
        Timed(sock, end).arm().connect(at)
        wait.check()
    except BaseException:
        sock.close()
        raise
    return sock


class Timed:
    """A socket that ends at a time, because a socket's timeout begins again with each byte."""

    def __init__(self, sock: _socket.socket, end: float) -> None:
        self._sock, self._end = sock, end

    def close(self) -> None:
        self._sock.close()  # what makefile returned continues to read: see there

    def arm(self) -> _socket.socket:
        left = self._end - time.monotonic()
        if left <= 0:
            raise _socket.timeout("timed out")
        self._sock.settimeout(left)
        return self._sock

    def sendall(self, data: bytes) -> None:
        while data:  # with TLS, sendall's timeout begins again with each part
            data = data[self.arm().send(data):]

    def makefile(self, mode: Any, *args: Any) -> io.BufferedReader:
        """The socket stays open until the file is closed, too: http.client closes the socket before
        it reads the body of an answer that says Connection: close."""
        return io.BufferedReader(_Answer(self, self._sock.makefile(mode, buffering=0)))


class _Answer(io.RawIOBase):
    """What a socket receives, until its Timed ends."""

    def __init__(self, timed: Timed, file: Any) -> None:
        self._timed, self._file = timed, file

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> Optional[int]:
        self._timed.arm()
        return self._file.readinto(into)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._file.close()
        super().close()
