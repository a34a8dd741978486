'use strict';

// How long a lock is believed in, on clocks that stand still unless a test sets them: node
// test/session.test.js, in the client's folder.

const assert = require('assert');
const fs = require('fs');
const http = require('http');
const os = require('os');
const path = require('path');
const { test } = require('node:test');

const { Session, LockLost, PawldError } = require('..');

const VALID = 60000; // what held says
const TTL = 40000; // so long that a slow machine ends no request
const AWAY = [503, { code: 'unavailable', message: 'away' }];
const held = (requestId) => ({ requestId, state: 'HELD', names: ['n'], token: '5', keys: ['n/1'], validForMs: String(VALID) });

/** World is a daemon that answers as the test says, both clocks, and a client. */
class World {
  constructor() {
    this.steady = 1000000; // ms
    this.wall = 1000000;
    this.seen = []; // calls and bodies
    this.awaited = [];
    this.renewed = 0; // how many answers to Renew were taken in
    this.answers = {
      Acquire: (body) => [200, { state: 'HELD', lock: held(body.requestId) }],
      Renew: () => AWAY,
      Release: () => AWAY,
    };
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'pawld'));
    this.server = http.createServer((request, response) => {
      const parts = [];
      request.on('data', (b) => parts.push(b));
      request.on('end', () => {
        const call = request.url.split('/').pop();
        const body = JSON.parse(Buffer.concat(parts).toString());
        this.seen.push([call, body]);
        const [status, answer] = this.answers[call](body);
        response.writeHead(status, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify(answer));
        this.look();
      });
    });
  }

  look() {
    for (const look of this.awaited) look();
  }

  /** begin makes a session whose rounds of renewals are counted. */
  begin() {
    this.session = new Session({ socket: path.join(this.dir, 's'), ttl: TTL });
    const round = this.session._round;
    this.session._round = async (...args) => {
      const pause = await round.apply(this.session, args);
      this.renewed++;
      this.look();
      return pause;
    };
  }

  passBy(ms) {
    this.steady += ms;
    this.wall += ms;
  }

  /** late answers once, after ms, and then no more. */
  late(ms, answer) {
    const answers = [answer];
    return () => {
      if (answers.length === 0) return AWAY;
      this.passBy(ms);
      return [200, answers.pop()];
    };
  }

  count(call) {
    return this.seen.filter(([c]) => c === call).length;
  }

  /** until waits for a request, or an answer to Renew that was taken in, after which done gives true. */
  until(done) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error('no such request came')), 180000);
      this.awaited.push(() => {
        if (!done()) return;
        clearTimeout(late);
        resolve();
      });
    });
  }

  /** renewals waits until the answers to n more were taken in. The first may have been given before, and all others were sent since. */
  renewals(n) {
    const want = this.renewed + n;
    return this.until(() => this.renewed >= want);
  }
}

/** within runs f with a world of its own. */
const within = (f) => async () => {
  const w = new World();
  await new Promise((done) => w.server.listen(path.join(w.dir, 's'), done));
  const clocks = [process.hrtime.bigint, Date.now];
  process.hrtime.bigint = () => BigInt(Math.round(w.steady * 1000)) * 1000n;
  Date.now = () => w.wall;
  w.begin();
  try {
    await f(w);
  } finally {
    w.answers.Release = () => [200, { results: [{ released: true }] }];
    await w.session.close();
    [process.hrtime.bigint, Date.now] = clocks;
    w.server.close();
    fs.rmSync(w.dir, { recursive: true });
  }
};

for (const clock of ['steady', 'wall']) {
  test(`a validity ends at the instant by the clock that ran further: ${clock}`, within(async (w) => {
    const lock = await w.session.acquire('n');
    w[clock] += VALID - 1;
    lock.check();
    w[clock] += 1;
    assert.throws(() => lock.check(), LockLost);
  }));
}

