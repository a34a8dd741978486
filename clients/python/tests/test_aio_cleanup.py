"""What is given back where a cleanup is cancelled, and what goes on where all tasks are."""

import asyncio
import gc
import logging
import os
import socket
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from test_aio import AWAY, TTL, VALID, Case, Fake, aio, bubble, on_sockets, pawld, turns  # noqa: E402


async def leave_lock(session, lock):
    async with lock:
        pass


async def leave_session(session, lock):
    async with session:
        pass


async def leave_both(session, lock):
    async with session, lock:
        raise KeyError


async def give_up(session, lock):
    await session.acquire("n", timeout=0)


async def release_what_was_lost(session, lock):
    lock._lose("KEY_DELETED")
    await lock.release()


CLEANUPS = {
    "release": lambda session, lock: lock.release(),
    "close": lambda session, lock: session.close(),
    "leaving a lock": leave_lock,
    "leaving a session": leave_session,
    "leaving both, with an error": leave_both,
    "giving a wait up": give_up,
    "the release of several names, one of which was lost": release_what_was_lost,
}


def cancel_all():
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


class CleanupTest(Case):
    """(Each cleanup) x (pawld answers, is slow, was away) x (each turn in which it is cancelled) x (once, at each turn from then on, as in a scope of anyio's, all tasks)."""

    STATES = {"answers": lambda method: 1, "is slow": lambda method: 4, "was away": lambda method: 1}

    async def cleaned(self, clean, state, at, how):
        session, fake = self.make(late=self.STATES[state])
        lock = await session.acquire_all(["n", "m"])
        if state == "was away":
            failures = [AWAY, AWAY]
            fake.answers["Release"] = lambda body: (_ for _ in ()).throw(failures.pop()) if failures else fake.freed(body)
        task = asyncio.ensure_future(clean(session, lock))
        await turns(at)
        early = not task.done()
        if how == "all":
            cancel_all()
        else:
            task.cancel()
        while how == "again and again" and not task.done():
            await turns(1)
            task.cancel()
        try:
            await task
        except (asyncio.CancelledError, pawld.LockLost, TimeoutError, KeyError):
            pass
        if clean not in (CLEANUPS["giving a wait up"],):
            self.assertFalse(lock.held() and at)
        await asyncio.sleep(1)  # it goes on in the background
        if at and clean is not give_up:
            self.assertFalse(lock.held())
            self.assertFalse(fake.rows, "it is not given back")
        elif clean is give_up:
            self.assertEqual(list(fake.rows), [lock._id], "who has given up waits no more")
        await session.close()
        self.assertFalse(fake.rows)
        self.assertFalse(session._cleanups)
        return not early

    @bubble
    async def test_a_cleanup_that_is_cancelled_gives_back(self):
        for name, clean in CLEANUPS.items():
            for state in self.STATES:
                for how in "once", "again and again", "all":
                    at = 0
                    with self.subTest(name=name, state=state, how=how):
                        while not await self.cleaned(clean, state, at, how) and at < 60:
                            at += 1
                        self.assertGreater(at, 2)

    @bubble
    async def test_a_close_that_was_cancelled_can_be_called_again_and_waits_until_all_is_given_back(self):
        for at in range(1, 12):
            for again in False, True:
                with self.subTest(at=at, again=again):
                    session, fake = self.make(late=lambda method: 5)
                    lock = await session.acquire("n")
                    closing = asyncio.ensure_future(session.close())
                    await turns(at)
                    closing.cancel()
                    await asyncio.wait({closing})
                    self.assertFalse(lock.held())
                    if again:  # and once more
                        second = asyncio.ensure_future(session.close())
                        await turns(1)
                        second.cancel()
                    await session.close()
                    self.assertTrue(fake.ended)
                    self.assertFalse(fake.rows)

    @bubble
    async def test_what_failed_without_anybody_who_waits_is_said(self):
        session, fake = self.make()
        await session.acquire("n")
        fake.answers["Release"] = lambda body: (_ for _ in ()).throw(pawld.Error("permission_denied", "no"))
        logging.getLogger("pawld").setLevel(logging.NOTSET)
        with self.assertLogs("pawld", logging.WARNING) as logs:
            closing = asyncio.ensure_future(session.close())
            await turns(1)
            closing.cancel()
            await asyncio.sleep(1)
        self.assertIn("permission_denied", logs.output[-1])


