"""What other threads, signal handlers, forks and failures do to a Session. Its transport is the test's."""

import errno
import faulthandler
import http.client
import logging
import os
import secrets
import signal
import socket
import ssl
import sys
import tempfile
import threading
import types
import unittest
import warnings
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import pawld  # noqa: E402
from pawld._threads import at_once  # noqa: E402

HANG = 180  # seconds, after which a test that waits for an event has failed
AWAY = pawld.Error("unavailable", "away")


class Fake:
    """A transport. answers has a function for some calls; the others are answered as pawld would, at once."""

    def __init__(self):
        self.answers, self.seen = {}, []
        self.rows, self.free, self.ended = {}, set(), False
        self.changed = threading.Condition()

    def send(self, method, body, timeout, wait):
        with self.changed:
            self.seen.append((method, body))
            self.changed.notify_all()
        return self.answers.get(method, getattr(self, method.lower()))(body, wait)

    def acquire(self, body, wait):
        self.rows[body["requestId"]] = lock = held(body["requestId"])
        return {"state": "HELD", "lock": lock}

    def renew(self, body, wait):
        return {"locks": list(self.rows.values())}

    def confirm(self, body, wait):
        return {"lock": held(body["requestId"])}

    def release(self, body, wait):
        ids = body.get("requestIds", list(self.rows))
        self.ended = self.ended or "requestIds" not in body
        self.free.update(ids)
        for i in ids:
            self.rows.pop(i, None)
        return {"results": [{"requestId": i, "released": True} for i in ids]}

    def calls(self, method):
        return [b for m, b in self.seen if m == method]

    def wait_for_ever(self, done):
        """Looks again and again, at what no call changes."""
        while not done():
            threading.Event().wait(0.001)

    def wait_for(self, done):
        with self.changed:
            if not self.changed.wait_for(done, HANG):
                raise AssertionError("it does not happen")


def held(request_id):
    return {"requestId": request_id, "state": "HELD", "token": "5", "keys": ["n/1"], "validForMs": "3000000"}


def never(body, wait):
    wait.until(lambda: False, threading.TIMEOUT_MAX / 2)


def at_each_line(run, do):
    """Runs run, and calls do between each two lines of the client's in this thread."""

    client = os.path.dirname(pawld.__file__)

    def line(frame, event, _):
        if event == "line":
            do()
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, _: line if os.path.dirname(frame.f_code.co_filename) == client else None)
    try:
        run()
    finally:
        sys.settrace(before)


def refused(call):
    try:
        call()
    except (pawld.Error, pawld.LockLost):
        pass


class Case(unittest.TestCase):
    def setUp(self):
        faulthandler.dump_traceback_later(HANG, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        logging.getLogger("pawld").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("pawld").setLevel, logging.NOTSET)

    def make(self, **options):
        session = pawld.Session(**{"ttl": 1000, **options})
        session._transport = Fake()
        self.addCleanup(session.close)
        return session, session._transport

    def alone(self):
        """No threads but the test's."""
        patch = mock.patch.object(pawld._threads.Worker, "begin", lambda self: None)
        patch.start()
        self.addCleanup(patch.stop)

    def in_thread(self, call):
        """Runs call. Returns a function that waits for what it raised."""
        raised = []

        def run():
            try:
                call()
            except BaseException as e:
                raised.append(e)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def done():
            thread.join(HANG)
            self.assertFalse(thread.is_alive(), "it does not end")
            return raised[0] if raised else None

        return done


class EachLineTest(Case):
    """(Each line of close and release) x (a second thread that looks, renews and releases)."""

    def look_at_each_line(self, end):
        self.alone()
        session, fake = self.make()
        locks = [session.acquire("n"), session.acquire("m")]
        wait, lines, wrong = pawld._threads.Wait(), [], []

        def look():
            refused(lambda: at_once(session._renew(wait, False)))
            refused(lambda: at_once(session._free(wait, False)))
            for lock in locks:
                free = fake.ended or lock._id in fake.free
                if lock.held() and free:
                    wrong.append(lines[-1])

        def stop():
            lines.append(len(lines))
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()

        at_each_line(lambda: end(session, locks[0]), stop)
        self.assertGreater(len(lines), 20)
        self.assertEqual(wrong, [], "it is believed in when another may hold it")
        self.assertIn(locks[0]._id, fake.free)

    def test_close(self):
        self.look_at_each_line(lambda session, lock: session.close())

    def test_release(self):
        self.look_at_each_line(lambda session, lock: lock.release())

    def test_leaving_a_with_statement(self):
        def leave(session, lock):
            with session, lock:
                pass

        self.look_at_each_line(leave)


