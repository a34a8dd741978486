"""Plays clients/scenario.jsonl for a test: commands on stdin, results on stdout, a line each.

    python3 driver.py [aio] SOCKET TTL

With aio it plays it with a session of asyncio.
"""

import asyncio
import json
import os
import secrets
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import pawld  # noqa: E402
import pawld.aio  # noqa: E402

*mode, path, ttl = sys.argv[1:]
client, Wait = (pawld.aio, pawld.aio.Wait) if mode == ["aio"] else (pawld, pawld._threads.Wait)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
session = client.Session(path, ttl=float(ttl), owner="python")
locks = {}


def do(call, *args, **named):
    """What a method gives, of either client."""
    given = call(*args, **named)
    return asyncio.run_coroutine_threadsafe(given, loop).result() if asyncio.iscoroutine(given) else given


def play(c):
    lock = locks.get(c.get("lock"))
    if c["op"] == "acquire":
        try:
            if "limit" in c and c.get("try"):
                lock = do(session.try_acquire_slot, c["name"], c["limit"])
            elif "limit" in c:
                lock = do(session.acquire_slot, c["name"], c["limit"], timeout=c["timeoutMs"] / 1000)
            elif "names" in c and c.get("try"):
                lock = do(session.try_acquire_all, c["names"], shared=c.get("sharedNames", []))
            elif "names" in c:
                lock = do(session.acquire_all, c["names"], shared=c.get("sharedNames", []), timeout=c["timeoutMs"] / 1000)
            elif c.get("try"):
                lock = do(session.try_acquire, c["name"], shared=c.get("shared", False))
            else:
                lock = do(session.acquire, c["name"], timeout=c["timeoutMs"] / 1000, shared=c.get("shared", False), max_hold=c.get("maxHoldMs", 0) / 1000, stall=c.get("stallMs", 0) / 1000)
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
    if c["op"] == "progress":
        try:
            do(lock.progress)
        except pawld.LockLost:
            return {"held": False}
        return {"held": True}
    if c["op"] == "wanted":
        return {"wanted": lock.wanted().is_set()}
    if c["op"] == "renewed":
        before = lock._validity
        while lock._validity == before:
            do(do(session.acquire, secrets.token_hex(8)).release)  # answers a Renew that is parked
        return {}
    if c["op"] == "release":
        try:
            do(lock.release)
        except pawld.LockLost as e:
            return {"released": False, "why": e.why}
        return {"released": True}
    if c["op"] == "forget":
        do(session._transport.send, "Acquire", {
            "session": session._id, "requestId": secrets.token_hex(16), "names": [c["name"]],
            "mode": "EXCLUSIVE", "ttlMs": int(session._ttl * 1000), "waitMs": 5000, "owner": "python",
        }, 10, Wait())
        return {}
    raise ValueError(c["op"])


for line in sys.stdin:
    try:
        result = play(json.loads(line))
    except pawld.Error as e:
        result = {"error": e.code}
    print(json.dumps(result), flush=True)