class AllTasksTest(Case):
    """Whoever cancels all tasks, but the one that works under the lock."""

    @bubble
    async def test_renewals_begin_again_and_that_is_said_once(self):
        for at in range(0, 12):
            with self.subTest(at=at):
                session, fake = self.make(late=lambda method: 3)
                lock = await session.acquire("n")
                await asyncio.sleep(1)
                await turns(at)
                logging.getLogger("pawld").setLevel(logging.NOTSET)
                with self.assertLogs("pawld", logging.WARNING) as logs:
                    cancel_all()
                    await asyncio.sleep(3 * VALID)
                self.assertEqual(len(logs.output), 1, logs.output)
                lock.check()
                await session.close()

    @bubble
    async def test_no_call_of_a_task_that_was_spared_is_cancelled(self):
        calls = {
            "acquire": lambda session, lock: session.acquire("m"),
            "confirm": lambda session, lock: lock.confirm(),
            "release": lambda session, lock: lock.release(),
            "close": lambda session, lock: session.close(),
        }
        for name, call in calls.items():
            for at in range(1, 10):
                with self.subTest(name, at=at):
                    session, fake = self.make(late=lambda method: 4)
                    lock = await session.acquire("n")
                    loop, me = asyncio.get_running_loop(), asyncio.current_task()
                    left = [at]

                    def turn():
                        left[0] -= 1
                        if left[0]:
                            loop.call_soon(turn)
                        else:
                            for task in asyncio.all_tasks() - {me}:
                                task.cancel()

                    loop.call_soon(turn)
                    try:
                        await call(session, lock)
                    except pawld.Error as e:
                        self.assertEqual((name, e.code), ("confirm", "unavailable"))
                    await session.close()
                    self.assertFalse(fake.rows)

    def test_a_loop_that_ends_begins_nothing_again(self):
        session = aio.Session(ttl=TTL)
        wrong = mock.Mock()

        async def main():
            session._transport = Fake()
            asyncio.get_running_loop().set_exception_handler(wrong)
            await session.acquire("n")

        asyncio.run(main())
        gc.collect()
        self.assertEqual(wrong.mock_calls, [])


class AnyLoop(asyncio.SelectorEventLoop):
    """Takes what the documentation of event loops has, and nothing that is CPython's alone, as uvloop."""

    async def create_connection(self, factory, host=None, port=None, *, ssl=None, family=0, proto=0, flags=0, sock=None, local_addr=None, server_hostname=None):
        return await super().create_connection(
            factory, host, port, ssl=ssl, family=family, proto=proto, flags=flags, sock=sock, local_addr=local_addr, server_hostname=server_hostname
        )


class LoopTest(Case):
    def test_it_needs_nothing_that_only_cpythons_own_loop_has(self):
        loops = [AnyLoop]
        try:
            import uvloop
            loops.append(uvloop.new_event_loop)
        except ImportError:
            pass

        async def call():
            async def serve(reader, writer):
                await reader.readuntil(b"}")
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"state": "BUSY"}')
                writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            for host in "127.0.0.1", "localhost":
                session = aio.Session(address=(host, port), token="0123456789abcdef")
                self.assertIsNone(await session.try_acquire("n"))
            server.close()

        for new in loops:
            loop = new()
            try:
                loop.run_until_complete(call())
            finally:
                loop.close()

    @on_sockets
    async def test_an_address_that_does_not_answer_leaves_another_its_time(self):
        loop, made = asyncio.get_running_loop(), []
        asked = asyncio.Event()
        new = socket.socket

        def keep(*args):
            made.append(new(*args))
            return made[-1]

        async def connect(sock, at):
            if at == "silent":
                asked.set()
                await asyncio.Event().wait()
            if at == "refuses":
                raise ConnectionRefusedError
            await asked.wait()

        def of(*at):
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", a) for a in at]

        with mock.patch.object(loop, "sock_connect", connect), mock.patch.object(aio._socket, "socket", keep):
            for addresses in ("silent", "answers"), ("silent", "refuses", "answers"), ("answers", "silent"):
                made.clear()
                asked.set() if addresses[0] == "answers" else asked.clear()
                with await aio._reach(of(*addresses)) as sock:
                    await turns(3)
                    self.assertEqual([s for s in made if s.fileno() >= 0], [sock], "the others are closed")
            with self.assertRaises(ConnectionRefusedError):
                await aio._reach(of("refuses", "refuses"))


class SayTest(Case):
    @bubble
    async def test_a_failure_is_said_whenever_its_code_changes(self):
        logging.getLogger("pawld").setLevel(logging.NOTSET)
        denied = pawld.Error("unauthenticated", "no")
        session, fake = self.make()
        failures = [AWAY, AWAY, denied, denied, AWAY, AWAY, denied]
        await session.acquire("n")

        def renew(body):
            if failures:
                raise failures.pop(0)
            del fake.answers["Renew"]
            return {}

        fake.answers["Renew"] = renew
        with self.assertLogs("pawld", logging.INFO) as logs:
            await asyncio.sleep(TTL / 2)
        self.assertEqual([next(w for w in ("unavailable", "unauthenticated", "answers again") if w in line) for line in logs.output],
                         ["unavailable", "unauthenticated", "unavailable", "unauthenticated", "answers again"])
        await session.close()


if __name__ == "__main__":
    unittest.main()