class Mutex:
    """A lock, for one thread alone: to wait for it is to wait for ever."""

    def __init__(self):
        self._taken = False

    def acquire(self, *_):
        if self._taken:
            raise SystemError("it waits for what it interrupted")
        self._taken = True
        return True

    def release(self):
        self._taken = False

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


class SignalTest(Case):
    """(Each line of each call) x (what a signal handler calls)."""

    CALLS = {
        "held": lambda session, lock, fake: lock.held(),
        "check": lambda session, lock, fake: lock.check(),
        "confirm": lambda session, lock, fake: lock.confirm(),
        "release": lambda session, lock, fake: lock.release(),
        "acquire": lambda session, lock, fake: session.acquire("m"),
        "close": lambda session, lock, fake: session.close(),
    }

    def test_a_handler_waits_for_nothing_that_it_interrupted(self):
        self.alone()
        patch = mock.patch.object(pawld._validity, "threading", types.SimpleNamespace(**{**vars(threading), "Lock": Mutex}))
        patch.start()
        self.addCleanup(patch.stop)
        handler = []
        old = signal.signal(signal.SIGUSR1, lambda *_: handler[0]())
        self.addCleanup(signal.signal, signal.SIGUSR1, old)
        for interrupted, call in self.CALLS.items():
            for name, handle in self.CALLS.items():
                with self.subTest(f"{name} in {interrupted}"):
                    at, count = 0, 1
                    while at < count:
                        session, fake = self.make()
                        lock = session.acquire("n")
                        handler[:] = [lambda: refused(lambda: handle(session, lock, fake))]
                        count = 0

                        def interrupt():
                            nonlocal count
                            count += 1
                            if count == at + 1:
                                signal.raise_signal(signal.SIGUSR1)

                        at_each_line(lambda: refused(lambda: call(session, lock, fake)), interrupt)
                        if name in ("release", "close") or interrupted in ("release", "close"):
                            self.assertFalse(lock.held())
                            self.assertTrue(fake.ended or lock._id in fake.free)
                        if name == "close" or interrupted == "close":
                            self.assertFalse([r for r in fake.rows if r not in fake.free and not fake.ended])
                        at += 1
                    self.assertGreater(at, 4)

    def test_a_handler_that_raises_leaves_nothing_held(self):
        self.alone()

        class Stop(BaseException):
            pass

        def stop(*_):
            raise Stop

        old = signal.signal(signal.SIGUSR1, stop)
        self.addCleanup(signal.signal, signal.SIGUSR1, old)
        entered = []

        def waiting(body, wait):
            entered.append(body["requestId"])
            signal.raise_signal(signal.SIGUSR1)
            return {"state": "WAITING"}

        session, fake = self.make()
        fake.answers["Acquire"] = waiting
        with self.assertRaises(Stop):
            session.acquire("n")
        self.assertEqual([b["requestIds"] for b in fake.calls("Release")], [entered])
        self.assertFalse(session._asked or session._locks or session._waits)


    def test_a_cleanup_that_a_handler_interrupts_gives_back_and_can_be_called_again(self):
        """(close, release, the end of a with statement) x (each line of it) x (pawld answers, or was away)."""
        self.alone()
        ignored = warnings.catch_warnings()
        ignored.__enter__()
        self.addCleanup(ignored.__exit__)
        warnings.simplefilter("ignore", RuntimeWarning)  # steps that were interrupted before they began

        class Stop(BaseException):
            pass

        def leave(session, lock):
            with session, lock:
                pass

        for name, end in ("close", lambda session, lock: session.close()), ("leave", leave), ("release", lambda session, lock: lock.release()):
            for away in 0, 2:
                at, stopped = 0, True
                with self.subTest(name, away=away):
                    while stopped:
                        session, fake = self.make()
                        lock = session.acquire("n")
                        failures, count, stopped = [AWAY] * away, 0, False

                        def free(body, wait):
                            wait.pause = lambda seconds: None
                            if failures:
                                raise failures.pop()
                            return fake.release(body, wait)

                        def interrupt():
                            nonlocal count
                            count += 1
                            if count == at + 1:
                                raise Stop

                        fake.answers["Release"] = free
                        try:
                            at_each_line(lambda: end(session, lock), interrupt)
                        except Stop:
                            stopped = True
                        if name != "release":
                            session.close()
                            self.assertTrue(fake.ended)
                        elif lock._released():  # its workers do not run here: a Renew lists what is left, and the releaser gives it back
                            failures.clear()
                            for worker in session._renew, session._free:
                                refused(lambda: at_once(worker(pawld._threads.Wait(), False)))
                            fake.wait_for_ever(lambda: not fake.rows)
                        at += 1
                    self.assertGreater(at, 20)

    def test_a_close_that_is_interrupted_goes_on_without_its_caller(self):
        session, fake = self.make()
        session.acquire("n")

        class Stop(BaseException):
            pass

        def stopped(body, wait):
            del fake.answers["Release"]
            raise Stop

        fake.answers["Release"] = stopped
        with self.assertRaises(Stop):
            session.close()
        fake.wait_for_ever(lambda: fake.ended)

    def test_a_close_waits_for_that_of_another_thread(self):
        session, fake = self.make()
        session.acquire("n")
        go = threading.Event()

        def slow(body, wait):
            go.wait(HANG)
            return fake.release(body, wait)

        fake.answers["Release"] = slow
        first = self.in_thread(session.close)
        fake.wait_for(lambda: fake.calls("Release"))
        paused = threading.Event()
        with mock.patch.object(pawld._threads.Wait, "pause", lambda wait, seconds: (paused.set(), go.wait(HANG))):
            second = self.in_thread(lambda: (session.close(), self.assertTrue(fake.ended)))
            self.assertTrue(paused.wait(HANG))
            go.set()
            self.assertIsNone(second())
        self.assertIsNone(first())
        self.assertEqual(len(fake.calls("Release")), 1)


