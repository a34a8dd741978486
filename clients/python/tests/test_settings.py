"""A token and a TLS context that change: they are asked at each call."""

import asyncio
import logging
import os
import pathlib
import socket
import ssl
import sys
import tempfile
import threading
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import pawld  # noqa: E402
from pawld import _threads, aio  # noqa: E402

FIRST, SECOND = "first-0123456789abcdef", "second-0123456789abcdef"


class Pawld:
    """Answers each request, and keeps its token."""

    def __init__(self, case):
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        case.addCleanup(self.listener.close)
        self.address = self.listener.getsockname()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            with c:
                request = b""
                while not request.endswith(b"}"):
                    request += c.recv(65536)
                lines = request.decode().split("\r\n")
                self.seen.append(next((line.split()[-1] for line in lines if line.startswith("Authorization")), None))
                c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"state": "BUSY"}')


def with_threads(**options):
    session = pawld.Session(**options)
    return lambda: session._transport.send("Acquire", {}, 100, _threads.Wait())


def with_asyncio(**options):
    session = aio.Session(**options)
    return lambda: asyncio.run(session._transport.send("Acquire", {}, 100, aio.Wait()))


class SettingsTest(unittest.TestCase):
    """(Threads, asyncio) x (a function, a file) x (good, changed, missing, bad, raises)."""

    def each(self):
        for client in with_threads, with_asyncio:
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "token"
                now = []

                def ask():
                    if isinstance(now[0], Exception):
                        raise now[0]
                    return now[0]

                def write(token):
                    file.unlink() if token is OSError else file.write_text(token)

                for source, change, bad in (
                    (ask, lambda token: now.__setitem__(slice(None), [token]), (KeyError("no"), "", "two words", None)),
                    (file, write, ("", "two words", OSError)),
                ):
                    with self.subTest(f"{client.__name__}, {type(source).__name__}"):
                        yield client, source, change, bad

    def test_a_token_is_asked_at_each_call_and_the_last_good_one_counts(self):
        for client, source, change, bad in self.each():
            served = Pawld(self)
            change(FIRST)
            call = client(address=served.address, token=source)
            call()
            change(SECOND if callable(source) else SECOND + "\n")
            call()
            self.assertEqual(served.seen, [FIRST, SECOND])
            for wrong in bad:
                with self.assertLogs("pawld", logging.WARNING) as logs:
                    change(wrong)
                    call()
                    call()
                self.assertEqual(len(logs.output), 1, "said once")
                self.assertFalse("two words" in logs.output[0] or SECOND in logs.output[0], "it is a secret")
                self.assertEqual(served.seen[-1], SECOND)
                change(FIRST)
                call()
                self.assertEqual(served.seen[-1], FIRST)
                change(SECOND)
                call()

    def test_a_token_that_cannot_be_used_at_first_is_an_error(self):
        for client, source, change, bad in self.each():
            for wrong in bad:
                served = Pawld(self)
                change(FIRST)
                change(wrong)
                with self.assertRaises(pawld.Error) as e:
                    client(address=served.address, token=source)()
                self.assertEqual(e.exception.code, "invalid_argument")
                self.assertNotIn("two words", str(e.exception))
                change(FIRST)

    def test_a_token_that_is_given_is_checked_at_once(self):
        for module in pawld, aio:
            with self.assertRaises(pawld.Error):
                module.Session(address=("127.0.0.1", 1), token="two words")

    def test_ssl_may_be_a_function(self):
        contexts = [ssl.create_default_context(), ssl.create_default_context()]
        for client in with_threads, with_asyncio:
            with self.subTest(client.__name__):
                served = Pawld(self)
                now = [contexts[0]]
                used = []

                def ask():
                    if now[0] is None:
                        raise OSError("the files are being replaced")
                    return now[0]

                def wrap(context, *args, **named):
                    used.append(context)
                    raise ConnectionResetError("its handshake is another test's")

                with mock.patch.object(ssl.SSLContext, "wrap_socket", wrap), mock.patch.object(ssl.SSLContext, "wrap_bio", wrap):
                    call = client(address=served.address, ssl=ask)
                    for context, want in (contexts[0], 0), (contexts[1], 1), (None, 1):
                        now[0] = context
                        with self.assertRaises(pawld.Error) as e:
                            call()
                        self.assertEqual(e.exception.code, "unavailable")
                        self.assertIs(used[-1], contexts[want])
                    with self.assertRaises(pawld.Error) as e:
                        client(address=served.address, ssl=lambda: "a path")()
                    self.assertEqual(e.exception.code, "invalid_argument")


if __name__ == "__main__":
    unittest.main()