test('what has ended stays ended', within(async (w) => {
  const lock = await w.session.acquire('n');
  w.passBy(VALID);
  assert.equal(lock.held(), false);
  w.answers.Renew = () => [200, { locks: [held(lock.id)] }];
  await w.renewals(2);
  assert.equal(lock.held(), false);
}));

test('an answer that comes when it is over is too late', within(async (w) => {
  const lock = await w.session.acquire('n');
  w.answers.Renew = w.late(VALID, { locks: [{ ...held(lock.id), validForMs: '120000' }] });
  await w.renewals(1);
  assert.equal(lock.held(), false);
}));

test('a validity counts from before Acquire was sent', within(async (w) => {
  w.answers.Acquire = (body) => {
    w.passBy(50000);
    return [200, { state: 'HELD', lock: held(body.requestId) }];
  };
  const lock = await w.session.acquire('n');
  w.passBy(9999);
  assert.equal(lock.held(), true);
  w.passBy(1);
  assert.equal(lock.held(), false);
}));

test('a validity counts from before Renew was sent', within(async (w) => {
  const lock = await w.session.acquire('n');
  w.answers.Renew = w.late(50000, { locks: [held(lock.id)] });
  await w.renewals(1);
  w.passBy(10000);
  assert.equal(lock.held(), false);
}));

test('a validity counts from before Confirm was sent', within(async (w) => {
  const lock = await w.session.acquire('n');
  w.passBy(30000);
  w.answers.Confirm = w.late(20000, { lock: held(lock.id) });
  await lock.confirm();
  w.passBy(39999);
  assert.equal(lock.held(), true);
  w.passBy(1);
  assert.equal(lock.held(), false);
}));

test('an answer extends a validity and never shortens it', within(async (w) => {
  const lock = await w.session.acquire('n');
  w.answers.Renew = () => [200, { locks: [{ ...held(lock.id), validForMs: '1000' }] }];
  await w.renewals(2);
  w.passBy(VALID - 1);
  assert.equal(lock.held(), true);
}));

test('what an answer does not list is not held', within(async (w) => {
  const lock = await w.session.acquire('n');
  const other = await w.session.acquire('m');
  w.answers.Renew = () => [200, { locks: [held(other.id)] }];
  await w.until(() => w.seen.some(([call, body]) => call === 'Renew' && body.settled.includes(lock.id)) || w.count('Renew') > 50);
  assert.throws(() => lock.check(), { name: 'LockLost', why: 'NOT_HELD' });
  assert.equal(other.held(), true);
}));

for (const [known, rows, result, why] of [
  ['nothing was heard', null, { why: 'NOT_HELD' }, 'EXPIRED'],
  ['pawld has forgotten it', [], { why: 'NOT_HELD' }, 'EXPIRED'],
  ['it was given back', [{ state: 'HELD' }], { released: true }, 'EXPIRED'],
  ['pawld knows more', [{ state: 'LOST', why: 'MAX_HOLD' }], { why: 'MAX_HOLD' }, 'MAX_HOLD'],
]) {
  test(`what ended a validity is said where pawld does not know it: ${known}`, within(async (w) => {
    const lock = await w.session.acquire('n');
    w.passBy(VALID);
    const other = await w.session.acquire('m'); // so that renewals go on
    w.answers.Release = () => [200, { results: [result] }];
    if (rows) {
      w.answers.Renew = () => [200, { locks: [held(other.id), ...rows.map((r) => ({ ...held(lock.id), ...r }))] }];
      await w.renewals(2);
    }
    await assert.rejects(lock.release(), { name: 'LockLost', why });
  }));
}

test('progress that is not answered rejects with nothing while the lock is held', within(async (w) => {
  for (const answer of [[503, { code: 'unavailable' }], [429, { code: 'resource_exhausted' }]]) {
    w.answers.Progress = () => answer;
    const lock = await w.session.acquire('n', { stall: 60000 });
    await lock.progress();
    w.passBy(VALID);
    await assert.rejects(lock.progress(), { name: 'LockLost' });
  }
}));

