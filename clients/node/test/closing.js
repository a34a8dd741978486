'use strict';

// A process that closes its session, for a test: it ends if nothing of the client's is left. What
// plays pawld is in it, and keeps it from nothing.

const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { Session } = require('..');

const { setTimeout: real } = global;
global.setTimeout = (f, ms) => real(f, ms < 1000 ? ms : ms * 1000);

const held = (requestId) => ({ requestId, state: 'HELD', token: '5', keys: ['n/1'], validForMs: '60000' });
const closed = (e) => {
  if (e.code !== 'closed') throw e;
};

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'pawld'));
const session = new Session({ socket: path.join(dir, 's'), ttl: 2000000 });
const silent = new Set(); // the calls that are not answered
const awaited = new Map(); // calls, and what to do when one has come
const came = (call) => new Promise((done) => { awaited.set(call, done); });

const server = http.createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    const call = request.url.split('/').pop();
    const body = JSON.parse(Buffer.concat(parts).toString());
    if (awaited.has(call)) awaited.get(call)();
    if (silent.has(call)) return;
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(call === 'Acquire' ? { state: 'HELD', lock: held(body.requestId) } : {}));
  });
});
server.on('connection', (connection) => connection.unref());

const CASES = {
  async held() {
    silent.add('Renew');
    const renewed = came('Renew');
    await session.acquire('n');
    await renewed;
    await session.close();
  },
  async waiting() {
    silent.add('Acquire');
    const asked = came('Acquire');
    const wait = session.acquire('n').catch(closed);
    await asked;
    await Promise.all([session.close(), wait]);
  },
  async confirm() {
    silent.add('Renew').add('Confirm');
    const lock = await session.acquire('n');
    const asked = came('Confirm');
    const query = lock.confirm().catch(closed);
    await asked;
    await Promise.all([session.close(), query]);
  },
  async 'given up'() {
    silent.add('Acquire').add('Release');
    await session.acquire('n', { timeout: 0 }).catch((e) => {
      if (e.code !== 'unavailable') throw e;
    });
    await came('Release'); // in the background
    silent.clear();
    await session.close();
  },
  async 'without pawld'() {
    await new Promise((done) => { server.close(done); });
    const failed = new Promise((done) => { session.once('unavailable', done); });
    const wait = session.acquire('n').catch(closed);
    await failed;
    await Promise.all([session.close(), wait]);
  },
  async nothing() {
    await session.close();
  },
};

let done = false;
process.on('exit', (code) => {
  fs.rmSync(dir, { recursive: true });
  process.exitCode = code || (done ? 0 : 1);
});
server.listen(path.join(dir, 's'), async () => {
  server.unref();
  await CASES[process.argv[2]]();
  done = true;
});
