'use strict';

// What close, release and the end of a wait leave, and what they leave undone: node --test
// test/close.test.js, in the client's folder.

const assert = require('node:assert');
const { test } = require('node:test');
const { LockLost, PawldError } = require('..');
const { AWAY, held, never, turn, within } = require('./bubble.js');

const away = () => { throw AWAY; };
const waiting = async function waiting(body) {
  this.queue.add(body.requestId);
  await this.park(body);
  return { state: 'WAITING' };
};

const CALLS = {
  acquire: (session) => session.acquire('n'),
  tryAcquire: (session) => session.tryAcquire('n'),
  acquireAll: (session) => session.acquireAll(['n', 'm']),
  tryAcquireAll: (session) => session.tryAcquireAll(['n', 'm']),
  acquireSlot: (session) => session.acquireSlot('n', 2),
  tryAcquireSlot: (session) => session.tryAcquireSlot('n', 2),
  campaign: (session) => session.campaign('n'),
  withLock: (session) => session.withLock('n', {}, () => {}),
};

for (const [name, call] of Object.entries(CALLS)) {
  for (const [state, answers] of Object.entries({
    'that is not answered': { Acquire: never },
    'without pawld': { Acquire: away, Release: away },
    'when pawld is silent': { Acquire: never, Release: never },
  })) {
    test(`close ends a wait at once: ${name} ${state}`, within(async (b) => {
      const [session, daemon] = b.session();
      Object.assign(daemon.answers, answers);
      const call1 = call(session);
      await turn();
      const closing = session.close();
      const { error } = await b.outcome(call1, { still: true });
      assert.strictEqual(error.code, 'closed');
      assert.strictEqual((await b.outcome(closing)).error, undefined);
      assert.ok(b.waiting() === 0, 'something waits');
      const { requestId } = daemon.calls('Acquire')[0];
      assert.deepStrictEqual(daemon.calls('Release')[0].requestIds, [requestId]);
      if (!answers.Release) assert.deepStrictEqual(daemon.calls('Release').map((r) => r.requestIds), [[requestId], undefined]);
    }));
  }

  test(`what begins after close is refused at once: ${name}`, within(async (b) => {
    const [session, daemon] = b.session();
    await b.outcome(session.close());
    const { error } = await b.outcome(call(session), { still: true });
    assert.strictEqual(error.code, 'closed');
    assert.deepStrictEqual(daemon.seen, []);
  }));
}

for (const [name, call] of Object.entries({ confirm: (lock) => lock.confirm(), proclaim: (lock) => lock.proclaim('v') })) {
  test(`close ends a query at once: ${name}`, within(async (b) => {
    const [session, daemon] = b.session();
    const lock = (await b.outcome(session.acquire('n'))).value;
    daemon.answers.Confirm = daemon.answers.Proclaim = never;
    const query = call(lock);
    await turn();
    const closing = session.close();
    assert.strictEqual((await b.outcome(query, { still: true })).error.code, 'closed');
    await b.outcome(closing);
    assert.strictEqual(b.waiting(), 0, 'something waits');
    assert.strictEqual((await b.outcome(call(lock), { still: true })).error.name, 'LockLost');
  }));
}

// Nothing of Node's runs between two awaits: what others see, they see at an await.
const ENDS = {
  close: (session) => session.close(),
  release: (session, lock) => lock.release(),
  'release, then close': (session, lock) => Promise.all([lock.release(), session.close()]),
  'close, then release': (session, lock) => Promise.all([session.close(), lock.release()]),
  'the end of withLock': (session) => session.withLock('w', {}, () => {}),
};
const MEANWHILE = {
  looks: () => {},
  renews: (session) => session._round({ run: (f) => new Promise((resolve, reject) => { f(resolve, reject); }) }, false),
  'frees what nobody has': (session) => session._free('0123456789abcdef'.repeat(2)),
  confirms: (session, lock) => lock.confirm(),
  'releases it': (session, lock) => lock.release(),
  'releases another': (session, lock, other) => other.release(),
  acquires: (session) => session.acquire('x'),
  closes: (session) => session.close(),
};
const RELEASES = {
  'is answered': [],
  'is answered the second time': [AWAY],
  'is refused': [new PawldError('invalid_argument', 'no'), new PawldError('invalid_argument', 'no')],
};

