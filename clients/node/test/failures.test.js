'use strict';

// Answers that are malformed, failures that pass and those that cannot: node --test
// test/failures.test.js, in the client's folder.

const assert = require('node:assert');
const dns = require('node:dns');
const { EventEmitter } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const https = require('node:https');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { Session, PawldError } = require('..');
const { AWAY, held, within } = require('./bubble.js');

const timeout = 180000; // ms, after which a test that waits for an event has failed
const ok = (text) => `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`;
const hostile = '{"toString":1,"valueOf":1}'; // what String throws for

const lock = (more) => ({ ...held('x'), ...more });
const LOCKS = [undefined, null, 5, 'HELD', [], {}, lock({ requestId: 5 }), lock({ token: undefined }), lock({ token: 'x' }), lock({ token: '0' }), lock({ token: '-5' }),
  lock({ token: 5.5 }), lock({ token: ['5'] }), lock({ token: JSON.parse(hostile) }), lock({ keys: undefined }), lock({ keys: 'n/1' }), lock({ keys: [] }),
  lock({ validForMs: 'soon' }), lock({ validForMs: '-1' }), lock({ validForMs: JSON.parse(hostile) }), lock({ slot: 'x' }), { requestId: 'x', state: 'LOST', why: JSON.parse(hostile) }];
const MALFORMED = {
  Acquire: [undefined, null, [], {}, { state: 5 }, { state: 'GONE' }, { state: 'HELD', lock: { requestId: 'x', state: 'LOST' } },
    ...LOCKS.map((l) => ({ state: 'HELD', lock: l })), { state: 'LOST' }, { state: 'LOST', lock: LOCKS[LOCKS.length - 1] }],
  Renew: [undefined, null, [], { locks: 5 }, { locks: null }, ...LOCKS.slice(1).map((l) => ({ locks: [l] }))],
  Confirm: [undefined, null, [], {}, ...LOCKS.map((l) => ({ lock: l }))],
  Proclaim: [undefined, null, [], {}, ...LOCKS.map((l) => ({ lock: l }))],
  Release: [undefined, null, [], { results: 5 }, { results: null }, { results: [5] }, { results: [null] }, { results: [{ why: JSON.parse(hostile) }] }],
};
const BY = {
  Acquire: (session) => session.acquire('m'),
  Confirm: (session, l) => l.confirm(),
  Proclaim: (session, l) => l.proclaim('v'),
  Release: (session, l) => l.release(),
};

for (const [method, call] of Object.entries(BY)) {
  test(`a malformed answer is refused at once, and ends nothing else: ${method}`, within(async (b) => {
    for (const answer of MALFORMED[method]) {
      const [session, daemon] = b.session();
      const mine = (await b.outcome(session.acquire('n'))).value;
      const other = (await b.outcome(session.acquire('o'))).value;
      daemon.answers[method] = () => answer;
      const { error } = await b.outcome(call(session, mine), { still: true });
      assert.ok(error instanceof PawldError, `${JSON.stringify(answer)}: ${error}`);
      assert.strictEqual(error.code, 'unimplemented');
      assert.ok(other.held());
      delete daemon.answers[method];
      await b.outcome(session.close());
      assert.strictEqual(daemon.rows.size, 0);
    }
  }));
}

test('renewals go on, whatever is answered', within(async (b) => {
  const [session, daemon] = b.session();
  const renew = daemon.answers.Renew;
  const left = [...MALFORMED.Renew, ...MALFORMED.Renew.map(() => null), new PawldError('unknown', 'what'), new TypeError('what'), null];
  daemon.answers.Renew = (body) => {
    if (left.length === 0) return renew(body);
    const answer = left.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const mine = (await b.outcome(session.acquire('n'))).value;
  await b.until(() => left.length === 0);
  const before = daemon.calls('Renew').length;
  await b.until(() => daemon.calls('Renew').length > before + 2);
  assert.ok(mine.held());
  await b.outcome(session.close());
}));

/** folder is one for a test. */
function folder(t) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'pawld'));
  t.after(() => fs.rmSync(dir, { recursive: true }));
  return dir;
}

