'use strict';

// How long a call takes, and what it says: node --test test/calls.test.js, in the client's folder.

const assert = require('node:assert');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { afterEach, beforeEach, test } = require('node:test');
const { Session, PawldError } = require('..');

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const held = (id) => ({ requestId: id, state: 'HELD', names: ['n'], token: '5', keys: ['n/1'], validForMs: '60000' });

let dir; // of the socket
let server; // answers as the test says: answers has a function for each call, from body to status and answer
let answers;
let seen; // calls, bodies and headers
let rows; // as Renew lists them
let session;

const LONG = 1000000; // ms, of a TTL with which no call is so late that it is repeated
const options = (more) => ({ socket: path.join(dir, 's'), ttl: 1500, ...more });

/** until waits until want is true: three minutes at most, after which it hangs. */
async function until(want) {
  for (const end = Date.now() + 180000; !want(); await sleep(5)) assert.ok(Date.now() < end, 'it does not happen');
}

beforeEach(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'pawld'));
  seen = [];
  rows = new Map();
  answers = {
    Acquire(body) {
      rows.set(body.requestId, held(body.requestId));
      return [200, { state: 'HELD', lock: held(body.requestId) }];
    },
    async Renew(body) {
      for (const id of body.settled) rows.delete(id);
      await sleep(Math.min(body.waitMs, 400)); // parked
      return [200, { locks: [...rows.values()] }];
    },
    Release(body) {
      for (const id of body.requestIds || []) rows.delete(id);
      return [200, { results: (body.requestIds || []).map((id) => ({ requestId: id, released: true })) }];
    },
  };
  server = http.createServer(async (request, response) => {
    const parts = [];
    for await (const b of request) parts.push(b);
    const body = JSON.parse(Buffer.concat(parts).toString());
    const call = request.url.split('/').pop();
    seen.push({ call, body, headers: request.headers });
    const [status, answer] = await answers[call](body);
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(answer));
  });
  await new Promise((done) => server.listen(path.join(dir, 's'), done));
  session = new Session(options());
});

afterEach(async () => {
  answers.Release = () => [200, { results: [] }];
  await session.close();
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
  fs.rmSync(dir, { recursive: true });
});

// Else a client waits for what it won itself, and was never told.
test('what nobody has is given back while another is waited for', async () => {
  const orphan = '0123456789abcdef'.repeat(2);
  rows.set(orphan, held(orphan));
  answers.Acquire = async (body) => {
    await sleep(body.waitMs);
    return [200, { state: 'WAITING' }];
  };
  const enough = new AbortController();
  const waiting = assert.rejects(session.acquire('n', { signal: enough.signal }), { name: 'AbortError' });
  await until(() => seen.some((s) => s.call === 'Release' && s.body.requestIds[0] === orphan));
  enough.abort();
  await waiting;
});

/** full has Release be refused so often, because a limit is reached; it gives what is left of that. */
function full(times) {
  const refusals = Array(times).fill([429, { code: 'resource_exhausted', message: 'full' }]);
  const release = answers.Release;
  answers.Release = (body) => refusals.pop() || release(body);
  return refusals;
}

// Else the lock is kept until the client's session ends.
test('a release is sent again where a limit is reached', async (t) => {
  const patient = new Session(options({ ttl: LONG }));
  t.after(() => patient.close());
  const lock = await patient.acquire('n');
  let refusals = full(2);
  await lock.release();
  assert.deepStrictEqual(refusals, []);
  await patient.acquire('n');
  refusals = full(2);
  await patient.close();
  assert.deepStrictEqual(refusals, []);
});

test('a release that is refused for good takes no longer than its timeout', async () => {
  const lock = await session.acquire('n');
  answers.Release = () => [429, { code: 'resource_exhausted', message: 'full' }];
  await assert.rejects(lock.release(), { code: 'resource_exhausted' });
});

// Else pawld has forgotten it when the release is sent again, and says that it was not held.
for (const [row, result] of [[null, { released: true }], [{ state: 'LOST', why: 'MAX_HOLD' }, { why: 'MAX_HOLD' }]]) {
  test(`a lock is not settled while its release is unanswered: ${JSON.stringify(result)}`, async () => {
    const patient = new Session(options({ ttl: LONG }));
    const round = patient._round;
    let pauses = 0;
    patient._round = (wait, failed) => {
      wait.pause = async (ms) => {
        await Object.getPrototypeOf(wait).pause.call(wait, ms);
        pauses++;
      };
      return round.call(patient, wait, failed);
    };
    const lock = await patient.acquire('n');
    await patient.acquire('m'); // so that renewals go on
    const renewals = () => seen.filter((s) => s.call === 'Renew' && s.body.session === patient._id);
    const settled = () => renewals().some((s) => s.body.settled.includes(lock.id));
    const renew = answers.Renew;
    answers.Renew = (body) => ([...rows.values()].some((r) => r.state === 'LOST') ? [200, { locks: [...rows.values()] }] : renew(body));
    let renewed; // while the first release is under way
    answers.Release = async () => {
      if (renewed !== undefined) return [200, { results: [settled() ? { why: 'NOT_HELD' } : result] }];
      renewed = 0;
      rows.delete(lock.id);
      if (row) rows.set(lock.id, { ...held(lock.id), ...row });
      const before = renewals().length;
      await until(() => renewals().length >= before + 2);
      await sleep(300);
      renewed = renewals().length - before;
      return [503, { code: 'unavailable', message: 'away' }]; // so that its answer is lost
    };
    let why;
    await lock.release().catch((e) => { why = e.why; });
    assert.strictEqual(why, result.why);
    assert.ok(renewed < 10 + pauses, 'they follow one another without a pause');
    await until(settled);
    answers.Release = () => [200, { results: [] }];
    await patient.close();
  });
}

