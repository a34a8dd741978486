"""Looks at the store of the trial, and fills it: trial.py STORE open ACCOUNTS ORDERS | close | more | result."""

import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../clients/python/examples"))

from orders import Store  # noqa: E402

store = Store(sys.argv[1])
db = store.db
what = sys.argv[2]
if what == "open":
    names = [f"account-{i}" for i in range(int(sys.argv[3]))]
    db.executemany("INSERT INTO accounts (name) VALUES (?)", [(name,) for name in names])
    orders = [(random.choice(names), random.randint(1, 100)) for _ in range(int(sys.argv[4]))]
    db.execute("BEGIN")
    db.executemany("INSERT INTO orders (account, amount) VALUES (?, ?)", orders)
    db.execute("COMMIT")
elif what == "close":  # what no worker has come to
    db.execute("DELETE FROM orders WHERE settled = 0")
elif what == "more":  # waits until another order is settled

    def settled():
        return db.execute("SELECT count(*) FROM orders WHERE settled > 0").fetchone()[0]

    before = settled()
    while settled() == before:
        time.sleep(0.1)
elif what == "result":
    count = db.execute("SELECT count(*) FROM orders").fetchone()[0]
    once = db.execute("SELECT count(*) FROM orders WHERE settled = 1").fetchone()[0]
    refused = db.execute("SELECT count(*) FROM refused").fetchone()[0]
    wrong = [
        name
        for name, balance in db.execute("SELECT name, balance FROM accounts").fetchall()
        if balance != db.execute("SELECT coalesce(sum(amount * settled), 0) FROM orders WHERE account = ?", (name,)).fetchone()[0]
    ]
    print(count, once, refused, ",".join(wrong) or "none")
