"""What requests and answers look like, and what a failure means. http.client writes and reads them, on any connection."""

from __future__ import annotations

import errno
import http.client
import io
import json
import logging
import os
import socket as _socket
import ssl as _ssl
import stat
from typing import Any, Callable, Dict, Generic, List, Optional, Tuple, TypeVar, Union

_log = logging.getLogger("pawld")

T = TypeVar("T")

AGAIN = ("unavailable", "resource_exhausted")
"""The codes of temporary refusals: pawld, or etcd, is away, or a limit is reached."""

Answer = Dict[str, Any]
Text = Tuple[int, str, bytes]
"""An answer's status, its reason, and its body."""


class Error(Exception):
    """A call was refused, or pawld or etcd does not answer. code says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def closed() -> Error:
    return Error("closed", "the session is closed")


def not_pawld(why: object) -> Error:
    return Error("unimplemented", f"what answers is not pawld: {why}")


def say(level: int, text: str, *args: object) -> None:
    try:
        _log.log(level, text, *args)
    except Exception:
        pass  # a filter's: what is renewed does not depend on it


FAILURES = (OSError, http.client.HTTPException, ValueError)
"""What a connection fails with."""


Token = Union[str, Callable[[], str], "os.PathLike[str]"]
"""A token, or where it is asked for at each call: a function, or a file."""

TLS = Union[None, _ssl.SSLContext, Callable[[], _ssl.SSLContext]]


class Current(Generic[T]):
    """A setting that may change. Where it cannot be had, or used, the one before it counts."""

    def __init__(self, name: str, ask: Callable[[], T]) -> None:
        self._name, self._ask = name, ask
        self._last: List[T] = []
        self._failed = False

    def __call__(self) -> T:
        try:
            now = self._ask()
        except Exception as e:
            if not self._last:
                raise e if isinstance(e, Error) else Error("invalid_argument", f"{self._name}: {e!r}") from e
            if not self._failed:
                say(logging.WARNING, "%s cannot be used, and the one before it is: %r", self._name, e)
            self._failed = True
            return self._last[0]
        self._last[:], self._failed = [now], False
        return now


def token_of(token: Token) -> Callable[[], str]:
    if isinstance(token, str):
        given = token and usable(token)
        return lambda: given
    if callable(token):
        ask = token
        return Current("token", lambda: usable(ask()))
    file = token

    def read() -> str:
        with open(file, encoding="utf-8") as f:
            return usable(f.read().strip())

    return Current("token", read)


def usable(token: str) -> str:
    if not token:
        raise Error("invalid_argument", "token is empty")
    if any(not "!" <= c <= "~" for c in token):  # http.client's error would show it
        raise Error("invalid_argument", "token has a space, a line's end or another character that no token has: strip what a file has around it")
    return token


def tls_of(ssl: TLS) -> Callable[[], Optional[_ssl.SSLContext]]:
    if ssl is None or isinstance(ssl, _ssl.SSLContext):
        given = ssl
        return lambda: given
    ask = ssl
    return Current("ssl", lambda: context(ask()))


def context(given: object) -> _ssl.SSLContext:
    if not isinstance(given, _ssl.SSLContext):
        raise TypeError(f"want an SSLContext, not a {type(given).__name__}")
    return given


class Wire:
    """Where pawld is, and how to speak to it, which both clients' transports have in common."""

    def __init__(self, socket: str, address: Optional[Tuple[str, int]], ssl: TLS, token: Token) -> None:
        self._socket, self._address, self._ssl, self._token = socket, address, tls_of(ssl), token_of(token)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("pawl") if self._address is None else http.client.HTTPConnection(*self._address)

    def _request(self, connection: http.client.HTTPConnection, method: str, body: Answer, seconds: float) -> None:
        """Writes it. pawld has that many seconds to answer."""
        headers = {"Content-Type": "application/json", "Connect-Timeout-Ms": str(max(int(seconds * 1000), 1))}
        token = self._token()
        if token:
            headers["Authorization"] = "Bearer " + token
        connection.request("POST", "/pawl.v1.Locks/" + method, json.dumps(body), headers)

    @staticmethod
    def _answer(status: int, reason: str, text: bytes) -> Answer:
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if isinstance(answer, dict):
            if status == 200:
                return answer
            if isinstance(answer.get("code"), str):
                raise Error(answer["code"], str(answer.get("message", "")))
        if status in (408, 425, 429, 502, 503, 504):  # a proxy's
            raise Error("unavailable", f"pawld does not answer: {status} {reason}")
        raise not_pawld(f"{status} {reason}, and no answer of pawld's")

    def _failure(self, e: Exception) -> Error:
        """The error of a failed call. It is unavailable, unless another call would fail, too."""
        if isinstance(e, _ssl.SSLCertVerificationError):
            return Error("unauthenticated", f"the certificate of pawld is not accepted: {e}")
        if isinstance(e, _ssl.SSLError) and not isinstance(e, (_ssl.SSLEOFError, _ssl.SSLZeroReturnError, _ssl.SSLSyscallError)):
            if "ALERT" in (getattr(e, "reason", None) or ""):
                return Error("unauthenticated", f"pawld refuses the connection: {e}")
            return not_pawld(e)
        if isinstance(e, _socket.gaierror):
            if e.errno not in (_socket.EAI_AGAIN, _socket.EAI_MEMORY, _socket.EAI_SYSTEM):
                return Error("invalid_argument", f"host {self._address and self._address[0]!r} is not known: {e}")
        elif isinstance(e, PermissionError):
            return Error("permission_denied", f"{self._socket if self._address is None else self._address}: {e}")
        elif isinstance(e, http.client.HTTPException) and not isinstance(e, (http.client.IncompleteRead, http.client.RemoteDisconnected)):
            return not_pawld(repr(e))
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


def numeric(host: str, port: int) -> List[Any]:
    """The address, if host is one."""
    try:
        return _socket.getaddrinfo(host, port, type=_socket.SOCK_STREAM, flags=_socket.AI_NUMERICHOST)
    except _socket.gaierror:
        return []


class Captured:
    """A connection's socket that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def sendall(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        pass


class _Received:
    """A connection's socket from which everything has been read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str, *args: Any) -> io.BytesIO:
        return io.BytesIO(self._data)


def received(data: bytes, ended: bool) -> Union[Text, int]:
    """The answer, once all of it has arrived, and until then the length of data that is needed to call this again. ended says that no more comes."""
    if not ended and b"\n" not in data:
        return len(data) + 1  # nor a status
    response = http.client.HTTPResponse(_Received(data), method="POST")  # type: ignore[arg-type]
    try:
        response.begin()
        if not ended and (b"\r\n\r\n" not in data or (response.length is None and not response.chunked)):
            return len(data) + 1  # the headers, or a body that ends with the connection
        return response.status, response.reason, response.read()
    except (http.client.IncompleteRead, http.client.RemoteDisconnected) as e:
        if ended:
            raise
        return len(data) + (getattr(e, "expected", None) or 1)


def checked(method: str, answer: Answer) -> Answer:
    """The answer, if it has the form of method's."""
    try:
        locks = answer.get("locks", []) if method == "Renew" else []
        if method in ("Confirm", "Proclaim", "Progress") or (method == "Acquire" and answer["state"] in ("HELD", "LOST")):
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
        raise not_pawld(f"its answer to {method} is malformed: {e!r}") from e
    return answer