/** serve starts a server, and gives its port. */
async function serve(t, server, at = 0) {
  await new Promise((done) => { server.listen(at, done); });
  t.after(() => server.close());
  return server.address().port;
}

/** raw answers a request with text, and the next one with the next text; the last one again. */
function raw(...texts) {
  return net.createServer((c) => {
    c.on('error', () => {});
    let request = '';
    c.on('data', (part) => {
      request += part;
      if (request.endsWith('}')) c.end(texts.length > 1 ? texts.shift() : texts[0]);
    });
  });
}

/** refused gives the code with which a session's acquire rejects. A call that is sent again is a mistake. */
async function refused(options) {
  const session = new Session({ ttl: 1000000, ...options });
  session._giveUp = async () => {}; // which waits for a moment alone, and may be late
  const again = new Promise((_, reject) => { session.on('unavailable', reject); });
  const { code, message } = await Promise.race([session.acquire('n'), again]).catch((e) => e);
  await session.close();
  assert.notStrictEqual(code, 'unavailable', `it is tried again: ${message}`);
  return code;
}

const REPLIES = {
  'another protocol': 'SSH-2.0-OpenSSH_9.6\r\n',
  'no JSON': ok('hello'),
  'JSON of no object': ok('5'),
  'a list': ok('[]'),
  'no body': 'HTTP/1.1 204 No Content\r\n\r\n',
  'a page that is not there': 'HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno',
  'a redirection': 'HTTP/1.1 302 Found\r\nLocation: http://pawld.example\r\nContent-Length: 0\r\n\r\n',
  'another protocol from now on': 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
  'an error without a code': ok('{"message":"no"}').replace('200', '400'),
  'an error with a hostile code': ok(`{"code":${hostile}}`).replace('200', '500'),
};
for (const [what, text] of Object.entries(REPLIES)) {
  test(`what answers is not pawld: ${what}`, { timeout }, async (t) => {
    const port = await serve(t, raw(text));
    assert.strictEqual(await refused({ url: `http://127.0.0.1:${port}` }), 'unimplemented');
  });
}

test('a hostile message ends no process', { timeout }, async (t) => {
  const port = await serve(t, raw(ok(`{"code":"invalid_argument","message":${hostile}}`).replace('200', '400')));
  assert.strictEqual(await refused({ url: `http://127.0.0.1:${port}` }), 'invalid_argument');
});

for (const [what, at] of Object.entries({
  'that is too long': (dir) => path.join(dir, 'x'.repeat(200)),
  'that Node would cut': (dir) => path.join(dir, 'x'.repeat(107 - dir.length)),
  'with a NUL': (dir) => path.join(dir, '\0s'),
  'that is empty': () => '',
  'of a file': (dir) => path.join(dir, 'file'),
  'of a folder': (dir) => dir,
  'below a file': (dir) => path.join(dir, 'file', 's'),
})) {
  test(`a path that is no socket's is refused at once: one ${what}`, { timeout }, async (t) => {
    const dir = folder(t);
    fs.writeFileSync(path.join(dir, 'file'), '');
    if (what === 'that Node would cut') await serve(t, raw(ok('{"state":"BUSY"}')), path.join(dir, 'x'.repeat(106 - dir.length)));
    assert.strictEqual(await refused({ socket: at(dir) }), 'invalid_argument');
  });
}