test('what has waited keeps its position where a limit is reached', async () => {
  session = new Session(options({ ttl: LONG }));
  const refusal = [429, { code: 'resource_exhausted', message: 'full' }];
  const first = [refusal, refusal, [200, { state: 'WAITING' }]];
  const acquire = answers.Acquire;
  answers.Acquire = (body) => first.pop() || acquire(body);
  assert.ok((await session.acquire('n')).held());
  assert.strictEqual(new Set(seen.filter((s) => s.call === 'Acquire').map((s) => s.body.requestId)).size, 1);
  answers.Acquire = () => refusal;
  await assert.rejects(session.acquire('m'), { code: 'resource_exhausted' }); // which has no position
});

// Else it counts as one of its identity's until its TTL ends it.
test('close ends a session that holds nothing', async () => {
  answers.Acquire = () => [200, { state: 'BUSY' }];
  session = new Session(options({ ttl: LONG }));
  assert.strictEqual(await session.tryAcquire('n'), null);
  await session.close();
  const released = () => seen.filter((s) => s.call === 'Release');
  await until(() => released().length > 0);
  for (const s of released()) assert.deepStrictEqual(s.body, { session: session._id });
});

test('close says nothing where there is nothing to end', async () => {
  await session.close();
  assert.deepStrictEqual(seen, []);
  const away = new Session(options({ socket: path.join(dir, 'none') }));
  await assert.rejects(away.acquire('n', { timeout: 0 }), PawldError);
  await away.close();
});

test('a release in a session that has ended finds nothing held', async () => {
  session = new Session(options({ ttl: LONG }));
  const lock = await session.acquire('n');
  answers.Release = () => [200, {}];
  await assert.rejects(lock.release(), { name: 'LockLost' });
});

test('a call takes no longer than its timeout where pawld is silent', async () => {
  const lock = await session.acquire('n');
  answers.Acquire = answers.Release = () => new Promise(() => {});
  await assert.rejects(session.acquire('m', { timeout: 300 }), PawldError);
  await assert.rejects(session.tryAcquire('m'), PawldError);
  await assert.rejects(lock.release(), PawldError);
  for (const s of seen) assert.match(s.headers['connect-timeout-ms'], /^\d+$/, 'pawld answers in time');
});

test('a call takes no longer than its timeout where the answer trickles in', async () => {
  const sockets = new Set();
  const slow = net.createServer((c) => {
    sockets.add(c);
    c.on('error', () => {});
    c.write('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n');
    const each = setInterval(() => c.write(' '), 50);
    c.on('close', () => { clearInterval(each); sockets.delete(c); });
  });
  await new Promise((done) => slow.listen(path.join(dir, 'slow'), done));
  const other = new Session(options({ socket: path.join(dir, 'slow') }));
  await assert.rejects(other.acquire('n', { timeout: 300 }), PawldError);
  await other.close();
  for (const c of sockets) c.destroy();
  await new Promise((done) => slow.close(done));
});

test('a token that no header can have is refused, and not shown', () => {
  for (const token of ['secret-secret-secret\n', 'secret-secret\r\nX: y', ' secret-secret-secret', 'secret-secret\u20acsecret', 'secret\0secret']) {
    assert.throws(() => new Session(options({ token })), (e) => {
      assert.strictEqual(e.code, 'invalid_argument');
      assert.doesNotMatch(e.stack.split('\n')[0], /secret/);
      return true;
    });
  }
  new Session(options({ token: '0123456789abcdef~!+/=' }));
});

test('bind is asked for where it is wanted, and nowhere else', async () => {
  for (const bind of [undefined, true]) {
    session = new Session(options({ ttl: LONG, bind }));
    await session.acquire('n');
    await session.close();
  }
  assert.deepStrictEqual(seen.filter((s) => s.call === 'Acquire').map((s) => s.body.bind), [undefined, true]);
});
