"""What a Session does where pawld's answers are lost or late: python3 -m unittest, in this directory."""

import faulthandler
import json
import os
import secrets
import socket
import socketserver
import ssl
import sys
import tempfile
import threading
import time
import traceback
import unittest
from http.server import BaseHTTPRequestHandler
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import pawld  # noqa: E402


class Pawld(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers as the test says: answers has a function for each call, from body to status and answer."""

    daemon_threads = True

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.dir.name, "s")
        super().__init__(self.path, Handler)
        self.answers = {}
        self.seen = []  # calls and bodies
        self.changed = threading.Condition()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()  # how often it looks whether it is to end

    def handle_error(self, request, client_address):
        pass  # a client that has gone

    def stop(self):
        self.shutdown()
        self.server_close()
        self.dir.cleanup()

    def count(self, call):
        return len([c for c, _ in self.seen if c == call])

    def await_call(self, call, want, seconds=180):
        """Returns whether a call came whose body want accepts."""
        with self.changed:
            return self.changed.wait_for(lambda: any(c == call and want(b) for c, b in self.seen), seconds)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        call = self.path.rsplit("/", 1)[1]
        with self.server.changed:
            self.server.seen.append((call, body))
            self.server.changed.notify_all()
        status, answer = self.server.answers[call](body)
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


def held(request_id):
    return {"requestId": request_id, "state": "HELD", "names": ["n"], "token": "5", "keys": ["n/1"], "validForMs": "60000"}


AWAY = (503, {"code": "unavailable", "message": "away"})


HANG = 180  # seconds, after which a test that waits for an event has failed
LONG = 1000  # seconds, of a TTL with which no call is so late that it is repeated


class SessionTest(unittest.TestCase):
    def setUp(self):
        faulthandler.dump_traceback_later(HANG, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        self.pawld = Pawld()
        self.addCleanup(self.pawld.stop)
        self.rows = {}  # as Renew lists them
        self.pawld.answers = {"Acquire": self.acquire, "Renew": self.renew, "Release": self.release}
        self.session = pawld.Session(self.pawld.path, ttl=0.4)

    def acquire(self, body):
        self.rows[body["requestId"]] = held(body["requestId"])
        return 200, {"state": "HELD", "lock": held(body["requestId"])}

    def renew(self, body):
        for i in body["settled"]:
            self.rows.pop(i, None)
        if not any(r["state"] == "LOST" for r in self.rows.values()):
            time.sleep(min(body["waitMs"] / 1000, 0.5))  # parked
        return 200, {"locks": list(self.rows.values())}

    def release(self, body):
        for i in body.get("requestIds", []):
            self.rows.pop(i, None)
        return 200, {"results": [{"requestId": i, "released": True} for i in body.get("requestIds", [])]}

    def test_a_lock_whose_release_failed_is_not_kept(self):
        """Else it is renewed for ever, and its own client waits for it."""
        lock = self.session.acquire("n")
        self.pawld.answers["Release"] = lambda body: AWAY
        with self.assertRaises(pawld.Error):
            lock.release()
        tried = self.pawld.count("Release")
        self.pawld.answers["Release"] = self.release
        self.assertTrue(self.pawld.await_call("Release", lambda b: self.pawld.count("Release") > tried))

    def full(self, times):
        """Has Release be refused so often, because a limit is reached. Returns what is left of that."""
        refusals = [(429, {"code": "resource_exhausted", "message": "full"})] * times
        self.pawld.answers["Release"] = lambda body: refusals.pop() if refusals else self.release(body)
        return refusals

    def test_a_release_is_sent_again_where_a_limit_is_reached(self):
        """Else the lock is kept until the client's session ends."""
        session = pawld.Session(self.pawld.path, ttl=LONG)
        lock = session.acquire("n")
        refusals = self.full(2)
        lock.release()
        self.assertEqual(refusals, [])
        session.acquire("n")
        refusals = self.full(2)
        session.close()
        self.assertEqual(refusals, [])

    def test_a_release_that_is_refused_for_good_takes_no_longer_than_its_timeout(self):
        lock = self.session.acquire("n")
        self.pawld.answers["Release"] = lambda body: (429, {"code": "resource_exhausted", "message": "full"})
        self.ends(lock.release)

    def test_a_lock_is_not_settled_while_its_release_is_unanswered(self):
        """Else pawld has forgotten it when the release is sent again, and says that it was not held."""
        for row, result in (None, {"released": True}), ({"state": "LOST", "why": "MAX_HOLD"}, {"why": "MAX_HOLD"}):
            with self.subTest(result):
                session = pawld.Session(self.pawld.path, ttl=LONG)
                pause, pauses = session._pause, []

                async def counted(wait, seconds, pause=pause, pauses=pauses):
                    await pause(wait, seconds)
                    pauses.append(seconds)

                session._pause = counted
                lock = session.acquire("n")
                session.acquire("m")  # so that renewals go on
                settled = lambda body: lock._id in body["settled"]
                renewals = []  # while the first release is under way

                def release(body):
                    if not renewals:  # its answer is lost
                        renewals.append(0)
                        before = self.pawld.count("Renew")
                        self.rows.pop(lock._id)
                        if row is not None:
                            self.rows[lock._id] = dict(held(lock._id), **row)
                        self.pawld.await_call("Renew", lambda b: self.pawld.count("Renew") >= before + 2)
                        time.sleep(0.3)
                        renewals[0] = self.pawld.count("Renew") - before
                        return AWAY
                    known = not any(c == "Renew" and settled(b) for c, b in self.pawld.seen)
                    return 200, {"results": [dict(result, requestId=lock._id) if known else {"why": "NOT_HELD"}]}

                self.pawld.answers["Release"] = release
                why = ""
                try:
                    lock.release()
                except pawld.LockLost as lost:
                    why = lost.why
                self.assertEqual(why, result.get("why", ""))
                self.assertLess(renewals[0], 10 + len(pauses), "they follow one another without a pause")
                self.assertTrue(self.pawld.await_call("Renew", settled))
                self.pawld.answers["Release"] = self.release
                session.close()

    def test_what_has_waited_keeps_its_position_where_a_limit_is_reached(self):
        full = (429, {"code": "resource_exhausted", "message": "full"})
        answers = [full, full, (200, {"state": "WAITING"})]
        self.pawld.answers["Acquire"] = lambda body: answers.pop() if answers else self.acquire(body)
        session = pawld.Session(self.pawld.path, ttl=LONG)
        self.addCleanup(session.close)
        self.assertTrue(session.acquire("n").held())
        self.assertEqual(len({b["requestId"] for c, b in self.pawld.seen if c == "Acquire"}), 1)
        self.pawld.answers["Acquire"] = lambda body: full
        with self.assertRaisesRegex(pawld.Error, "resource_exhausted"):  # which has no position
            session.acquire("m")

    def test_close_ends_a_session_that_holds_nothing(self):
        """Else it counts as one of its identity's until its TTL ends it."""
        self.pawld.answers["Acquire"] = lambda body: (200, {"state": "BUSY"})
        session = pawld.Session(self.pawld.path, ttl=LONG)
        self.assertIsNone(session.try_acquire("n"))
        session.close()
        self.assertTrue(self.pawld.await_call("Release", lambda b: b == {"session": session._id}))
        self.assertNotIn("requestIds", [k for c, b in self.pawld.seen if c == "Release" for k in b])

    def test_close_says_nothing_where_there_is_nothing_to_end(self):
        self.session.close()
        self.assertEqual(self.pawld.seen, [])
        away = pawld.Session(os.path.join(self.pawld.dir.name, "none"))
        with self.assertRaises(pawld.Error):
            away.acquire("n", timeout=0)
        away.close()  # returns

    def test_a_release_in_a_session_that_has_ended_finds_nothing_held(self):
        lock = pawld.Session(self.pawld.path, ttl=LONG).acquire("n")
        self.pawld.answers["Release"] = lambda body: (200, {})
        with self.assertRaises(pawld.LockLost):
            lock.release()

    def test_what_nobody_has_is_given_back_while_another_is_waited_for(self):
        """Else a client waits for what it won itself, and was never told."""
        orphan = "0123456789abcdef" * 2
        self.rows[orphan] = held(orphan)
        self.pawld.answers["Acquire"] = lambda body: (time.sleep(body["waitMs"] / 1000), (200, {"state": "WAITING"}))[1]
        waiting = threading.Thread(target=lambda: self.assertRaises(pawld.Error, self.session.acquire, "n"), daemon=True)
        waiting.start()
        self.assertTrue(self.pawld.await_call("Release", lambda b: b.get("requestIds") == [orphan]))
        self.session.close()
        waiting.join()

    def test_what_nobody_has_and_was_lost_is_settled(self):
        """Else pawld parks no Renew, and they follow one another without a pause."""
        lost = "fedcba9876543210" * 2
        self.session.acquire("n")
        self.rows[lost] = {"requestId": lost, "state": "LOST", "why": "EXPIRED"}
        self.assertTrue(self.pawld.await_call("Renew", lambda b: lost in b["settled"]))

    def test_a_validity_counts_from_before_the_request_was_written(self):
        def late(body):
            time.sleep(0.3)
            return 200, {"state": "HELD", "lock": dict(held(body["requestId"]), validForMs="200")}

        self.pawld.answers["Acquire"] = late
        with self.assertRaises(pawld.LockLost):
            self.session.acquire("n")

    def ends(self, call, *args, **named):
        """Wants a refusal, though what is called never says anything, or never ends."""
        with self.assertRaises(pawld.Error):
            call(*args, **named)

    def test_a_call_takes_no_longer_than_its_timeout_where_pawld_is_silent(self):
        lock = self.session.acquire("n")
        quiet = threading.Event()
        self.addCleanup(quiet.set)
        self.pawld.answers["Acquire"] = self.pawld.answers["Release"] = lambda body: (quiet.wait(), AWAY)[1]
        self.ends(self.session.acquire, "m", timeout=0.3)
        self.ends(self.session.try_acquire, "m")
        self.ends(lock.release)

    def test_a_call_takes_no_longer_than_its_timeout_where_the_answer_trickles_in(self):
        """A socket's own timeout begins again with each byte."""

        def trickle(c):
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            while True:  # until the client has gone
                time.sleep(0.05)
                c.sendall(b" ")

        self.ends(pawld.Session(self.raw(trickle), ttl=0.4).acquire, "n", timeout=0.3)

    def at_addresses(self, *found):
        """Has a host's name be looked up with that result."""
        patch = mock.patch.object(socket, "getaddrinfo", lambda *a, **n: [(socket.AF_INET, socket.SOCK_STREAM, 0, "", at) for at in found])
        patch.start()
        self.addCleanup(patch.stop)

    def dead(self):
        """An address that answers no attempt to connect."""
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        while True:
            c = socket.socket()
            self.addCleanup(c.close)
            c.settimeout(0.2)
            try:
                c.connect(listener.getsockname())
            except socket.timeout:
                return listener.getsockname()

    def silent(self):
        return self.raw(lambda c: c.recv(65536) and c.recv(65536), socket.AF_INET)

    def test_a_call_takes_no_longer_than_its_timeout_where_no_address_answers(self):
        dead = self.dead()
        over_tls = {"address": ("pawld.example", 1), "ssl": ssl.create_default_context()}
        for name, found, named in (
            ("many", [dead] * 5, {"address": ("pawld.example", 1), "token": "0123456789abcdef"}),
            ("many, with TLS", [dead] * 5, over_tls),
            ("the second, without a handshake", [dead, self.silent()], over_tls),
        ):
            with self.subTest(name):
                self.at_addresses(*found)
                self.ends(pawld.Session(ttl=0.4, **named).acquire, "n", timeout=0.3)

    def test_an_address_that_does_not_answer_leaves_time_for_the_next(self):
        def answer(c):
            request = b""
            while not request.endswith(b"\r\n\r\n{}"):
                request += c.recv(65536)
            within = int(request.lower().split(b"connect-timeout-ms: ")[1].split(b"\r")[0])
            text = b'{"within": %d}' % within
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

        now, dead, connect = [0.0], ("192.0.2.1", 1), pawld._threads._reach

        def reach(family, at, end, wait):
            if at == dead:
                now[0] = end
                raise socket.timeout("timed out")
            return connect(family, at, end, wait)

        self.at_addresses(dead, self.raw(answer, socket.AF_INET))
        session = pawld.Session(address=("pawld.example", 1), token="0123456789abcdef")
        with mock.patch.object(time, "monotonic", lambda: now[0]), mock.patch.object(pawld._threads, "_reach", reach):
            within = session._transport.send("Renew", {}, LONG, pawld._threads.Wait())["within"]
        self.assertEqual(within, LONG * 1000 // 2, "of the time, pawld has what is left")

    def test_what_is_sent_slowly_ends_at_its_time(self):
        """A TLS socket's sendall sends in parts, and its timeout begins again with each."""

        class Slow:
            def settimeout(self, seconds):
                pass

            def send(self, data):
                now[0] += 0.05
                return 1

            def sendall(self, data):
                for _ in data:
                    self.send(data)

        now = [0.0]
        with mock.patch.object(time, "monotonic", lambda: now[0]), self.assertRaises(socket.timeout):
            pawld._threads.Timed(Slow(), 0.2).sendall(b"x" * 100)
        self.assertLess(now[0], 0.3)

    def raw(self, answer, family=socket.AF_UNIX):
        """The address of a socket, to each connection of which answer writes."""
        listener = socket.socket(family)
        self.addCleanup(listener.close)
        listener.bind(os.path.join(self.pawld.dir.name, secrets.token_hex(4)) if family == socket.AF_UNIX else ("127.0.0.1", 0))
        listener.listen()

        def one(c):
            try:
                answer(c)
            except OSError:
                pass  # the client has gone
            finally:
                c.close()

        def serve():
            try:
                while True:
                    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()
            except OSError:
                pass  # the test is over

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()

    def test_the_body_is_read_of_an_answer_that_says_that_its_connection_ends(self):
        """http.client closes the socket before it reads such a body, which may come later."""
        for head in (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"):
            with self.subTest(head):

                def answer(c):
                    request = b""
                    while not request.endswith(b"\r\n\r\n{}"):  # what is not read resets the connection
                        request += c.recv(65536)
                    c.sendall(head)
                    time.sleep(0.2)
                    c.sendall(b"{}")

                self.assertEqual(pawld.Session(self.raw(answer))._transport.send("Renew", {}, 10, pawld._threads.Wait()), {})

    def test_a_token_that_no_header_can_have_is_refused_and_not_shown(self):
        for token in ("secret-secret-secret\n", "secret-secret\r\nX: y", " secret-secret-secret", "secret-secret\u20acsecret", "secret\0secret"):
            with self.subTest(token):
                with self.assertRaises(pawld.Error) as refused:
                    pawld.Session(address=("127.0.0.1", 1), token=token).acquire("n", timeout=0)
                self.assertEqual(refused.exception.code, "invalid_argument")
                self.assertNotIn("secret", "".join(traceback.format_exception_only(pawld.Error, refused.exception)))
                self.assertIsNone(refused.exception.__context__)
        pawld.Session(address=("127.0.0.1", 1), token="0123456789abcdef~!+/=")

    def test_bind_is_asked_for_where_it_is_wanted_and_nowhere_else(self):
        for bind in False, True:
            pawld.Session(self.pawld.path, ttl=LONG, bind=bind).acquire("n")
        self.assertEqual([b.get("bind") for c, b in self.pawld.seen if c == "Acquire"], [None, True])


if __name__ == "__main__":
    unittest.main()
