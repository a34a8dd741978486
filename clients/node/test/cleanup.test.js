'use strict';

// What a cleanup gives back, whatever is aborted meanwhile, and however often it is called: node
// --test test/cleanup.test.js, in the client's folder.

const assert = require('node:assert');
const { test } = require('node:test');
const { LockLost, PawldError } = require('..');
const { AWAY, turn, within } = require('./bubble.js');

const asyncDispose = Symbol.asyncDispose || Symbol.for('Symbol.asyncDispose');

const CLEANUPS = {
  release: (session, lock) => lock.release(),
  close: (session) => session.close(),
  'await using of a lock': (session, lock) => lock[asyncDispose](),
  'await using of a session': (session) => session[asyncDispose](),
  'the end of withLock': (session, lock) => session.withLock('w', {}, () => lock.release()),
  'giving a wait up': (session, lock, signal) => session.acquire('n', { timeout: 0, signal }),
  'the release of several names, one of which was lost': (session, lock) => {
    lock._lose('KEY_DELETED');
    return lock.release();
  },
};

const STATES = { answers: [], 'was away': [AWAY, AWAY] };

for (const [name, clean] of Object.entries(CLEANUPS)) {
  for (const [state, failures] of Object.entries(STATES)) {
    test(`${name} gives back, whenever a signal is aborted, and when it is called again: pawld ${state}`, within(async (b) => {
      for (let ticks = 0; ticks < 40; ticks++) {
        const [session, daemon] = b.session();
        const left = [...failures];
        daemon.answers.Release = (body) => {
          const failure = left.pop();
          if (failure) throw failure;
          return daemon.Release(body);
        };
        const controller = new AbortController();
        const lock = (await b.outcome(session.acquireAll(['n', 'm'], { signal: controller.signal }))).value;
        if (name === 'giving a wait up') {
          daemon.answers.Acquire = async (body) => {
            daemon.queue.add(body.requestId);
            await null;
            return { state: 'WAITING' };
          };
        }
        const quiet = (p) => p.then(() => {}, (e) => assert.ok(e instanceof LockLost || e instanceof PawldError || ['AbortError', 'TimeoutError'].includes(e.name), e));
        const cleaned = quiet(clean(session, lock, controller.signal));
        for (let n = 0; n < ticks; n++) await null;
        controller.abort();
        const again = /close|session/.test(name) ? quiet(session.close()).then(() => assert.ok(daemon.ended, 'a second close ends before all is given back')) : null;
        await b.outcome(cleaned);
        await b.outcome(Promise.resolve(again));
        await b.until(() => daemon.queue.size === 0 && (name === 'giving a wait up' ? daemon.rows.size === 1 : daemon.rows.size === 0));
        assert.strictEqual(lock.held(), name === 'giving a wait up');
        await b.outcome(session.close());
        assert.strictEqual(daemon.rows.size, 0);
      }
    }));
  }
}

test('a close that failed says so once, and not to await using as well', within(async (b) => {
  const [session, daemon] = b.session();
  await b.outcome(session.acquire('n'));
  daemon.answers.Release = () => { throw new PawldError('permission_denied', 'no'); };
  const [first, second] = [session.close(), session[asyncDispose]()];
  assert.strictEqual((await b.outcome(first)).error.code, 'permission_denied');
  assert.strictEqual((await b.outcome(second)).error, undefined);
  await turn();
}));