for (const [ending, end] of Object.entries(ENDS)) {
  for (const [meanwhile, act] of Object.entries(MEANWHILE)) {
    test(`validities end before anything is given back: at each await of ${ending}, another ${meanwhile}`, within(async (b) => {
      for (const failures of Object.values(RELEASES)) {
        let awaits = 1;
        for (let at = 0; at < awaits; at++) {
          const [session, daemon] = b.session();
          global.setTimeout = (f, ms) => { if (ms <= 100) queueMicrotask(f); }; // no call is late
          session._renew = () => {};
          daemon.answers.Renew = daemon.Renew;
          const left = [...failures];
          const locks = []; // all that were won
          const look = () => {
            for (const lock of locks) assert.ok(!lock.held() || !(daemon.ended || daemon.free.has(lock.id)), `it is believed in when another may hold it, after ${awaits} awaits`);
          };
          const believe = session._call;
          session._call = async function call(...args) {
            const answer = await believe.apply(this, args);
            look();
            return answer;
          };
          daemon.answers.Release = (body) => {
            const failure = left.pop();
            if (!failure || failure.code !== 'invalid_argument') daemon.Release(body); // its answer is lost
            look();
            if (failure) throw failure;
            return { results: (body.requestIds || []).map((requestId) => ({ requestId, released: true })) };
          };
          const set = session._locks.set.bind(session._locks);
          session._locks.set = (id, lock) => {
            locks.push(lock);
            return set(id, lock);
          };
          const [lock, other] = [await session.acquire('n'), await session.acquire('m')];
          let done = false;
          const quiet = (p) => Promise.resolve(p).then(() => {}, (e) => assert.ok(e instanceof PawldError || e instanceof LockLost, e));
          const ended = quiet(end(session, lock)).then(() => { done = true; });
          let acting;
          for (awaits = 0; !done; awaits++) {
            if (awaits === at) acting = quiet(act(session, lock, other));
            look();
            assert.ok(awaits < 10000);
            await null; // one turn of everybody else's
          }
          await ended;
          await acting;
          look();
          await quiet(session.close());
          assert.ok(!locks.some((l) => l.held()));
          if (failures !== RELEASES['is refused']) assert.deepStrictEqual([...daemon.rows.keys()], []);
        }
        assert.ok(awaits > 4);
      }
    }));
  }
}

const GIVEN_UP = {
  'its time is over': [waiting, 'TimeoutError'],
  'its time is over, and pawld is silent': [function silent(body) {
    this.queue.add(body.requestId);
    return never();
  }, 'PawldError'],
  'its time is over, and its answers are lost': [function lost(body) {
    this.Acquire(body);
    throw AWAY;
  }, 'PawldError'],
  'it is refused': [function refused(body) {
    this.queue.add(body.requestId);
    throw new PawldError('permission_denied', 'no');
  }, 'PawldError'],
  'its answer is malformed': [function malformed(body) {
    this.Acquire(body);
    return { state: 'HELD' };
  }, 'PawldError'],
  'its validity has ended when its answer comes': [function late(body) {
    this.Acquire(body);
    return { state: 'HELD', lock: { ...held(body.requestId), validForMs: '0' } };
  }, 'LockLost'],
  'it was lost': [(body) => ({ state: 'LOST', lock: { requestId: body.requestId, state: 'LOST', why: 'EXPIRED' } }), 'LockLost'],
};

for (const [why, [answer, error]] of Object.entries(GIVEN_UP)) {
  for (const [what, release] of Object.entries({ 'is answered': [], 'is answered later': [away, away, away], 'has no answer at first': [never, away, never] })) {
    test(`a wait that was given up leaves nothing held or queued: ${why}, and its release ${what}`, within(async (b) => {
      const [session, daemon] = b.session({ ttl: 10000 });
      daemon.answers.Acquire = answer;
      const left = [...release];
      daemon.answers.Release = (body) => (left.pop() || daemon.Release).call(daemon, body);
      const outcome = await b.outcome(session.acquire('n', { timeout: 2000 }));
      assert.strictEqual(outcome.error.name, error);
      const { requestId } = daemon.calls('Acquire')[0];
      const nothing = () => daemon.rows.size === 0 && daemon.queue.size === 0;
      if (release.length === 0) assert.ok(nothing(), 'where pawld answers, it is given back before the wait ends');
      await b.until(() => nothing() && daemon.free.has(requestId));
      await b.until(() => b.waiting() === 0);
      for (const kept of [session._locks, session._asked, session._waits, session._unwanted]) assert.strictEqual(kept.size, 0);
      assert.ok(daemon.calls('Release').length < 10);
    }));
  }
}
