"""A worker that settles orders under locks of pawld, with a store that checks fencing tokens.

    python3 orders.py SOCKET STORE

Any number of workers may run on one store. Each takes the account of an order that is open,
reads its balance, works, and writes the balance back with the order. Two that did so at once
would lose one order's amount; the lock keeps them apart. A worker that was stopped in between,
and wakes when another has the lock, is refused by the store: its token is lower than the highest
that the store has seen.
"""

import os
import random
import sqlite3
import sys
import time
from typing import Callable, List, Optional, Tuple, TypeVar

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import pawld  # noqa: E402

T = TypeVar("T")

SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, account TEXT NOT NULL, amount INTEGER NOT NULL, settled INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS fences (name TEXT PRIMARY KEY, token INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS refused (name TEXT NOT NULL, token INTEGER NOT NULL);
"""


class Stale(Exception):
    """The store has seen a greater token, because another holds the lock, or has held it."""


class Store:
    """Orders in SQLite. Each transaction under a lock begins with its token."""

    def __init__(self, path: str) -> None:
        self.db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.executescript(SCHEMA)

    def admit(self, name: str, token: int) -> None:
        """Refuses a token below the highest, and remembers it otherwise. Reads count, too."""
        highest = self.db.execute("SELECT token FROM fences WHERE name = ?", (name,)).fetchone()
        if highest and token < highest[0]:
            raise Stale(f"{name}: token {token}, and {highest[0]} was seen")
        self.db.execute("INSERT OR REPLACE INTO fences VALUES (?, ?)", (name, token))

    def fenced(self, name: str, token: int, do: Callable[[], T]) -> T:
        """Runs do in a transaction that begins with the token."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            self.admit(name, token)
            result = do()
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        return result

    def accounts(self) -> List[str]:
        """Accounts that have open orders."""
        return [row[0] for row in self.db.execute("SELECT DISTINCT account FROM orders WHERE settled = 0")]

    def next(self, account: str, token: int) -> Tuple[Optional[Tuple[int, int]], int]:
        def read() -> Tuple[Optional[Tuple[int, int]], int]:
            order = self.db.execute("SELECT id, amount FROM orders WHERE account = ? AND settled = 0 LIMIT 1", (account,)).fetchone()
            balance = self.db.execute("SELECT balance FROM accounts WHERE name = ?", (account,)).fetchone()
            return order, balance[0]

        return self.fenced(account, token, read)

    def settle(self, account: str, token: int, order: int, balance: int) -> None:
        def write() -> None:
            self.db.execute("UPDATE accounts SET balance = ? WHERE name = ?", (balance, account))
            self.db.execute("UPDATE orders SET settled = settled + 1 WHERE id = ?", (order,))

        self.fenced(account, token, write)

    def note(self, account: str, token: int) -> None:
        """Records that a late write was refused, for those who inspect the store."""
        self.db.execute("INSERT INTO refused VALUES (?, ?)", (account, token))


def work(session: pawld.Session, store: Store, account: str) -> None:
    with session.acquire("accounts/" + account, timeout=30) as lock:
        for _ in range(5):
            order, balance = store.next(account, lock.token)
            if order is None:
                return
            time.sleep(random.uniform(0, 0.05))  # the work
            lock.check()  # spares the store what is late already
            try:
                store.settle(account, lock.token, order[0], balance + order[1])
            except Stale:
                store.note(account, lock.token)
                raise


def main(socket: str, path: str) -> None:
    store = Store(path)
    with pawld.Session(socket, ttl=3, owner=f"orders worker {os.getpid()}") as session:
        while True:
            accounts = store.accounts()
            if not accounts:
                time.sleep(0.1)
                continue
            try:
                work(session, store, random.choice(accounts))
            except (pawld.Error, pawld.LockLost, Stale, TimeoutError) as e:
                print(f"worker {os.getpid()}: {e}", file=sys.stderr)  # another one, or the next round, settles it
                time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
