'use strict';

// A session in a world of the test's own: its clocks stand still while anything can run, and
// then step to the next timer. A daemon answers there, without a connection. What waits for
// nothing that can come is found at once.

const assert = require('node:assert');
const { Session, PawldError } = require('..');

const AWAY = new PawldError('unavailable', 'away');
const held = (requestId) => ({ requestId, state: 'HELD', token: '5', keys: ['n/1'], validForMs: '3000000' });

/** Daemon is the session's transport. answers has a function for some calls; the others are answered as pawld would, at once. */
class Daemon {
  constructor() {
    this.answers = {};
    this.seen = []; // calls and bodies
    this.rows = new Map(); // as Renew lists them
    this.free = new Set(); // what others may hold now
    this.queue = new Set(); // who waits
    this.ended = false; // the session
  }

  async send(method, body) {
    this.seen.push([method, body]);
    return (this.answers[method] || this[method]).call(this, body);
  }

  Acquire(body) {
    if (this.ended || this.free.has(body.requestId)) throw new PawldError('failed_precondition', 'it was released');
    this.queue.delete(body.requestId);
    this.rows.set(body.requestId, held(body.requestId));
    return { state: 'HELD', lock: held(body.requestId) };
  }

  Renew(body) {
    for (const id of body.settled) this.rows.delete(id);
    return { locks: [...this.rows.values()] };
  }

  Confirm(body) {
    return { lock: held(body.requestId) };
  }

  Proclaim(body) {
    return { lock: held(body.requestId) };
  }

  Release(body) {
    this.ended = this.ended || !body.requestIds;
    const ids = body.requestIds || [...this.rows.keys(), ...this.queue];
    for (const id of ids) {
      this.free.add(id);
      this.queue.delete(id);
      this.rows.delete(id);
    }
    return { results: ids.map((requestId) => ({ requestId, released: true })) };
  }

  calls(method) {
    return this.seen.filter(([m]) => m === method).map(([, body]) => body);
  }
}

/** never is an answer that does not come. */
const never = () => new Promise(() => {});

const real = { setTimeout, clearTimeout, hrtime: process.hrtime.bigint, now: Date.now };
const turn = () => new Promise((done) => { setImmediate(done); });

class Bubble {
  constructor() {
    this.now = 1000000; // ms
    this.timers = new Map();
    this.made = 0;
    global.setTimeout = (f, ms) => {
      this.timers.set(++this.made, { f, at: this.now + Math.max(ms, 0) });
      return this.made;
    };
    global.clearTimeout = (id) => this.timers.delete(id);
    process.hrtime.bigint = () => BigInt(Math.round(this.now * 1000)) * 1000n;
    Date.now = () => this.now;
  }

  end() {
    Object.assign(global, { setTimeout: real.setTimeout, clearTimeout: real.clearTimeout });
    process.hrtime.bigint = real.hrtime;
    Date.now = real.now;
  }

  /** session makes one, and its daemon. */
  session(options) {
    const session = new Session({ ttl: 1000, ...options });
    const daemon = new Daemon();
    daemon.park = (body) => new Promise((done) => { this.timers.set(++this.made, { f: done, at: this.now + Math.max(body.waitMs, 1), daemon: true }); });
    daemon.answers.Renew = async (body) => {
      await daemon.park(body);
      return daemon.Renew(body);
    };
    session._send = (method, body, timeout, wait) => wait.run((resolve, reject) => {
      const late = setTimeout(() => reject(new PawldError('unavailable', 'late')), timeout);
      const done = (f) => (x) => {
        clearTimeout(late);
        f(x);
      };
      daemon.send(method, body).then(done(resolve), done(reject));
      return () => clearTimeout(late);
    });
    return [session, daemon];
  }

  /** waiting gives how many timers the client has. */
  waiting() {
    return [...this.timers.values()].filter((t) => !t.daemon).length;
  }

  /** step runs the next timer, and reports whether there was one. */
  async step() {
    await turn();
    const next = [...this.timers].sort(([, a], [, b]) => a.at - b.at)[0];
    if (!next) return false;
    const [id, { f, at }] = next;
    this.timers.delete(id);
    this.now = Math.max(this.now, at);
    f();
    return true;
  }

  /** until runs what can run until done gives true. */
  async until(done) {
    for (let n = 0; ; n++) {
      await turn();
      if (done()) return;
      assert.ok(n < 2000 && await this.step(), 'it does not happen');
    }
  }

  /** outcome gives what becomes of a promise; with still, while the clocks stand. */
  async outcome(promise, { still = false } = {}) {
    let result = null;
    promise.then((value) => { result = { value }; }, (error) => { result = { error }; });
    if (still) {
      await turn();
      assert.ok(result, 'it does not end at once');
    } else await this.until(() => result);
    return result;
  }
}

/** within runs f in a bubble. */
const within = (f) => async () => {
  const bubble = new Bubble();
  try {
    await f(bubble);
  } finally {
    bubble.end();
  }
};

module.exports = { AWAY, held, never, turn, within };