// Of other.example, and of no use to anybody.
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgmkM1+SI2qqPvH4GM
zeE1i7fgwoFA+n6SktE//7CMu2ahRANCAARR5jKqjHPS6q1LhiJ6bh9bdM6XERj3
tgR9zzCo1KpAEY4NvdMrCTNHzxMm7FahehF1CamTz1xPm/f8mrJ05sXC
-----END PRIVATE KEY-----
`;
const CERT = `-----BEGIN CERTIFICATE-----
MIIBoTCCAUegAwIBAgIUMjo01hTotwoHVbqpA0YbDAOg4OwwCgYIKoZIzj0EAwIw
GDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTAgFw0yNjExMjYwMjE0MTVaGA8yMTI2
MTEwMjAyMTQxNVowGDEWMBQGA1UEAwwNb3RoZXIuZXhhbXBsZTBZMBMGByqGSM49
AgEGCCqGSM49AwEHA0IABFHmMqqMc9LqrUuGInpuH1t0zpcRGPe2BH3PMKjUqkAR
jg290ysJM0fPEybsVqF6EXUJqZPPXE+b9/yasnTmxcKjbTBrMB0GA1UdDgQWBBSw
jc0rbNcIMDmDzi3L1bFurEmmADAfBgNVHSMEGDAWgBSwjc0rbNcIMDmDzi3L1bFu
rEmmADAPBgNVHRMBAf8EBTADAQH/MBgGA1UdEQQRMA+CDW90aGVyLmV4YW1wbGUw
CgYIKoZIzj0EAwIDSAAwRQIhAJ2XwjDJ6DbnYHRgHAIR8gQxXV1BQqz1Zs8TX68y
I9ifAiBHgYrfbzrYAdMgNnlw+Fyzt+2uogBs24i+Z1YDKcXXlQ==
-----END CERTIFICATE-----
`;
const ca = { ca: CERT };
for (const [what, server, tls, code] of [
  ['of nobody known', { key: KEY, cert: CERT }, {}, 'unauthenticated'],
  ['of another host', { key: KEY, cert: CERT }, ca, 'unauthenticated'],
  ['that is asked of the client', { key: KEY, cert: CERT, requestCert: true, rejectUnauthorized: true }, { ...ca, servername: 'other.example' }, 'unauthenticated'],
  ['that the server has not', {}, ca, 'unimplemented'],
  ['of the client, which is none', { key: KEY, cert: CERT }, { cert: 'x', key: 'y' }, 'invalid_argument'],
]) {
  test(`a certificate that is not accepted is an error at once: one ${what}`, { timeout }, async (t) => {
    const port = await serve(t, https.createServer(server, (request, response) => response.end('{}')));
    assert.strictEqual(await refused({ url: `https://127.0.0.1:${port}`, tls }), code);
  });
}

