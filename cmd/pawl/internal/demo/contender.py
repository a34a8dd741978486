"""One contender of pawl demo, through the daemon pawld: what worker.go does, in Python."""

import datetime
import json
import os
import sqlite3
import sys
import threading

import pawld

WHO, SOCKET, STORE, NAME, TTL = sys.argv[1:]
ASKED = threading.Event()


class Stale(Exception):
    """The store has seen a greater token."""

    def __init__(self, token, highest):
        super().__init__(f'stale token {token} for "{NAME}": {highest} was seen')
        self.highest = highest


def say(what, **more):
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    print(json.dumps({"Worker": WHO, "What": what, "At": now, **more}), flush=True)


def under(db, token, do):
    """Runs do in a transaction in which token was admitted, on the table that the Go programs use."""
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(
            "INSERT INTO pawl_fence (resource, highest, exclusive) VALUES (?, ?, ?) ON CONFLICT (resource)"
            " DO UPDATE SET highest = excluded.highest, exclusive = excluded.exclusive WHERE highest <= excluded.highest",
            (NAME, token, token),
        )
        highest = db.execute("SELECT highest FROM pawl_fence WHERE resource = ?", (NAME,)).fetchone()[0]
        if highest > token:
            raise Stale(token, highest)
        result = do()
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
    return result


def write(db, token, was):
    db.execute("UPDATE counter SET value = ?", (was + 1,))
    db.execute("INSERT INTO writes (worker, token, was, became) VALUES (?, ?, ?, ?)", (WHO, token, was, was + 1))


def work(db, lock, kept):
    token = lock.token
    say("holds", Token=token)
    was = under(db, token, lambda: db.execute("SELECT value FROM counter").fetchone()[0])
    say("read", Token=token, Was=was, Deadline=kept.isoformat())
    ASKED.wait()
    try:
        lock.check()  # the first check after the work
        say("woke", Token=token)
    except pawld.LockLost as e:
        say("woke", Token=token, Err=str(e), Lost=True)
    try:
        under(db, token, lambda: write(db, token, was))
        say("wrote", Token=token, Was=was, Became=was + 1)
    except Stale as e:
        say("refused", Token=token, Err=str(e), Stale=True, Highest=e.highest)


def acquire(session):
    """Takes the lock, again if it was lost before this heard of it: a stall suffices for that."""
    while True:
        # pawld keeps a lock for the TTL after a request of its client has arrived, and this one has yet to be sent.
        kept = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=float(TTL))
        try:
            return session.acquire(NAME), kept
        except pawld.LockLost:
            pass


def main():
    db = sqlite3.connect(STORE, timeout=10, isolation_level=None)
    with pawld.Session(SOCKET, ttl=float(TTL), owner=WHO) as session:
        lock, kept = acquire(session)
        work(db, lock, kept)
        try:
            lock.release()
        except pawld.LockLost:
            pass  # it knows


def obey():
    """The demo asks for the write, and is gone when it has closed this."""
    if os.read(0, 1):
        ASKED.set()
    while os.read(0, 4096):
        pass
    os._exit(1)


threading.Thread(target=obey, daemon=True).start()
main()
