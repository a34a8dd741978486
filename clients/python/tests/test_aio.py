"""What a session of asyncio does, on an event loop in which time passes when nothing else can happen."""

import asyncio
import contextlib
import faulthandler
import functools
import gc
import logging
import os
import selectors
import socket
import ssl
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import pawld  # noqa: E402
from pawld import aio  # noqa: E402
from pawld._wire import received  # noqa: E402

HANG = 180  # seconds, after which a test that waits for an event has failed
AWAY = pawld.Error("unavailable", "away")
TTL = 10
VALID = 8  # seconds, which pawld says


class Bubble(selectors.DefaultSelector):
    """Does not wait: it lets the time pass. Where nothing would ever happen, it says so."""

    now = 1000.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("nothing will ever happen")
        if not ready and timeout > 0:
            self.now += timeout
        return ready


def bubble(test):
    """Runs a test in an event loop of its own. Nothing of it may be left."""

    @functools.wraps(test)
    def run(self):
        time_passes = self.time = Bubble()
        ns = lambda *_: int(time_passes.now * 1e9)  # noqa: E731
        with contextlib.ExitStack() as patches:
            for name, clock in (("monotonic", lambda: time_passes.now), ("clock_gettime_ns", ns), ("time_ns", ns)):
                patches.enter_context(mock.patch.object(time, name, clock))
            loop = asyncio.SelectorEventLoop(time_passes)
            wrong = []
            loop.set_exception_handler(lambda _, context: wrong.append(context))
            try:
                loop.run_until_complete(test(self))
                loop.run_until_complete(asyncio.sleep(TTL))  # what a fake has not served yet
                self.assertEqual(asyncio.all_tasks(loop), set(), "tasks that are left")
                gc.collect()  # of a task whose error nobody took
            finally:
                loop.close()
            self.assertEqual(wrong, [])

    return run


class Fake:
    """A transport, and a pawld with one queue for each name. What it has read it does, whoever has gone."""

    def __init__(self, late=lambda method: 1):
        self.late = late  # how many turns of the loop a request of a method needs
        self.rows, self.free, self.seen = {}, set(), []  # rows: names by request
        self.silent, self.answers, self.ended = set(), {}, False
        self.wants = set()  # requests that are wanted
        self.cut = False  # a request whose connection ends is not read
        self.changed = asyncio.Event()

    async def send(self, method, body, timeout, wait):
        self.seen.append((method, body))
        served = asyncio.ensure_future(self.serve(method, body))
        served.add_done_callback(lambda t: t.cancelled() or t.exception())
        try:
            return await wait.run(self.answer(served), timeout)
        except (socket.timeout, aio.Cut):
            raise AWAY
        except asyncio.CancelledError:
            if self.cut:
                served.cancel()
            raise

    async def answer(self, served):
        answer = await asyncio.shield(served)
        await asyncio.sleep(0)
        return answer

    async def serve(self, method, body):
        for _ in range(self.late(method)):
            await asyncio.sleep(0)
        if method in self.answers:
            return self.answers[method](body)
        answer = await getattr(self, method.lower())(body)
        if method in self.silent:
            await asyncio.sleep(TTL)
        return answer

    def held(self, request_id):
        names = self.rows[request_id]
        first = all(next(i for i, of in self.rows.items() if name in of) == request_id for name in names)
        row = {"requestId": request_id, "state": "HELD" if first else "WAITING", "token": "5", "keys": ["k"], "validForMs": str(VALID * 1000)}
        return {**row, "wanted": True} if request_id in self.wants else row

    async def until(self, done, seconds):
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            self.changed.clear()
            waiting = asyncio.ensure_future(self.changed.wait())
            await asyncio.wait({waiting}, timeout=end - time.monotonic())
            waiting.cancel()

    async def acquire(self, body):
        i = body["requestId"]
        if i in self.free or self.ended:
            raise pawld.Error("failed_precondition", "released")
        self.rows.setdefault(i, body["names"])
        if body.get("try"):
            if self.held(i)["state"] != "HELD":
                del self.rows[i]
                return {"state": "BUSY"}
        else:
            await self.until(lambda: i not in self.rows or self.held(i)["state"] == "HELD", body["waitMs"] / 1000)
        if i not in self.rows:
            return {"state": "LOST", "lock": {"requestId": i, "state": "LOST", "why": "RELEASED"}}
        row = self.held(i)
        return {"state": row["state"], "lock": row}

    async def renew(self, body):
        before = len(self.free)
        await self.until(lambda: len(self.free) > before, body["waitMs"] / 1000)
        return {"locks": [row for row in map(self.held, self.rows) if row["state"] == "HELD"]}

    async def confirm(self, body):
        return {"lock": self.held(body["requestId"])}

    async def release(self, body):
        return self.freed(body)

    def freed(self, body):
        ids = body.get("requestIds", list(self.rows))
        self.ended = self.ended or "requestIds" not in body
        self.free.update(ids)
        for i in ids:
            self.rows.pop(i, None)
        self.changed.set()
        return {"results": [{"requestId": i, "released": True} for i in ids]}

    def calls(self, method):
        return [b for m, b in self.seen if m == method]