test('a server without TLS is not pawld', { timeout }, async (t) => {
  const port = await serve(t, raw('HTTP/1.1 400 Bad Request\r\n\r\n'));
  const plain = net.createServer((c) => {
    c.on('error', () => {});
    c.once('data', () => c.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  });
  assert.strictEqual(await refused({ url: `https://127.0.0.1:${await serve(t, plain)}` }), 'unimplemented');
  assert.strictEqual(await refused({ url: `http://127.0.0.1:${port}` }), 'unimplemented');
});

for (const url of ['localhost:1', 'http://a b', 'http://127.0.0.1:99999', 'ftp://127.0.0.1']) {
  test(`an address that is none is refused at once: ${url}`, { timeout }, async () => {
    assert.strictEqual(await refused({ url }), 'invalid_argument');
  });
}

test('a host that is not known is refused at once, and a look-up that failed is repeated', { timeout }, async (t) => {
  const port = await serve(t, raw(ok('{"state":"BUSY"}')));
  const failures = [];
  t.mock.method(dns, 'lookup', (host, options, done) => {
    const code = failures.length > 1 ? failures.pop() : failures[0];
    if (code) done(Object.assign(new Error(code), { code }));
    else done(null, options.all ? [{ address: '127.0.0.1', family: 4 }] : '127.0.0.1', 4);
  });
  failures.push('ENOTFOUND');
  assert.strictEqual(await refused({ url: `http://pawld.example:${port}` }), 'invalid_argument');
  failures.splice(0, 1, undefined, 'EAI_AGAIN');
  assert.strictEqual(await new Session({ url: `http://pawld.example:${port}`, ttl: 1000000 }).tryAcquire('n'), null);
});

for (const [code, want] of [
  ['EACCES', 'permission_denied'], ['EPERM', 'permission_denied'], ['CERT_HAS_EXPIRED', 'unauthenticated'], ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'unauthenticated'],
  ['ENOENT', null], ['ECONNREFUSED', null], ['ECONNRESET', null], ['EPIPE', null], ['ETIMEDOUT', null], ['EHOSTUNREACH', null], ['ENETUNREACH', null], ['EMFILE', null], ['EAI_AGAIN', null],
]) {
  test(`${want ? 'what cannot pass is raised at once' : 'what passes is tried again'}: ${code}`, { timeout }, async (t) => {
    let sent = 0;
    t.mock.method(http, 'request', () => {
      sent++;
      const request = Object.assign(new EventEmitter(), { end() {}, destroy() {} });
      queueMicrotask(() => request.emit('error', Object.assign(new Error(code), { code })));
      return request;
    });
    const session = new Session({ socket: path.join(folder(t), 's'), ttl: 1000000 });
    t.after(() => session.close());
    const heard = new Promise((done) => { session.once('unavailable', done); });
    const wait = session.acquire('n').catch((e) => e.code);
    assert.strictEqual(await Promise.race([wait, heard.then(() => null)]), want);
    if (want) assert.ok(sent <= 2); // and the release of what was given up
  });
}

for (const [what, text] of Object.entries({
  'a connection that ends': '',
  'half an answer': 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{',
  'a proxy without pawld': 'HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno',
  'a proxy that answers in JSON': ok('{"message":"no"}').replace('200', '503'),
  'pawld without etcd': ok('{"code":"unavailable","message":"etcd"}').replace('200', '503'),
})) {
  test(`what passes is tried again and heard of once: ${what}`, { timeout }, async (t) => {
    const port = await serve(t, raw(text, text, ok('{"state":"BUSY"}')));
    const session = new Session({ url: `http://127.0.0.1:${port}`, ttl: 1000000 });
    const events = [];
    session.on('unavailable', (e) => events.push(e.code)).on('available', () => events.push('available'));
    assert.strictEqual(await session.tryAcquire('n'), null);
    await null;
    assert.deepStrictEqual(events, ['unavailable', 'available']);
  });
}

test('a pawld that is started later is found', { timeout }, async (t) => {
  const at = path.join(folder(t), 's');
  const session = new Session({ socket: at, ttl: 1000000 });
  session.once('unavailable', () => serve(t, raw(ok('{"state":"BUSY"}')), at));
  assert.strictEqual(await session.tryAcquire('n'), null);
});

test('what is heard of renewals is each change of what they fail with', within(async (b) => {
  const [session, daemon] = b.session();
  const renew = daemon.answers.Renew;
  const events = [];
  session.on('unavailable', (e) => events.push(e.code)).on('available', () => events.push('available'));
  const full = new PawldError('resource_exhausted', 'full');
  const left = [AWAY, AWAY, full, full, AWAY, new PawldError('unauthenticated', 'no'), AWAY, null, [], AWAY];
  daemon.answers.Renew = (body) => {
    if (left.length === 0) return renew(body);
    const answer = left.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  await b.outcome(session.acquire('n'));
  const heard = ['unavailable', 'resource_exhausted', 'unavailable', 'unauthenticated', 'unavailable', 'unimplemented', 'unavailable', 'available'];
  await b.until(() => left.length === 0 && events.includes('available'));
  assert.deepStrictEqual(events, heard);
  await b.outcome(session.close());
  assert.deepStrictEqual(events, heard);
}));
