'use strict';

// What a signal ends, await using, and what logs show: node --test test/signal.test.js, in the
// client's folder.

const assert = require('node:assert');
const { getEventListeners } = require('node:events');
const http = require('node:http');
const https = require('node:https');
const { test } = require('node:test');
const util = require('node:util');
const { LockLost, Session } = require('..');
const { AWAY, held, never, turn, within } = require('./bubble.js');

const asyncDispose = Symbol.asyncDispose || Symbol.for('Symbol.asyncDispose');
const away = () => { throw AWAY; };
const waiting = async function waiting(body) {
  this.queue.add(body.requestId);
  await this.park(body);
  return { state: 'WAITING' };
};

const WAITS = {
  acquire: (session, signal) => session.acquire('n', { signal }),
  tryAcquire: (session, signal) => session.tryAcquire('n', { signal }),
  acquireAll: (session, signal) => session.acquireAll(['n', 'm'], { signal }),
  tryAcquireAll: (session, signal) => session.tryAcquireAll(['n', 'm'], { signal }),
  acquireSlot: (session, signal) => session.acquireSlot('n', 2, { signal }),
  tryAcquireSlot: (session, signal) => session.tryAcquireSlot('n', 2, { signal }),
  campaign: (session, signal) => session.campaign('n', 'v', { signal }),
  withLock: (session, signal) => session.withLock('n', { signal }, () => {}),
};

const STATES = {
  'that is not answered': { Acquire: never },
  'in a queue': { Acquire: waiting },
  'without pawld': { Acquire: away },
  'without pawld, also for its Release': { Acquire: away, Release: away },
};

for (const [name, wait] of Object.entries(WAITS)) {
  test(`a signal that is aborted before is enough: ${name}`, within(async (b) => {
    for (const reason of [new Error('stop'), 'stop', null, 0, AWAY]) {
      const [session, daemon] = b.session();
      const { error } = await b.outcome(wait(session, AbortSignal.abort(reason)), { still: true });
      assert.strictEqual(error, reason);
      assert.deepStrictEqual(daemon.seen, []);
      await b.outcome(session.close());
    }
  }));

  for (const [state, answers] of Object.entries(STATES)) {
    test(`a signal ends a wait, and no other: ${name} ${state}`, within(async (b) => {
      for (const reason of [undefined, 'stop', null, AWAY]) {
        const [session, daemon] = b.session();
        Object.assign(daemon.answers, answers);
        const controller = new AbortController();
        const other = session.acquire('other');
        other.catch(() => {});
        const ended = wait(session, controller.signal);
        await turn();
        controller.abort(reason);
        const at = b.now;
        const { error } = await b.outcome(ended);
        assert.strictEqual(error, controller.signal.reason);
        assert.ok(b.now <= at + 250, 'it waits for more than its Release');
        const [, asked] = daemon.calls('Acquire').map((a) => a.requestId);
        assert.ok(daemon.calls('Release').some((r) => r.requestIds.includes(asked)));
        assert.deepStrictEqual([...session._asked.values()].map((l) => l.name), ['other']);
        Object.assign(daemon.answers, { Acquire: daemon.Acquire, Release: daemon.Release });
        await b.until(() => daemon.free.has(asked));
        await b.outcome(session.close());
      }
    }));
  }

  test(`at whatever turn a signal is aborted, what was won is held or given back: ${name}`, within(async (b) => {
    let ended = 0;
    for (let ticks = 0; ticks < 60; ticks++) {
      const [session, daemon] = b.session();
      const controller = new AbortController();
      const promise = wait(session, controller.signal);
      promise.catch(() => {});
      for (let n = 0; n < ticks; n++) await null;
      controller.abort();
      const { value, error } = await b.outcome(promise);
      if (error) {
        ended++;
        assert.strictEqual(error.name, 'AbortError');
        assert.strictEqual(session._locks.size + session._asked.size, 0);
        assert.strictEqual(daemon.rows.size, 0, 'it is held');
      } else if (value) {
        assert.ok(value.held());
        assert.ok(daemon.rows.has(value.id));
      }
      await b.outcome(session.close());
    }
    assert.ok(ended > 3 && ended < 60, `${ended}`);
  }));
}