class Case(unittest.TestCase):
    def setUp(self):
        faulthandler.dump_traceback_later(HANG, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        logging.getLogger("pawld").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("pawld").setLevel, logging.NOTSET)

    def make(self, **options):
        session = aio.Session(ttl=TTL)
        session._transport = Fake(**options)
        return session, session._transport


async def turns(n):
    for _ in range(n):
        await asyncio.sleep(0)


async def within(session, name="n"):
    async with session.lock(name):
        pass


WAITS = {
    "lock": within,
    "acquire": lambda session: session.acquire("n"),
    "acquire with a timeout": lambda session: session.acquire("n", timeout=1),
    "try_acquire": lambda session: session.try_acquire("n"),
    "acquire_all": lambda session: session.acquire_all(["n", "m"]),
    "try_acquire_all": lambda session: session.try_acquire_all(["m", "n"]),
    "acquire_slot": lambda session: session.acquire_slot("n", 1),
    "try_acquire_slot": lambda session: session.try_acquire_slot("n", 1),
    "campaign": lambda session: session.campaign("n"),
}


class CancelTest(Case):
    """(Each wait) x (its name is free, held, becomes free, or pawld is silent or slow) x (each turn of the loop in which it is cancelled)."""

    async def canceled(self, begin, state, at, again=None):
        """Whether begin was done before its cancellation. Whoever cancelled it, what it won is all that is held."""
        session, fake = self.make(late={
            "its Acquire is read late": lambda method: 3 if method == "Release" else 25,
            "its Release is read late": lambda method: 40 if method == "Release" else 1,
            "what is cut off is not read": lambda method: 4,
        }.get(state, lambda method: 1))
        other = await session.acquire("n") if state in ("held", "becomes free") else None
        fake.cut = state == "what is cut off is not read"
        if state == "its answers are lost":
            fake.silent.add("Acquire")
        if state == "pawld is silent":
            fake.silent.update(("Acquire", "Release"))
        task = asyncio.ensure_future(begin(session))
        freeing = asyncio.ensure_future(other.release() if state == "becomes free" else turns(0))
        await turns(at)
        early = not task.done()
        task.cancel()
        if again is not None:
            await turns(again)
            task.cancel()
        try:
            won = await task
            self.assertFalse(early and again is None, "the cancellation is lost")
        except asyncio.CancelledError:
            won = None
        except TimeoutError:
            early, won = False, None
        await (other.release() if state == "held" else freeing)
        if won is not None:
            self.assertTrue(won.held())
            self.assertIn(won._id, fake.rows)
            await won.release()
        self.assertFalse(session._asked)
        releasing = begin is within  # and cancelled there, it goes on
        if again is None and state not in ("pawld is silent", "its Acquire is read late") and not releasing:
            self.assertFalse(fake.rows, "it is given back when the wait has ended")
        fake.silent.clear()
        await asyncio.sleep(TTL / 2)  # what was asked to go on in the background
        self.assertFalse(fake.rows or session._locks or session._waits or session._unwanted, "something is held, or waits")
        later = await session.acquire("n", timeout=0)
        self.assertTrue(later.held(), "the next one has it at once")
        await session.close()
        return not early

    STATES = "free", "held", "becomes free", "its answers are lost", "pawld is silent", "its Acquire is read late", "its Release is read late", "what is cut off is not read"

    @bubble
    async def test_a_wait_that_is_cancelled_at_any_turn_holds_nothing(self):
        for name, begin in WAITS.items():
            for state in self.STATES:
                at = 0
                with self.subTest(name=name, state=state):
                    while not await self.canceled(begin, state, at) and at < 60:
                        at += 1
                    self.assertGreater(at, 2)

    @bubble
    async def test_a_wait_that_is_cancelled_twice_holds_nothing(self):
        for name in "lock", "acquire_all":
            for state in self.STATES:
                for at in range(1, 12):
                    for again in range(0, 8):
                        with self.subTest(name=name, state=state, at=at, again=again):
                            await self.canceled(WAITS[name], state, at, again)

    @bubble
    async def test_a_release_that_is_cancelled_goes_on(self):
        for at in range(1, 6):
            with self.subTest(at=at):
                session, fake = self.make()
                fake.answers["Release"] = lambda body: (_ for _ in ()).throw(AWAY)
                lock = await session.acquire("n")
                task = asyncio.ensure_future(lock.release())
                await turns(at)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertFalse(lock.held())
                del fake.answers["Release"]
                await asyncio.sleep(1)
                self.assertFalse(fake.rows)
                await session.close()

    @bubble
    async def test_a_body_that_is_cancelled_has_released_when_its_task_ends(self):
        session, fake = self.make()
        entered = asyncio.Event()

        async def body():
            async with session.lock("n"):
                entered.set()
                await asyncio.sleep(1000)

        task = asyncio.ensure_future(body())
        await entered.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertFalse(fake.rows)
        await session.close()

    @bubble
    async def test_a_time_limit_ends_a_wait(self):
        session, fake = self.make()
        lock = await session.acquire("n")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(session.acquire("n"), 1)
        with self.assertRaises(TimeoutError):
            await session.acquire("n", timeout=1)
        if hasattr(asyncio, "timeout"):
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(1), session.lock("n"):
                    self.fail("another holds it")
            self.assertEqual(asyncio.current_task().cancelling(), 0)
        self.assertEqual(list(fake.rows), [lock._id], "who has given up waits no more")
        await session.close()

    @unittest.skipUnless(hasattr(asyncio, "TaskGroup"), "of Python 3.11 and later")
    @bubble
    async def test_a_task_group_whose_task_fails_ends_all_waits_and_holds(self):
        class Broken(Exception):
            pass

        for at in range(0, 25):
            with self.subTest(at=at):
                session, fake = self.make()

                async def hold():
                    async with session.lock("n"):
                        await turns(3)

                async def fail():
                    await turns(at)
                    raise Broken

                with self.assertRaises(ExceptionGroup) as e:
                    async with asyncio.TaskGroup() as group:
                        for task in hold(), hold(), within(session, "m"), fail():
                            group.create_task(task)
                self.assertEqual([type(x) for x in e.exception.exceptions], [Broken], "nothing but what went wrong")
                self.assertFalse(fake.rows)
                self.assertTrue((await session.acquire("n")).held(), "the session is none of the group's")
                await session.close()

    @bubble
    async def test_tasks_take_turns(self):
        session, fake = self.make()
        inside = []

        async def work(n):
            async with session.lock("n"):
                inside.append(n)
                self.assertEqual(len(inside), 1)
                await asyncio.sleep(1)
                inside.pop()

        await asyncio.gather(*map(work, range(20)))
        self.assertFalse(fake.rows)
        await session.close()

    @bubble
    async def test_neither_a_wait_nor_a_lock_has_a_thread(self):
        session, fake = self.make()
        before = threading.active_count()
        async with session.lock("n"):
            waiting = [asyncio.ensure_future(within(session)) for _ in range(100)]
            await asyncio.sleep(1)
            self.assertEqual(len(fake.rows), 101)
            self.assertEqual(threading.active_count(), before)
        await asyncio.gather(*waiting)
        await session.close()