class ForkTest(Case):
    def test_a_child_with_its_parents_pid_holds_nothing(self):
        """Pids repeat: in another namespace, and after the parent's end."""
        session, fake = self.make()
        lock = session.acquire("n")
        with mock.patch.object(os, "getpid", lambda pid=os.getpid(): pid), lock._guard:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    seen = len(fake.seen)
                    if not lock.held():
                        try:
                            lock.release()
                        except pawld.LockLost:
                            session.close()
                            code = int(len(fake.seen) > seen)
                finally:
                    os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(lock.held())


class RenewalTest(Case):
    def test_a_thread_that_cannot_be_started_is_started_again(self):
        session, fake = self.make()
        start = pawld._threads._thread.start_new_thread
        fails = [RuntimeError("can't start new thread")]

        def sometimes(run, args):
            if fails and run.__self__ is session._renewer:
                raise fails.pop()
            return start(run, args)

        with mock.patch.object(pawld._threads._thread, "start_new_thread", sometimes):
            with self.assertRaises(RuntimeError):
                session.acquire("n")
            self.assertFalse(fake.rows, "what failed is given back")
            session.acquire("n")
            fake.wait_for(lambda: fake.calls("Renew"))

    def test_renewals_go_on_whatever_a_round_raises(self):
        bad = [{"locks": 5}, {"locks": [5]}, {"locks": [{"state": "HELD"}]}, [], None,
               {"locks": [{"requestId": "x", "state": "HELD", "token": "y", "keys": ["k"]}]},
               RuntimeError("can't start new thread"), MemoryError(), SystemExit(), AWAY, pawld.Error("unknown", "what")]
        session, fake = self.make(ttl=0.001)
        answers, good = list(bad), []

        def renew(body, wait):
            if not answers:
                good.append(body)
                return fake.renew(body, wait)
            answer = answers.pop()
            if isinstance(answer, BaseException):
                raise answer
            return answer

        fake.answers["Renew"] = renew
        lock = session.acquire("n")
        fake.wait_for(lambda: len(good) > 1)
        self.assertTrue(lock.held())

    def test_a_renewal_that_failed_is_followed_by_one_that_does_not_wait(self):
        """What is left of the validity may be shorter than the wait."""
        session, fake = self.make(ttl=0.4)
        failures = [AWAY, AWAY]
        waits = []

        def renew(body, wait):
            waits.append(body["waitMs"])
            if failures:
                raise failures.pop()
            return fake.renew(body, wait)

        fake.answers["Renew"] = renew
        session.acquire("n")
        fake.wait_for(lambda: len(waits) >= 4)
        self.assertEqual(waits[:4], [100, 0, 0, 100])

    def test_a_renewal_waits_for_half_of_what_is_left_of_the_shortest_validity(self):
        self.alone()
        session, fake = self.make(ttl=100)
        fake.answers["Acquire"] = lambda body, wait: {"state": "HELD", "lock": dict(held(body["requestId"]), validForMs=body["names"][0])}
        with mock.patch.object(pawld._validity, "Instant", Still), mock.patch.object(pawld._steps, "Instant", Still):
            for valid, want in ("90000", 25000), ("30000", 15000), ("10", 5):
                session.acquire(valid)
                timeouts = []
                send = fake.send
                fake.send = lambda m, b, t, w: (timeouts.append(t), send(m, b, t, w))[1]
                refused(lambda: at_once(session._renew(pawld._threads.Wait(), False)))
                fake.send = send
                self.assertEqual(fake.calls("Renew")[-1]["waitMs"], want)
                if want > 5:
                    self.assertLess(timeouts[0] * 1000, int(valid) if want < 25000 else 50001)