for (const [name, query] of Object.entries({ confirm: (lock, signal) => lock.confirm({ signal }), proclaim: (lock, signal) => lock.proclaim('v', { signal }) })) {
  test(`a signal ends a query, and not the lock: ${name}`, within(async (b) => {
    const [session, daemon] = b.session();
    const lock = (await b.outcome(session.campaign('n'))).value;
    daemon.answers.Confirm = daemon.answers.Proclaim = never;
    const controller = new AbortController();
    const asked = query(lock, controller.signal);
    await turn();
    controller.abort();
    assert.strictEqual((await b.outcome(asked, { still: true })).error.name, 'AbortError');
    assert.ok(lock.held());
    await b.outcome(session.close());
  }));
}

/** OldSignal is what polyfills have, and Node before 17.2: it has no reason. */
class OldSignal extends EventTarget {
  aborted = false;

  abort() {
    this.aborted = true;
    this.dispatchEvent(new Event('abort'));
  }
}

for (const [name, wait] of Object.entries(WAITS)) {
  for (const when of ['before', 'during']) {
    test(`a signal without a reason rejects with an AbortError: ${name}, aborted ${when} the wait`, within(async (b) => {
      const [session, daemon] = b.session();
      daemon.answers.Acquire = waiting;
      const signal = new OldSignal();
      if (when === 'before') signal.abort();
      const ended = wait(session, signal);
      ended.catch(() => {});
      await turn();
      if (when === 'during') signal.abort();
      const { error } = await b.outcome(ended);
      assert.ok(error instanceof Error);
      assert.deepStrictEqual([error.name, error.code], ['AbortError', 'ABORT_ERR']);
      await b.outcome(session.close());
    }));
  }
}

test('any number of waits have one listener of a signal, and Node warns of none', within(async (b) => {
  const warned = [];
  const warn = (w) => warned.push(w);
  process.on('warning', warn);
  const controller = new AbortController();
  const sessions = [b.session(), b.session()];
  const waits = [];
  for (const [session, daemon] of sessions) {
    daemon.answers.Acquire = waiting;
    for (let n = 0; n < 20; n++) waits.push(session.acquire('n', { signal: controller.signal }));
  }
  await turn();
  assert.strictEqual(getEventListeners(controller.signal, 'abort').length, 1);
  const settled = Promise.allSettled(waits);
  controller.abort();
  const { value } = await b.outcome(settled);
  assert.ok(value.every((w) => w.reason === controller.signal.reason));
  assert.strictEqual(getEventListeners(controller.signal, 'abort').length, 0);
  for (const [session] of sessions) await b.outcome(session.close());
  process.removeListener('warning', warn);
  assert.deepStrictEqual(warned, []);
}));

test('a signal that outlives many waits keeps none of them', within(async (b) => {
  const [session] = b.session();
  const { signal } = new AbortController();
  const listeners = new Set();
  signal.addEventListener = (_, f) => listeners.add(f);
  signal.removeEventListener = (_, f) => listeners.delete(f);
  for (let n = 0; n < 3; n++) await b.outcome(session.withLock('n', { signal }, () => assert.strictEqual(listeners.size, 0)));
  assert.strictEqual(listeners.size, 0);
  await b.outcome(session.close());
}));

test('await using releases a lock once, and says that it was lost', within(async (b) => {
  const [session, daemon] = b.session();
  const dispose = (of) => b.outcome(of[asyncDispose]());
  const lock = (await b.outcome(session.acquire('n'))).value;
  assert.strictEqual((await dispose(lock)).error, undefined);
  assert.ok(daemon.free.has(lock.id) && !lock.held());
  const released = (await b.outcome(session.acquire('n'))).value;
  await b.outcome(released.release());
  const releases = daemon.calls('Release').length;
  assert.strictEqual((await dispose(released)).error, undefined);
  assert.strictEqual(daemon.calls('Release').length, releases, 'it was released before');
  const lost = (await b.outcome(session.acquire('n'))).value;
  daemon.answers.Release = () => ({ results: [{ requestId: lost.id, why: 'KEY_DELETED' }] });
  const { error } = await dispose(lost);
  assert.ok(error instanceof LockLost && error.why === 'KEY_DELETED');
  delete daemon.answers.Release;
  await dispose(session);
  assert.ok(daemon.ended);
}));