class ValidityTest(Case):
    @bubble
    async def test_a_lock_is_renewed_while_its_holder_does_something_else(self):
        session, fake = self.make()
        async with session.lock("n") as lock:
            for _ in range(100):
                await asyncio.sleep(VALID)
                lock.check()
        await session.close()

    @bubble
    async def test_a_holder_that_asks_learns_that_it_is_wanted(self):
        session, fake = self.make()
        lock, other = await session.acquire("n"), await session.acquire("m")
        await asyncio.sleep(TTL)
        self.assertFalse([body for body in fake.calls("Renew") if "wanted" in body], "nobody asked")
        wanted = asyncio.ensure_future(lock.wanted().wait())
        await asyncio.sleep(TTL / 4)  # what is parked does not ask yet
        fake.seen.clear()
        await asyncio.sleep(TTL)
        self.assertTrue(all(body["wanted"] is True for body in fake.calls("Renew")))
        self.assertFalse(wanted.done())
        for i in lock._id, other._id:
            fake.wants.add(i)
        await wanted
        lock.check()  # it is a hint
        self.assertFalse(other._wanted.is_set(), "its holder did not ask")
        fake.wants.clear()
        await asyncio.sleep(TTL)
        self.assertTrue(lock.wanted().is_set(), "it stays set")
        await session.close()

    @bubble
    async def test_a_validity_ends_at_its_time_where_pawld_does_not_answer(self):
        session, fake = self.make()
        began = self.time.now
        lock = await session.acquire("n")
        fake.answers["Renew"] = lambda body: (_ for _ in ()).throw(AWAY)
        await asyncio.sleep(began + VALID - self.time.now - 0.001)
        lock.check()
        await asyncio.sleep(0.001)
        with self.assertRaises(pawld.LockLost):
            lock.check()
        await session.close()

    @bubble
    async def test_the_first_look_after_a_blocked_loop_is_right(self):
        session, fake = self.make()
        lock = await session.acquire("n")
        self.time.now += VALID
        with self.assertRaises(pawld.LockLost):
            lock.check()
        await asyncio.sleep(1)  # a renewal that pawld answers
        self.assertFalse(lock.held())
        await session.close()

    @bubble
    async def test_a_validity_counts_from_before_its_request(self):
        for method in "Acquire", "Confirm":
            with self.subTest(method):
                session, fake = self.make()
                fake.answers["Renew"] = lambda body: (_ for _ in ()).throw(AWAY)
                serve = fake.serve

                async def late(called, body):
                    await asyncio.sleep(5 if called == method else 0)
                    return await serve(called, body)

                fake.serve = late
                lock = await session.acquire("n")
                if method == "Confirm":
                    await lock.confirm()
                await asyncio.sleep(VALID - 5)
                self.assertFalse(lock.held())
                await session.close()

    @bubble
    async def test_it_stops_believing_before_a_release_is_sent(self):
        session, fake = self.make()
        lock = await session.acquire("n")
        fake.answers["Release"] = lambda body: self.assertFalse(lock.held())
        with self.assertRaises(pawld.Error):
            await lock.release()
        del fake.answers["Release"]
        await session.close()

    @bubble
    async def test_what_was_lost_is_said_at_the_end_of_a_body_that_has_no_error_of_its_own(self):
        for own in None, KeyError:
            session, fake = self.make()
            fake.answers["Release"] = lambda body: {"results": [{"released": False}]}
            with self.assertRaises(own or pawld.LockLost):
                async with session.lock("n"):
                    self.time.now += VALID
                    if own:
                        raise own
            await session.close()


