"""Plays clients/scenario.jsonl for a test: commands on stdin, results on stdout, a line each."""

import json
import os
import secrets
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import pawld  # noqa: E402

session = pawld.Session(sys.argv[1], ttl=float(sys.argv[2]), owner="python")
locks = {}


def play(c):
    lock = locks.get(c.get("lock"))
    if c["op"] == "acquire":
        try:
            if "limit" in c and c.get("try"):
                lock = session.try_acquire_slot(c["name"], c["limit"])
            elif "limit" in c:
                lock = session.acquire_slot(c["name"], c["limit"], timeout=c["timeoutMs"] / 1000)
            elif "names" in c and c.get("try"):
                lock = session.try_acquire_all(c["names"], shared=c.get("sharedNames", []))
            elif "names" in c:
                lock = session.acquire_all(c["names"], shared=c.get("sharedNames", []), timeout=c["timeoutMs"] / 1000)
            elif c.get("try"):
                lock = session.try_acquire(c["name"], shared=c.get("shared", False))
            else:
                lock = session.acquire(c["name"], timeout=c["timeoutMs"] / 1000, shared=c.get("shared", False), max_hold=c.get("maxHoldMs", 0) / 1000)
        except TimeoutError:
            return {"state": "TIMEOUT"}
        except pawld.LockLost:
            return {"state": "LOST"}
        if lock is None:
            return {"state": "BUSY"}
        locks[c["lock"]] = lock
        return {"state": "HELD", "token": lock.token, "key": lock.keys[0], "slot": lock.slot}
    if c["op"] == "check":
        return {"held": lock.held()}
    if c["op"] == "renewed":
        before = lock._belief
        while lock._belief == before:
            session.acquire(secrets.token_hex(8)).release()  # answers a Renew that is parked
        return {}
    if c["op"] == "release":
        try:
            lock.release()
        except pawld.LockLost as e:
            return {"released": False, "why": e.why}
        return {"released": True}
    if c["op"] == "forget":
        session._transport.send("Acquire", {
            "session": session._id, "requestId": secrets.token_hex(16), "names": [c["name"]],
            "mode": "EXCLUSIVE", "ttlMs": int(session._ttl * 1000), "waitMs": 5000, "owner": "python",
        }, 10, pawld._threads.Wait())
        return {}
    raise ValueError(c["op"])


for line in sys.stdin:
    try:
        result = play(json.loads(line))
    except pawld.Error as e:
        result = {"error": e.code}
    print(json.dumps(result), flush=True)