test('JSON has a lock and its token, to the last digit', within(async (b) => {
  const [session, daemon] = b.session();
  const token = '9007199254740993'; // no number has it
  daemon.answers.Acquire = (body) => ({ state: 'HELD', lock: { requestId: body.requestId, state: 'HELD', token, keys: ['n/1'], validForMs: '3000000' } });
  const lock = (await b.outcome(session.acquire('n'))).value;
  assert.strictEqual(lock.tokenString, token);
  assert.deepStrictEqual(JSON.parse(JSON.stringify({ lock })).lock, { name: 'n', names: ['n'], token, slot: 0, keys: ['n/1'] });
  await b.outcome(session.close());
}));

test('what is logged of a session has no secret', within(async (b) => {
  const [session] = b.session({ url: 'https://pawld.example', token: 'secret-of-the-token', tls: { key: 'secret-of-the-key' }, owner: 'worker' });
  const lock = (await b.outcome(session.acquire('n'))).value;
  for (const what of [session, lock, { session }]) {
    for (const options of [{}, { showHidden: true, depth: 9 }, { customInspect: false, depth: 9 }]) {
      const text = util.inspect(what, options);
      assert.ok(!text.includes('secret-of') && !text.includes(session._id), text);
    }
    assert.ok(!JSON.stringify(what).includes('secret-of') && !JSON.stringify(what).includes(session._id));
  }
  assert.match(util.inspect(session), /owner: 'worker'.*locks: \[ 'n' \]/s);
  await b.outcome(session.close());
}));

test('a signal ends a query on a socket, and its connection', async (t) => {
  let asked;
  const confirm = new Promise((done) => { asked = done; });
  const server = http.createServer((request, response) => {
    let text = '';
    request.on('data', (part) => { text += part; });
    request.on('end', () => {
      if (request.url.endsWith('/Confirm')) asked(request.socket);
      else if (request.url.endsWith('/Acquire')) response.end(JSON.stringify({ state: 'HELD', lock: held(JSON.parse(text).requestId) }));
      else if (request.url.endsWith('/Release')) response.end('{}');
    });
  });
  t.after(() => server.close());
  await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
  const session = new Session({ url: `http://127.0.0.1:${server.address().port}`, token: '0123456789abcdef', ttl: 1000000 });
  const lock = await session.acquire('n');
  const controller = new AbortController();
  const query = lock.confirm({ signal: controller.signal });
  const gone = new Promise((done) => { confirm.then((socket) => socket.on('close', done)); });
  await confirm;
  const reason = new Error('stop');
  controller.abort(reason);
  await assert.rejects(query, (e) => e === reason);
  await gone;
  await session.close();
});

test('tls goes to https.request as it is, and changes nothing else of a request', async (t) => {
  const { request } = https;
  t.after(() => { https.request = request; });
  const tls = { ca: 'a', cert: ['c'], key: Buffer.from('k'), pfx: 'p', passphrase: 'w', servername: 's', rejectUnauthorized: true, minVersion: 'TLSv1.3', checkServerIdentity() {} };
  let seen;
  https.request = (url, options) => {
    seen = options;
    throw new Error('no');
  };
  const session = new Session({ url: 'https://pawld.example', token: 'of-the-session', tls: { ...tls, method: 'GET', headers: {}, agent: 5 } });
  await assert.rejects(session._call('Renew', {}, 1000));
  for (const [name, value] of Object.entries(tls)) assert.strictEqual(seen[name], value, name);
  assert.deepStrictEqual([seen.method, seen.agent, seen.headers.Authorization], ['POST', false, 'Bearer of-the-session']);
});