class WorkerTest(Case):
    @bubble
    async def test_renewals_go_on_whatever_a_round_raises(self):
        bad = [{"locks": 5}, [], None, RuntimeError(), MemoryError(), AWAY, pawld.Error("unknown", "what"), KeyError()]
        session, fake = self.make()
        lock = await session.acquire("n")

        def renew(body):
            answer = bad.pop()
            if not bad:
                del fake.answers["Renew"]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        fake.answers["Renew"] = renew
        await asyncio.sleep(3 * VALID)
        lock.check()
        await session.close()

    @bubble
    async def test_a_session_that_holds_nothing_has_no_task(self):
        session, fake = self.make()
        for _ in range(3):
            async with session.lock("n"):
                await asyncio.sleep(2 * VALID)
            await asyncio.sleep(TTL)
            self.assertEqual(asyncio.all_tasks(), {asyncio.current_task()})
        self.assertFalse(session._waits)
        await session.close()

    @bubble
    async def test_renewals_that_were_cancelled_with_all_tasks_begin_again(self):
        session, fake = self.make()
        await session.acquire("n")
        await asyncio.sleep(1)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(1)
        lock = await session.acquire("m")
        await asyncio.sleep(3 * VALID)
        lock.check()
        await session.close()


class CloseTest(Case):
    @bubble
    async def test_close_at_any_turn_of_a_wait_leaves_nothing_held(self):
        for name, begin in WAITS.items():
            for state in "free", "held", "pawld is silent":
                for at in range(0, 12):
                    with self.subTest(name=name, state=state, at=at):
                        session, fake = self.make()
                        if state == "held":
                            await session.acquire("n")
                        if state == "pawld is silent":
                            fake.silent.add("Acquire")
                        task = asyncio.ensure_future(begin(session))
                        await turns(at)
                        early = not task.done()
                        began = self.time.now
                        await session.close()
                        await asyncio.wait({task})
                        self.assertLess(self.time.now, began + 1, "it waits for what it has ended")
                        self.assertFalse(fake.rows)
                        if early:
                            try:
                                self.assertIsNone(await task)  # a try that was busy, or a lock() that was over
                            except pawld.Error as e:
                                self.assertEqual(e.code, "closed")
                            except pawld.LockLost:
                                pass
                        elif await task is not None:
                            self.assertFalse((await task).held())

    @bubble
    async def test_what_begins_after_close_is_refused_at_once(self):
        session, fake = self.make()
        await session.close()
        for begin in WAITS.values():
            with self.assertRaises(pawld.Error) as e:
                await begin(session)
            self.assertEqual(e.exception.code, "closed")
        self.assertEqual(fake.seen, [])

    def test_a_session_belongs_to_one_event_loop(self):
        session, _ = self.make()
        fake = session._transport
        asyncio.run(within(session))
        with self.assertRaises(pawld.Error) as e:
            asyncio.run(within(session))
        self.assertEqual(e.exception.code, "invalid_argument")
        self.assertFalse(fake.rows)


