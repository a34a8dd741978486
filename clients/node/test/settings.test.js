'use strict';

// A token and options of TLS that change: they are asked for at each call. node --test
// test/settings.test.js, in the client's folder.

const assert = require('node:assert');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { Session } = require('..');
const { never, within } = require('./bubble.js');

const FIRST = 'first-0123456789abcdef';
const SECOND = 'second-0123456789abcdef';

/** served is a server that answers each call, and the tokens that it has seen. */
async function served(t) {
  const seen = [];
  const server = http.createServer((request, response) => {
    seen.push((request.headers.authorization || '').replace('Bearer ', ''));
    request.resume().on('end', () => response.end('{"state": "BUSY"}'));
  });
  await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
  t.after(() => server.close());
  return [`http://127.0.0.1:${server.address().port}`, seen];
}

let now;
const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'pawld')), 'token');
process.on('exit', () => fs.rmSync(path.dirname(file), { recursive: true }));

const SOURCES = {
  'a function': [() => { if (now instanceof Error) throw now; return now; }, (token) => { now = token; }, ['', 'two words', undefined, new Error('no')]],
  'a function that is async': [async () => { if (now instanceof Error) throw now; return now; }, (token) => { now = token; }, ['', 'two words', null, new Error('no')]],
  'a file': [{ file }, (token) => {
    if (token === undefined) fs.unlinkSync(file);
    else fs.writeFileSync(file, `${token}\n`);
  }, ['', 'two words', undefined]],
};

const call = (session) => session._call('Acquire', {}, 100000);

for (const [name, [token, change, bad]] of Object.entries(SOURCES)) {
  test(`a token is asked for at each call, and the last good one counts: ${name}`, async (t) => {
    const [url, seen] = await served(t);
    const session = new Session({ url, token });
    const said = [];
    session.on('unavailable', (e) => said.push(e));
    change(FIRST);
    await call(session);
    change(SECOND);
    await call(session);
    assert.deepStrictEqual(seen, [FIRST, SECOND]);
    for (const wrong of bad) {
      said.length = 0;
      change(wrong);
      await call(session);
      await call(session);
      assert.strictEqual(seen[seen.length - 1], SECOND);
      assert.strictEqual(said.length, 1, 'it is said once');
      assert.ok(!/two words|second-/.test(said[0].message), 'it is a secret');
      change(FIRST);
      await call(session);
      assert.strictEqual(seen[seen.length - 1], FIRST);
      change(SECOND);
      await call(session);
    }
  });

  test(`a token that cannot be used at first is an error: ${name}`, async (t) => {
    const [url, seen] = await served(t);
    for (const wrong of bad) {
      change(FIRST);
      change(wrong);
      await assert.rejects(call(new Session({ url, token })), (e) => e.code === 'invalid_argument' && !e.message.includes('two words'));
    }
    assert.deepStrictEqual(seen, []);
  });
}

test('tls may be a function', async (t) => {
  const { request } = https;
  t.after(() => { https.request = request; });
  const used = [];
  https.request = (url, options) => {
    used.push(options.ca);
    throw Object.assign(new Error('no'), { code: 'ECONNRESET' });
  };
  let ca = 'first';
  for (const tls of [() => ({ ca }), async () => ({ ca })]) {
    used.length = 0;
    const session = new Session({ url: 'https://pawld.example', token: FIRST, tls });
    for (ca of ['first', 'second']) await assert.rejects(call(session), (e) => e.code === 'unavailable');
    assert.deepStrictEqual(used, ['first', 'second']);
  }
  await assert.rejects(call(new Session({ url: 'https://pawld.example', tls: () => 'a path' })), (e) => e.code === 'invalid_argument');
});

test('a function that gives nothing holds up no call beyond its time, and no close', within(async (b) => {
  const { error } = await b.outcome(new Session({ token: never })._call('Renew', {}, 1000));
  assert.strictEqual(error.code, 'unavailable');
  assert.strictEqual(b.waiting(), 0);
  const session = new Session({ token: never });
  const waiting = session.acquire('n');
  waiting.catch(() => {});
  const closing = session.close();
  assert.strictEqual((await b.outcome(waiting)).error.code, 'closed');
  await b.outcome(closing);
  assert.strictEqual(b.waiting(), 0);
}));