class Still:
    """Clocks that stand still."""

    boot = wall = 1

    def since(self, earlier):
        return 0


class Raising:
    """An event that is set from its nth look on."""

    def __init__(self, n):
        self.left = n

    def is_set(self):
        self.left -= 1
        return self.left < 0


class CancelTest(Case):
    """(Each wait) x (when its event is set)."""

    WAITS = {
        "acquire": lambda session, cancel: session.acquire("n", cancel=cancel),
        "acquire_all": lambda session, cancel: session.acquire_all(["n"], shared=["m"], cancel=cancel),
        "acquire_slot": lambda session, cancel: session.acquire_slot("n", 2, cancel=cancel),
        "campaign": lambda session, cancel: session.campaign("n", cancel=cancel),
    }

    def nothing_is_left(self, session, fake):
        self.assertFalse(fake.rows)
        self.assertFalse(session._asked or session._locks or session._cancels)

    def canceled(self, call):
        with self.assertRaises(pawld.Error) as e:
            call()
        self.assertEqual(e.exception.code, "canceled")

    def test_an_event_that_is_set_before_it_is_enough(self):
        for name, wait in self.WAITS.items():
            with self.subTest(name):
                session, fake = self.make()
                cancel = threading.Event()
                cancel.set()
                self.canceled(lambda: wait(session, cancel))
                self.assertFalse(fake.calls("Acquire"))

    def test_an_event_ends_what_pawld_does_not_answer_and_leaves_other_waits(self):
        for name, wait in self.WAITS.items():
            with self.subTest(name):
                session, fake = self.make()
                fake.answers["Acquire"] = lambda body, wait: (fake.acquire(body, wait), never(body, wait))
                cancel, other = threading.Event(), threading.Event()
                done, left = self.in_thread(lambda: wait(session, cancel)), self.in_thread(lambda: wait(session, other))
                fake.wait_for(lambda: len(fake.calls("Acquire")) == 2)
                cancel.set()
                self.assertEqual(done().code, "canceled")
                self.assertEqual(len(fake.rows), 1, "the other one still waits")
                other.set()
                self.assertEqual(left().code, "canceled")
                self.nothing_is_left(session, fake)
                del fake.answers["Acquire"]
                self.assertTrue(session.acquire("n").held())

    def test_an_event_ends_the_pause_of_a_wait_without_pawld(self):
        self.alone()
        session, fake = self.make()
        fake.answers["Acquire"] = lambda body, wait: (_ for _ in ()).throw(AWAY)
        self.canceled(lambda: session.acquire("n", cancel=Raising(4)))
        self.nothing_is_left(session, fake)

    def test_at_whatever_look_it_is_set_what_was_won_is_held_or_given_back(self):
        self.alone()
        for name, wait in self.WAITS.items():
            looks = 0
            while True:
                session, fake = self.make()
                cancel = Raising(looks)
                try:
                    lock = wait(session, cancel)
                except pawld.Error as e:
                    self.assertEqual(e.code, "canceled")
                    self.nothing_is_left(session, fake)
                    looks += 1
                    continue
                self.assertTrue(lock.held())
                break
            self.assertGreaterEqual(looks, 2, "before it asks, and when it has won")