def on_sockets(test):
    return functools.wraps(test)(lambda self: asyncio.run(asyncio.wait_for(test(self), HANG)))


class TransportTest(Case):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    @on_sockets
    async def test_a_wait_that_ends_leaves_its_connection(self):
        """(Its wait is ended, or its task cancelled) x (an answer, a TLS handshake, a look-up)."""
        arrived, gone = asyncio.Queue(), asyncio.Queue()

        async def serve(reader, writer):
            await reader.read(1)
            arrived.put_nowait(None)
            while await reader.read(1 << 16):
                pass
            gone.put_nowait(None)
            writer.close()

        path = os.path.join(self.folder(), "s")
        unix = await asyncio.start_unix_server(serve, path)
        tcp = await asyncio.start_server(serve, "127.0.0.1", 0)
        forever = asyncio.Event()

        async def look_up(*args, **named):
            arrived.put_nowait(None)
            try:
                await forever.wait()
            finally:
                gone.put_nowait(None)

        for name, options in (
            ("answer", {"socket": path}),
            ("handshake", {"address": tcp.sockets[0].getsockname(), "ssl": ssl.create_default_context()}),
            ("look-up", {"address": ("pawld.example", 1), "token": "0123456789abcdef"}),
        ):
            for end in "wait", "task":
                with self.subTest(name, end=end), contextlib.ExitStack() as patches:
                    if name == "look-up":
                        patches.enter_context(mock.patch.object(asyncio.get_running_loop(), "getaddrinfo", look_up))
                    wait = aio.Wait()
                    task = asyncio.ensure_future(aio.Session(**options)._transport.send("Acquire", {}, 1000, wait))
                    await arrived.get()
                    if end == "wait":
                        wait.end(pawld._wire.closed())
                        with self.assertRaises(pawld.Error) as e:
                            await task
                        self.assertEqual(e.exception.code, "closed")
                    else:
                        task.cancel()
                        with self.assertRaises(asyncio.CancelledError):
                            await task
                    await gone.get()
        unix.close()
        tcp.close()

    @on_sockets
    async def test_an_answer_is_read_to_its_end_and_no_further(self):
        """Whatever its form, in one part, or byte by byte, from a connection that stays open."""
        path, text = os.path.join(self.folder(), "s"), b'{"state": "BUSY"}'
        answers = {
            "length": b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n" + text,
            "length, and an end": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 17\r\n\r\n" + text,
            "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n" + text[:7] + b"\r\na\r\n" + text[7:] + b"\r\n0\r\n\r\n",
            "an end": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + text,
        }
        for name, answer in answers.items():
            for size in 1, len(answer):
                with self.subTest(name, size=size):
                    async def serve(reader, writer):
                        self.assertEqual((await reader.readuntil(b"\r\n\r\n")).split()[1], b"/pawl.v1.Locks/Acquire")
                        for at in range(0, len(answer), size):
                            writer.write(answer[at:at + size])
                            await asyncio.sleep(0)  # each of them in a packet of its own
                        if name == "an end":
                            writer.write_eof()
                        with contextlib.suppress(ConnectionError):
                            await reader.read()  # until the client has gone
                        writer.close()

                    server = await asyncio.start_unix_server(serve, path)
                    self.assertEqual(await aio.Session(path)._transport.send("Acquire", {}, 1000, aio.Wait()), {"state": "BUSY"})
                    server.close()

    def test_an_answer_that_is_not_all_there_is_none(self):
        for answer in (
            b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno",
            b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
        ):
            for n in range(len(answer)):
                with self.subTest(answer[:n]):
                    more = received(answer[:n], False)
                    if isinstance(more, int):
                        self.assertTrue(n < more <= len(answer))
                    else:
                        self.assertTrue(answer[n:].strip(b"\r\n") == b"" and more[2] == b"no", "all but the end of its last line")
            self.assertEqual(received(answer, False), (503, "No", b"no"))

    @bubble
    async def test_a_call_takes_no_longer_than_its_timeout_where_pawld_is_silent(self):
        left, right = socket.socketpair()
        self.addCleanup(right.close)
        began = self.time.now
        connect = asyncio.open_connection(sock=left)
        with mock.patch.object(asyncio, "open_unix_connection", lambda path: connect), self.assertRaises(pawld.Error) as e:
            await aio.Session()._transport.send("Renew", {}, 2, aio.Wait())
        self.assertEqual(e.exception.code, "unavailable")
        self.assertAlmostEqual(self.time.now, began + 2, 3)
        self.assertIn(b"Connect-Timeout-Ms: 2000\r\n", right.recv(1 << 16))

    @on_sockets
    async def test_what_cannot_pass_is_raised_at_once(self):
        folder = self.folder()
        file, other = os.path.join(folder, "file"), os.path.join(folder, "other")
        open(file, "w").close()
        replies = [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n5"]
        for path, reply, code in [("/" + "x" * 200, b"", "invalid_argument"), (file, b"", "invalid_argument"), (file + "/s", b"", "invalid_argument")] + [
            (other, reply, "unimplemented") for reply in replies
        ]:
            with self.subTest(path, reply=reply):
                async def serve(reader, writer):
                    await reader.readuntil(b"}")
                    writer.write(reply)
                    writer.close()

                server = await asyncio.start_unix_server(serve, other)
                with self.assertRaises(pawld.Error) as e:
                    await aio.Session(path, ttl=1000).acquire("n")
                self.assertEqual(e.exception.code, code)
                server.close()
        with mock.patch.object(asyncio.get_running_loop(), "getaddrinfo", mock.AsyncMock(side_effect=socket.gaierror(socket.EAI_NONAME, "not known"))):
            with self.assertRaises(pawld.Error) as e:
                await aio.Session(address=("pawld.example", 1), token="0123456789abcdef").acquire("n")
        self.assertEqual(e.exception.code, "invalid_argument")


if __name__ == "__main__":
    unittest.main()
