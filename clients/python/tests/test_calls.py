"""How a call ends: what close does to it, and what a proxy's answer is taken for. python3 -m unittest, in this directory."""

import faulthandler
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import pawld  # noqa: E402
from test_session import HANG, Pawld, held  # noqa: E402


class CallsTest(unittest.TestCase):
    def setUp(self):
        faulthandler.dump_traceback_later(HANG, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        self.pawld = Pawld()
        self.addCleanup(self.pawld.stop)
        done = threading.Event()
        self.addCleanup(done.set)

        def silent(body):
            done.wait(HANG)
            return 200, {}

        self.pawld.answers = {
            "Acquire": lambda body: (200, {"state": "HELD", "lock": held(body["requestId"])}),
            "Release": lambda body: (200, {}),
            "Renew": silent, "Confirm": silent, "Proclaim": silent,
        }
        self.session = pawld.Session(self.pawld.path, ttl=1000)

    def test_close_ends_a_query_at_once(self):
        lock = self.session.acquire("n")
        ends = []

        def query(call):
            try:
                call()
            except Exception as e:
                ends.append(e)

        threads = [threading.Thread(target=query, args=(call,)) for call in (lock.confirm, lambda: lock.proclaim(b"v"))]
        for thread in threads:
            thread.start()
        for call in "Confirm", "Proclaim":
            self.assertTrue(self.pawld.await_call(call, lambda body: True))
        self.session.close()
        for thread in threads:
            thread.join()
        self.assertEqual([(type(e), getattr(e, "code", e)) for e in ends], [(pawld.Error, "closed")] * 2)

    def test_after_close_no_query_is_sent(self):
        lock = self.session.acquire("n")
        self.session.close()
        for call in lock.confirm, lambda: lock.proclaim(b"v"):
            with self.assertRaises(pawld.LockLost):
                call()
        self.assertEqual([self.pawld.count(call) for call in ("Confirm", "Proclaim")], [0, 0])

    def test_what_a_proxy_answers_for_pawld_passes(self):
        for status, answer in ((502, {"message": "no"}), (503, {}), (503, []), (503, "no"), (504, {"code": 7})):
            with self.subTest(f"{status} {answer}"):
                answers = [(status, answer)]
                self.pawld.answers["Acquire"] = lambda body: answers.pop() if answers else (200, {"state": "HELD", "lock": held(body["requestId"])})
                self.assertTrue(self.session.acquire("n").held())

    def test_what_is_no_answer_of_pawlds_is_an_error_at_once(self):
        for status, answer in ((500, {"message": "no"}), (404, {}), (200, []), (200, None), (403, {"code": 7})):
            with self.subTest(f"{status} {answer}"):
                self.pawld.answers["Acquire"] = lambda body: (status, answer)
                with self.assertRaises(pawld.Error) as e:
                    self.session.acquire("n")
                self.assertEqual(e.exception.code, "unimplemented")


if __name__ == "__main__":
    unittest.main()
