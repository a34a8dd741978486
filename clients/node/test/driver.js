'use strict';

// Plays clients/scenario.jsonl for a test: commands on stdin, results on stdout, a line each.

const { randomBytes } = require('crypto');
const { createInterface } = require('readline');
const { Session, LockLost, PawldError } = require('..');

const session = new Session({ socket: process.argv[2], ttl: Number(process.argv[3]) * 1000, owner: 'node' });
const locks = new Map();

async function play(c) {
  const held = locks.get(c.lock);
  switch (c.op) {
    case 'acquire': {
      let lock;
      try {
        if (c.limit && c.try) lock = await session.tryAcquireSlot(c.name, c.limit);
        else if (c.limit) lock = await session.acquireSlot(c.name, c.limit, { timeout: c.timeoutMs });
        else if (c.names && c.try) lock = await session.tryAcquireAll(c.names, { shared: c.sharedNames });
        else if (c.names) lock = await session.acquireAll(c.names, { shared: c.sharedNames, timeout: c.timeoutMs });
        else lock = c.try
          ? await session.tryAcquire(c.name, { shared: c.shared })
          : await session.acquire(c.name, { timeout: c.timeoutMs, shared: c.shared, maxHold: c.maxHoldMs, stall: c.stallMs });
      } catch (e) {
        if (e.name === 'TimeoutError') return { state: 'TIMEOUT' };
        if (e instanceof LockLost) return { state: 'LOST' };
        throw e;
      }
      if (lock === null) return { state: 'BUSY' };
      locks.set(c.lock, lock);
      return { state: 'HELD', token: Number(lock.token), key: lock.keys[0], slot: lock.slot };
    }
    case 'check':
      return { held: held.held() };
    case 'progress':
      try {
        await held.progress();
      } catch (e) {
        if (e instanceof LockLost) return { held: false };
        throw e;
      }
      return { held: true };
    case 'wanted':
      return { wanted: held.wanted().aborted };
    case 'renewed': {
      const until = () => performance.now() + held._left();
      const before = until();
      while (until() < before + 1) await (await session.acquire(randomBytes(8).toString('hex'))).release(); // answers a Renew that is parked
      return {};
    }
    case 'release':
      try {
        await held.release();
      } catch (e) {
        if (e instanceof LockLost) return { released: false, why: e.why };
        throw e;
      }
      return { released: true };
    case 'forget': {
      const body = { session: session._id, requestId: randomBytes(16).toString('hex'), names: [c.name], mode: 'EXCLUSIVE' };
      await session._call('Acquire', { ...body, ttlMs: session._ttl, waitMs: 5000, owner: 'node' }, 10000);
      return {};
    }
    default:
      throw new Error(c.op);
  }
}

(async () => {
  for await (const line of createInterface({ input: process.stdin })) {
    let result;
    try {
      result = await play(JSON.parse(line));
    } catch (e) {
      if (!(e instanceof PawldError)) throw e;
      result = { error: e.code };
    }
    console.log(JSON.stringify(result));
  }
  process.exit(0);
})();
