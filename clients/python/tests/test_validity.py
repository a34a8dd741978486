"""How long a Lock is believed in, on clocks that stand still unless a test sets them."""

import time
import unittest
from unittest import mock

from test_session import AWAY, HANG, Pawld, held

import pawld

SECOND = 1_000_000_000
VALID = 60 * SECOND  # what held says
TTL = 40  # seconds; so long that a slow machine ends no request


class ValidityTest(unittest.TestCase):
    def setUp(self):
        self.pawld = Pawld()
        self.addCleanup(self.pawld.stop)
        self.boot = self.wall = 1000 * SECOND
        for name, clock in (("clock_gettime_ns", lambda which: self.boot), ("time_ns", lambda: self.wall)):
            patch = mock.patch.object(time, name, clock)
            patch.start()
            self.addCleanup(patch.stop)
        self.pawld.answers = {
            "Acquire": lambda body: (200, {"state": "HELD", "lock": held(body["requestId"])}),
            "Renew": lambda body: AWAY,
            "Release": lambda body: AWAY,
        }
        self.session = pawld.Session(self.pawld.path, ttl=TTL)
        self.renewals = 0  # whose answers were taken in
        self.renew = self.session._renewer._round
        self.session._renewer._round = self.counted

    async def counted(self, wait, failed):
        """One round of the renewer."""
        pause = await self.renew(wait, failed)
        with self.pawld.changed:
            self.renewals += 1
            self.pawld.changed.notify_all()
        return pause

    def pass_by(self, ns):
        self.boot, self.wall = self.boot + ns, self.wall + ns

    def late(self, ns, answer):
        """Answers once, after ns, and then no more."""
        answers = [answer]

        def handle(body):
            if not answers:
                return AWAY
            self.pass_by(ns)
            return 200, answers.pop()

        return handle

    def await_renewals(self, n):
        """Waits until the answers to n more were taken in. The first may have been given before, and all others were sent since."""
        with self.pawld.changed:
            want = self.renewals + n
            self.assertTrue(self.pawld.changed.wait_for(lambda: self.renewals >= want, HANG))

    def test_the_clock_counts_a_suspend(self):
        self.assertEqual(pawld._validity._CLOCK, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def test_a_validity_ends_at_the_nanosecond_by_the_clock_that_ran_further(self):
        for clock in ("boot", "wall"):
            with self.subTest(clock):
                lock = self.session.acquire("n")
                setattr(self, clock, getattr(self, clock) + VALID - 1)
                lock.check()
                setattr(self, clock, getattr(self, clock) + 1)
                with self.assertRaises(pawld.LockLost):
                    lock.check()

    def test_what_has_ended_stays_ended(self):
        lock = self.session.acquire("n")
        self.pass_by(VALID)
        self.assertFalse(lock.held())
        self.pawld.answers["Renew"] = lambda body: (200, {"locks": [held(lock._id)]})
        self.await_renewals(2)
        self.assertFalse(lock.held())

    def test_an_answer_that_comes_after_the_end_is_too_late(self):
        lock = self.session.acquire("n")
        self.pawld.answers["Renew"] = self.late(VALID, {"locks": [dict(held(lock._id), validForMs="120000")]})
        self.await_renewals(1)
        self.assertFalse(lock.held())

    def test_a_validity_counts_from_before_acquire_was_sent(self):
        def late(body):
            self.pass_by(50 * SECOND)
            return 200, {"state": "HELD", "lock": held(body["requestId"])}

        self.pawld.answers["Acquire"] = late
        lock = self.session.acquire("n")
        self.pass_by(10 * SECOND - 1)
        self.assertTrue(lock.held())
        self.pass_by(1)
        self.assertFalse(lock.held())

    def test_a_validity_counts_from_before_renew_was_sent(self):
        lock = self.session.acquire("n")
        self.pawld.answers["Renew"] = self.late(50 * SECOND, {"locks": [held(lock._id)]})
        self.await_renewals(1)
        self.pass_by(10 * SECOND)
        self.assertFalse(lock.held())

    def test_a_validity_counts_from_before_confirm_was_sent(self):
        lock = self.session.acquire("n")
        self.pass_by(30 * SECOND)
        self.pawld.answers["Confirm"] = self.late(20 * SECOND, {"lock": held(lock._id)})
        lock.confirm()
        self.pass_by(40 * SECOND - 1)
        self.assertTrue(lock.held())
        self.pass_by(1)
        self.assertFalse(lock.held())

    def test_an_answer_extends_a_validity_and_never_shortens_it(self):
        lock = self.session.acquire("n")
        self.pawld.answers["Renew"] = lambda body: (200, {"locks": [dict(held(lock._id), validForMs="1000")]})
        self.await_renewals(2)
        self.pass_by(VALID - 1)
        self.assertTrue(lock.held())

    def test_what_an_answer_does_not_list_is_not_held(self):
        lock, other = self.session.acquire("n"), self.session.acquire("m")
        self.pawld.answers["Renew"] = lambda body: (time.sleep(0.05), (200, {"locks": [held(other._id)]}))[1]
        self.assertTrue(self.pawld.await_call("Renew", lambda body: lock._id in body["settled"]))
        with self.assertRaisesRegex(pawld.LockLost, "NOT_HELD"):
            lock.check()
        self.assertTrue(other.held())

    def is_told(self, rows, result, why):
        """Releases a lock whose validity has ended: rows is what Renew lists of it, None where it does not answer."""
        lock = self.session.acquire("n")
        self.pass_by(VALID)
        other = self.session.acquire("m")  # so that renewals go on
        self.pawld.answers["Release"] = lambda body: (200, {"results": [result]})
        if rows is not None:
            self.pawld.answers["Renew"] = lambda body: (200, {"locks": [held(other._id)] + [dict(held(lock._id), **r) for r in rows]})
            self.await_renewals(2)
        with self.assertRaises(pawld.LockLost) as lost:
            lock.release()
        self.assertEqual(lost.exception.why, why)

    def test_what_ended_a_validity_is_said_where_nothing_was_heard(self):
        self.is_told(None, {"why": "NOT_HELD"}, "EXPIRED")

    def test_what_ended_a_validity_is_said_where_pawld_has_forgotten_it(self):
        self.is_told([], {"why": "NOT_HELD"}, "EXPIRED")

    def test_what_ended_a_validity_is_said_where_it_was_given_back(self):
        self.is_told([{"state": "HELD"}], {"released": True}, "EXPIRED")

    def test_what_pawld_knows_goes_before_what_ended_a_validity(self):
        self.is_told([{"state": "LOST", "why": "MAX_HOLD"}], {"why": "MAX_HOLD"}, "MAX_HOLD")

    def ends(self, max_hold, waited, renewed, why, stall=0, progressed=False):
        """What ends a validity of a lock that was held and renewed after so many seconds."""
        def acquire(body):
            self.pass_by(waited * SECOND)
            return 200, {"state": "HELD", "lock": held(body["requestId"])}

        self.pawld.answers["Acquire"] = acquire
        self.pawld.answers["Progress"] = lambda body: (200, {"lock": held(body["requestId"])})
        lock = self.session.acquire("n", max_hold=max_hold, stall=stall)
        self.pass_by(renewed * SECOND)
        if progressed:
            lock.progress()
        self.pawld.answers["Renew"] = lambda body: (200, {"locks": [held(lock._id)]})
        self.await_renewals(2)
        self.pass_by(VALID)
        self.await_renewals(2)
        for call in lock.check, lock.release:
            with self.assertRaises(pawld.LockLost) as lost:
                call()
            self.assertEqual(lost.exception.why, why)

    def test_what_ends_a_validity_is_the_limit_of_a_hold_that_comes_before_its_ttl(self):
        self.ends(TTL, 0, 0, "MAX_HOLD")

    def test_what_ends_a_validity_is_its_ttl_where_the_limit_comes_later(self):
        self.ends(TTL + 0.001, 0, 0, "EXPIRED")

    def test_what_ends_a_validity_is_the_limit_where_it_comes_before_what_was_renewed(self):
        self.ends(TTL + 10, 0, 10, "MAX_HOLD")

    def test_what_ends_a_validity_is_the_ttl_that_was_renewed_where_the_limit_comes_later(self):
        self.ends(TTL + 10.001, 0, 10, "EXPIRED")

    def test_what_ends_a_validity_counts_a_limit_from_when_the_lock_was_held(self):
        self.ends(TTL + 10, 10, 0, "EXPIRED")

    def test_what_ends_a_validity_is_a_stall_that_comes_before_its_ttl(self):
        self.ends(0, 0, 0, "STALLED", stall=TTL)

    def test_what_ends_a_validity_is_its_ttl_where_the_stall_comes_later(self):
        self.ends(0, 0, 0, "EXPIRED", stall=TTL + 0.001)

    def test_what_ends_a_validity_counts_a_stall_from_the_last_progress(self):
        self.ends(0, 0, 10, "EXPIRED", stall=TTL + 5, progressed=True)

    def test_what_ends_a_validity_counts_a_stall_from_when_the_lock_was_held_without_progress(self):
        self.ends(0, 0, 10, "STALLED", stall=TTL + 5)

    def test_what_ends_a_validity_is_the_earlier_of_the_limit_and_the_stall(self):
        self.ends(TTL, 0, 0, "STALLED", stall=TTL - 1)

    def test_what_ends_a_validity_is_the_limit_that_comes_before_the_stall(self):
        self.ends(TTL - 1, 0, 0, "MAX_HOLD", stall=TTL)

    def test_progress_extends_a_validity_and_is_one_request(self):
        calls = []
        self.pawld.answers["Progress"] = lambda body: (calls.append(body["requestId"]), (200, {"lock": held(body["requestId"])}))[1]
        lock = self.session.acquire("n", stall=60)
        self.pass_by(VALID - 1)
        lock.progress()
        self.pass_by(VALID - 1)
        self.assertTrue(lock.held())
        self.assertEqual(calls, [lock._id])

    def test_progress_that_is_not_answered_raises_nothing_while_the_lock_is_held(self):
        for answer in (503, {"code": "unavailable"}), (429, {"code": "resource_exhausted"}):
            self.pawld.answers["Progress"] = lambda body, answer=answer: answer
            lock = self.session.acquire("n", stall=60)
            lock.progress()
            self.pass_by(VALID)
            with self.assertRaises(pawld.LockLost):
                lock.progress()

    def test_progress_of_a_lock_that_is_lost_says_why(self):
        self.pawld.answers["Progress"] = lambda body: (200, {"lock": {"requestId": body["requestId"], "state": "LOST", "why": "STALLED"}})
        lock = self.session.acquire("n", stall=60)
        for _ in range(2):
            with self.assertRaisesRegex(pawld.LockLost, "STALLED"):
                lock.progress()

    def test_it_stops_believing_before_a_release_is_sent(self):
        lock = self.session.acquire("n")
        believed = []

        def release(body):
            believed.append(lock.held())
            return 200, {"results": [{"requestId": lock._id, "released": True}]}

        self.pawld.answers["Release"] = release
        lock.release()
        self.assertEqual(believed, [False])


if __name__ == "__main__":
    unittest.main()