class CloseTest(Case):
    def test_close_ends_a_wait_and_gives_it_back(self):
        session, fake = self.make()
        fake.answers["Acquire"] = never
        done = self.in_thread(lambda: session.acquire("n"))
        fake.wait_for(lambda: fake.calls("Acquire"))
        session.close()
        self.assertEqual(done().code, "closed")
        asked = fake.calls("Acquire")[0]["requestId"]
        self.assertEqual([b.get("requestIds") for b in fake.calls("Release")], [[asked], None])

    def test_close_ends_the_pause_of_a_wait_without_pawld(self):
        session, fake = self.make()
        paused = threading.Event()

        def away(body, wait):
            wait.pause = lambda seconds: (paused.set(), never(None, wait))
            raise AWAY

        fake.answers["Acquire"] = away
        fake.answers["Release"] = lambda body, wait: (_ for _ in ()).throw(pawld.Error("unknown", "what"))
        done = self.in_thread(lambda: session.acquire("n"))
        self.assertTrue(paused.wait(HANG))
        session.close()
        self.assertEqual(done().code, "closed")

    def test_what_begins_after_close_is_refused_at_once(self):
        session, fake = self.make()
        session.close()
        for call in session.acquire, session.try_acquire, session.campaign:
            with self.assertRaises(pawld.Error) as e:
                call("n")
            self.assertEqual(e.exception.code, "closed")
        self.assertEqual(fake.seen, [])

    def test_end_ends_what_a_connection_waits_for(self):
        """On real sockets: an answer, a TLS handshake, a connection that nobody accepts, a look-up."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        silent = {}
        for name, family, at in ("unix", socket.AF_UNIX, os.path.join(folder.name, "s")), ("tcp", socket.AF_INET, ("127.0.0.1", 0)):
            listener = socket.socket(family)
            self.addCleanup(listener.close)
            listener.bind(at)
            listener.listen()
            silent[name] = listener
        looking = threading.Event()
        forever = threading.Event()
        self.addCleanup(forever.set)

        def look_up(*args, **named):
            if named.get("flags"):
                raise socket.gaierror(socket.EAI_NONAME, "no")
            looking.set()
            forever.wait(HANG)
            return []

        over_tls = {"address": silent["tcp"].getsockname(), "ssl": ssl.create_default_context()}
        for name, options, listener in (
            ("answer", {"socket": silent["unix"].getsockname()}, silent["unix"]),
            ("handshake", over_tls, silent["tcp"]),
            ("look-up", {"address": ("pawld.example", 1), "token": "0123456789abcdef"}, None),
        ):
            with self.subTest(name), mock.patch.object(socket, "getaddrinfo", look_up if listener is None else socket.getaddrinfo):
                transport = pawld.Session(**options)._transport
                wait = pawld._threads.Wait()
                done = self.in_thread(lambda: transport.send("Acquire", {}, 1000, wait))
                if listener is None:
                    self.assertTrue(looking.wait(HANG))
                else:
                    c, _ = listener.accept()
                    self.addCleanup(c.close)
                    self.assertTrue(c.recv(1))
                wait.end(pawld._wire.closed())
                self.assertEqual(done().code, "closed")


class FailureTest(Case):
    def test_what_cannot_pass_is_raised_at_once(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = os.path.join(folder.name, "file")
        open(file, "w").close()
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        other = os.path.join(folder.name, "other")
        listener.bind(other)
        listener.listen()
        replies = [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n5"]

        def serve():
            for reply in replies:
                for _ in "acquire", "release":
                    c, _ = listener.accept()
                    with c:
                        request = b""
                        while b"\r\n\r\n{" not in request or not request.endswith(b"}"):
                            request += c.recv(65536)
                        c.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        for socket_path, code in [("/" + "x" * 200, "invalid_argument"), (file, "invalid_argument"), (file + "/s", "invalid_argument")] + [(other, "unimplemented")] * len(replies):
            with self.subTest(socket_path):
                with self.assertRaises(pawld.Error) as e:
                    pawld.Session(socket_path, ttl=1000).acquire("n")
                self.assertEqual(e.exception.code, code)
        unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        with mock.patch.object(socket, "getaddrinfo", mock.Mock(side_effect=unknown)):
            with self.assertRaises(pawld.Error) as e:
                pawld.Session(address=("pawld.example", 1), token="0123456789abcdef").acquire("n")
        self.assertEqual(e.exception.code, "invalid_argument")

    def test_which_failures_pass(self):
        alert = ssl.SSLError(1, "alert")
        alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        at = pawld.Session()._transport
        for e, code in (
            (PermissionError(errno.EACCES, "denied"), "permission_denied"),
            (ssl.SSLCertVerificationError(1, "expired"), "unauthenticated"),
            (alert, "unauthenticated"),
            (ssl.SSLError(1, "wrong version number"), "unimplemented"),
            (http.client.BadStatusLine("x"), "unimplemented"),
            (ssl.SSLEOFError(8, "eof"), "unavailable"),
            (socket.gaierror(socket.EAI_AGAIN, "later"), "unavailable"),
            (FileNotFoundError(errno.ENOENT, "none"), "unavailable"),
            (ConnectionResetError(errno.ECONNRESET, "reset"), "unavailable"),
            (http.client.RemoteDisconnected("gone"), "unavailable"),
            (http.client.IncompleteRead(b""), "unavailable"),
            (socket.timeout("timed out"), "unavailable"),
        ):
            with self.subTest(repr(e)):
                self.assertEqual(at._failure(e).code, code)

    def test_what_passes_is_tried_again_and_logged_once(self):
        logging.getLogger("pawld").setLevel(logging.NOTSET)
        self.alone()
        session, fake = self.make()
        failures = [AWAY] * 3

        def acquire(body, wait):
            wait.pause = lambda seconds: None
            if failures:
                raise failures.pop()
            return fake.acquire(body, wait)

        fake.answers["Acquire"] = acquire
        with self.assertLogs("pawld", logging.INFO) as logs:
            self.assertTrue(session.acquire("n").held())
        self.assertEqual([r.levelname for r in logs.records], ["WARNING", "INFO"])

    def test_no_refusal_ends_an_outage(self):
        logging.getLogger("pawld").setLevel(logging.NOTSET)
        self.alone()
        session, fake = self.make()
        failures = [AWAY, pawld.Error("unauthenticated", "no"), AWAY]

        def renew(body, wait):
            if failures:
                raise failures.pop()
            return fake.renew(body, wait)

        fake.answers["Renew"] = renew
        with self.assertLogs("pawld", logging.INFO) as logs:
            for _ in range(4):
                refused(lambda: at_once(session._renew(pawld._threads.Wait(), False)))
        self.assertEqual([r.levelname for r in logs.records], ["WARNING", "INFO"])

    def test_a_number_that_is_none_is_malformed(self):
        session, fake = self.make()
        for field in "token", "validForMs", "slot":
            with self.subTest(field):
                fake.answers["Acquire"] = lambda body, wait: {"state": "HELD", "lock": dict(held(body["requestId"]), **{field: float("inf")})}
                with self.assertRaises(pawld.Error) as e:
                    session.acquire("n")
                self.assertEqual(e.exception.code, "unimplemented")

    def test_a_wait_that_was_given_up_is_released_until_that_is_answered(self):
        session, fake = self.make()
        fake.answers["Acquire"] = lambda body, wait: {"state": "WAITING"}
        failures = [AWAY, AWAY, AWAY]

        def release(body, wait):
            if failures:
                raise failures.pop()
            return fake.release(body, wait)

        fake.answers["Release"] = release
        with mock.patch.object(pawld._threads.Wait, "pause", lambda self, seconds: self.check()):
            with self.assertRaises(TimeoutError):
                session.acquire("n", timeout=0)
            asked = fake.calls("Acquire")[0]["requestId"]
            fake.wait_for(lambda: len(fake.calls("Release")) >= 4)
        self.assertEqual([b["requestIds"] for b in fake.calls("Release")][:4], [[asked]] * 4)


class WantedTest(Case):
    def test_a_holder_that_asks_learns_that_it_is_wanted(self):
        self.alone()
        session, fake = self.make()
        lock, other = session.acquire("n"), session.acquire("m")

        def renew():
            at_once(session._renew(pawld._threads.Wait(), False))
            return fake.calls("Renew")[-1].get("wanted")

        for row in fake.rows.values():
            row["wanted"] = True
        self.assertIsNone(renew(), "nobody asked")
        self.assertFalse(lock._wanted.is_set())
        wanted = lock.wanted()
        fake.rows[lock._id]["wanted"] = False
        self.assertIs(renew(), True)
        self.assertFalse(wanted.is_set())
        fake.rows[lock._id]["wanted"] = True
        renew()
        self.assertTrue(wanted.is_set())
        self.assertIs(lock.wanted(), wanted)
        self.assertFalse(other._wanted.is_set(), "its holder did not ask")
        lock.check()  # it is a hint
        fake.rows[lock._id]["wanted"] = False
        renew()
        self.assertTrue(wanted.is_set(), "it stays set")
        lock.release()
        self.assertIsNone(renew(), "nobody asks any more")


if __name__ == "__main__":
    unittest.main()