test('progress extends a validity, and says why a lock is lost', within(async (w) => {
  w.answers.Progress = (body) => [200, { lock: held(body.requestId) }];
  const lock = await w.session.acquire('n', { stall: 60000 });
  w.passBy(VALID - 1);
  await lock.progress();
  w.passBy(VALID - 1);
  assert.ok(lock.held());
  w.answers.Progress = (body) => [200, { lock: { requestId: body.requestId, state: 'LOST', why: 'STALLED' } }];
  for (let i = 0; i < 2; i++) await assert.rejects(lock.progress(), { name: 'LockLost', why: 'STALLED' });
}));

for (const [maxHold, waited, renewed, why, stall = 0, progressed = false] of [
  [TTL, 0, 0, 'MAX_HOLD'],
  [TTL + 1, 0, 0, 'EXPIRED'],
  [TTL + 10000, 0, 10000, 'MAX_HOLD'],
  [TTL + 10001, 0, 10000, 'EXPIRED'],
  [TTL + 10000, 10000, 0, 'EXPIRED'],
  [TTL + 10000, 10000, 10000, 'MAX_HOLD'],
  [0, 0, 0, 'STALLED', TTL],
  [0, 0, 0, 'EXPIRED', TTL + 1],
  [0, 0, 10000, 'EXPIRED', TTL + 5000, true],
  [0, 0, 10000, 'STALLED', TTL + 5000],
  [TTL, 0, 0, 'STALLED', TTL - 1],
  [TTL - 1, 0, 0, 'MAX_HOLD', TTL],
]) {
  test(`what ends a validity of a lock held after ${waited} ms, renewed after ${renewed}, with a limit of ${maxHold}, a stall of ${stall}, progress ${progressed} and a TTL of ${TTL}: ${why}`, within(async (w) => {
    w.answers.Acquire = (body) => {
      w.passBy(waited);
      return [200, { state: 'HELD', lock: held(body.requestId) }];
    };
    w.answers.Progress = (body) => [200, { lock: held(body.requestId) }];
    const lock = await w.session.acquire('n', { maxHold, stall });
    w.passBy(renewed);
    if (progressed) await lock.progress();
    w.answers.Renew = () => [200, { locks: [held(lock.id)] }];
    await w.renewals(2);
    w.passBy(VALID);
    await w.renewals(2);
    assert.throws(() => lock.check(), { name: 'LockLost', why });
    await assert.rejects(lock.release(), { name: 'LockLost', why });
  }));
}

test('it stops believing before a Release is sent', within(async (w) => {
  const lock = await w.session.acquire('n');
  const believed = [];
  w.answers.Release = () => {
    believed.push(lock.held());
    return [200, { results: [{ requestId: lock.id, released: true }] }];
  };
  await lock.release();
  assert.deepEqual(believed, [false]);
}));

test('a lock whose release failed is released again', within(async (w) => {
  const lock = await w.session.acquire('n');
  const rows = [held(lock.id)];
  w.answers.Renew = () => [200, { locks: rows }];
  w.answers.Release = () => [400, { code: 'invalid_argument', message: 'no' }];
  await assert.rejects(() => lock.release(), PawldError);
  const tried = w.count('Release');
  await w.until(() => w.count('Release') > tried);
}));

test('what nobody has is given back, or settled', within(async (w) => {
  const orphan = '0123456789abcdef'.repeat(2);
  const lost = 'fedcba9876543210'.repeat(2);
  const lock = await w.session.acquire('n');
  w.answers.Renew = () => [200, { locks: [held(lock.id), held(orphan), { requestId: lost, state: 'LOST', why: 'EXPIRED' }] }];
  await w.until(() => w.seen.some(([call, body]) => call === 'Release' && body.requestIds && body.requestIds[0] === orphan)
    && w.seen.some(([call, body]) => call === 'Renew' && body.settled.includes(lost)));
}));
