'use strict';

// Strict locks and elections on etcd, through the daemon pawld. A lock is believed in for
// as long as pawld said, counted from before the request that it answered was written. The
// clock is compared at each check, so that the first check after a pause is right.

const http = require('http');
const https = require('https');
const { randomBytes } = require('crypto');

/** A call that was refused, or that pawld or etcd does not answer: code says which. */
class PawldError extends Error {
  constructor(code, message) {
    super(`${code}: ${message}`);
    this.name = 'PawldError';
    this.code = code;
  }
}

/** The lock is not held any more; why says what ended it. */
class LockLost extends Error {
  constructor(lockName, why) {
    super(`lock ${JSON.stringify(lockName)} is not held: ${why}`);
    this.name = 'LockLost';
    this.lockName = lockName;
    this.why = why;
  }
}

/** MARGIN is how much longer than its wait a call may take, for the way there and back. */
const MARGIN = 500;

/** PATIENCE is how long a call without a timeout of its own may take. */
const PATIENCE = 10000;

/** AGAIN are the codes of refusals that pass: pawld, or etcd, is away, or a limit is reached. */
const AGAIN = ['unavailable', 'resource_exhausted'];

const newId = () => randomBytes(16).toString('hex');
const modesOf = (alone, shared) => [...alone.map(() => 'EXCLUSIVE'), ...shared.map(() => 'SHARED')];
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** now reads both clocks, in milliseconds. */
const now = () => ({ steady: Number(process.hrtime.bigint() / 1000n) / 1000, wall: Date.now() });

/** since is the larger of what they show to have passed. */
const since = (later, earlier) => Math.max(later.steady - earlier.steady, later.wall - earlier.wall);

/** One acquisition of a lock or of several at once, or one term of an election. */
class Lock {
  #session;
  #sent = null;
  #valid = 0;
  #ended = '';
  #lost = '';
  #known = null;
  #maxHold;

  constructor(session, id, names, maxHold) {
    this.#session = session;
    this.#maxHold = maxHold;
    this.id = id;
    this.name = names.join(', ');
    this.names = names;
    this.token = 0n;
    this.slot = 0;
    this.keys = [];
  }

  /** held compares the clock, and does no I/O. */
  held() {
    if (!this.#ended && (!this.#sent || since(now(), this.#sent) >= this.#valid)) this.#ended = this.#bound(); // what has ended stays ended
    return this.#ended === '';
  }

  /** bound says what ended the belief, as far as the client can tell: MAX_HOLD if the hold's limit comes before the end of the TTL. */
  #bound() {
    return this.#sent && this.#maxHold && since(this.#sent, this.#known) + this.#session._ttl >= this.#maxHold ? 'MAX_HOLD' : 'EXPIRED';
  }

  /** check throws LockLost unless it is held; it does no I/O. */
  check() {
    if (!this.held()) throw new LockLost(this.name, this.#ended);
  }

  /** confirm asks etcd whether the lock is held. */
  confirm() {
    return this.#query('Confirm', {});
  }

  /** proclaim changes the value of an election's term. */
  proclaim(value) {
    return this.#query('Proclaim', { value: Buffer.from(value).toString('base64') });
  }

  async #query(method, more) {
    this.check();
    const sent = now();
    const { lock } = await this.#session._call(method, { session: this.#session._id, requestId: this.id, ...more }, PATIENCE);
    if (lock.state === 'HELD') this._believe(sent, lock);
    else this._lose(lock.why || 'NOT_HELD');
    this.check();
  }

  /** release gives it back; it rejects with LockLost if it was not held until now. */
  async release() {
    const ended = this.held() ? '' : this.#ended;
    this._end('released'); // before anything is sent
    if (this.#lost) {
      if (this.names.length > 1) await this.#session._free(this.id); // what is left of it
      throw new LockLost(this.name, this.#lost);
    }
    const result = await this.#session._release(this);
    const why = result.why || 'NOT_HELD';
    if (!result.released) throw new LockLost(this.name, why === 'NOT_HELD' ? ended || why : why); // pawld has forgotten it
  }

  _believe(sent, answer) {
    const valid = Number(answer.validForMs || 0);
    const at = now();
    if (!this.#known) {
      this.token = BigInt(answer.token);
      this.keys = answer.keys;
      this.slot = answer.slot || 0;
      this.#known = at;
      [this.#sent, this.#valid] = [sent, valid];
    } else if (this.held() && since(at, sent) - valid < since(at, this.#sent) - this.#valid) {
      [this.#sent, this.#valid] = [sent, valid];
    }
  }

  _end(why) {
    if (!this.#ended) this.#ended = why;
  }

  /** _released reports whether its release has begun. */
  _released() {
    return this.#ended === 'released';
  }

  /** _lose takes what release says. pawld does not know it for ever: then it is what ended the belief. */
  _lose(why) {
    if (this.held()) this._end(why || 'NOT_HELD');
    this.#lost = why || this.#lost || this.#ended;
  }

  /** _knew reports whether it was known to be held when a request was sent. */
  _knew(sent) {
    return this.#known !== null && sent.steady >= this.#known.steady;
  }
}

/** What a process's locks hang on: it renews them. */
class Session {
  constructor({ socket = '/run/pawl/pawld.sock', url, token = '', tls = {}, ttl = 10000, owner = '', bind = false } = {}) {
    if (/[^!-~]/.test(token)) {
      throw new PawldError('invalid_argument', "token has a space, a line's end or another character that no token has: strip what a file has around it");
    }
    this._id = newId();
    this._to = { socket, url, token, tls };
    this._ttl = ttl;
    this._owner = owner;
    this._bind = bind;
    this._locks = new Map();
    this._asked = new Set(); // being acquired
    this._releasing = new Set();
    this._settled = [];
    this._opened = false; // an Acquire was sent
    this._closed = false;
    this._renewing = false;
  }

  /** acquire waits until the lock is held; it rejects with a TimeoutError after timeout ms. */
  acquire(name, { timeout = Infinity, shared = false, maxHold = 0, delay = 0 } = {}) {
    return this._acquire([name], timeout, { mode: shared ? 'SHARED' : 'EXCLUSIVE', maxHoldMs: maxHold, delayMs: delay });
  }

  /** tryAcquire gives null where another holds the lock, or waits for it. */
  tryAcquire(name, { shared = false, maxHold = 0 } = {}) {
    return this._acquire([name], this._ttl, { mode: shared ? 'SHARED' : 'EXCLUSIVE', maxHoldMs: maxHold, try: true });
  }

  /** acquireAll waits until all names are held at once, those of shared together with other readers. */
  acquireAll(names, { shared = [], timeout = Infinity, maxHold = 0 } = {}) {
    return this._acquire([...names, ...shared], timeout, { modes: modesOf(names, shared), maxHoldMs: maxHold });
  }

  /** tryAcquireAll gives null where one of the names is not free: all of them or none. */
  tryAcquireAll(names, { shared = [], maxHold = 0 } = {}) {
    return this._acquire([...names, ...shared], this._ttl, { modes: modesOf(names, shared), maxHoldMs: maxHold, try: true });
  }

  /** acquireSlot waits until one of a semaphore's limit slots is held: lock.slot says which. */
  acquireSlot(name, limit, { timeout = Infinity, maxHold = 0 } = {}) {
    return this._acquire([name], timeout, { mode: 'SEMAPHORE', limit, maxHoldMs: maxHold });
  }

  /** tryAcquireSlot gives null where no slot is free, or others wait for one. */
  tryAcquireSlot(name, limit, { maxHold = 0 } = {}) {
    return this._acquire([name], this._ttl, { mode: 'SEMAPHORE', limit, maxHoldMs: maxHold, try: true });
  }

  /** campaign waits until it leads: the Lock is its term. */
  campaign(name, value = '', { timeout = Infinity } = {}) {
    return this._acquire([name], timeout, { mode: 'ELECTION', value: Buffer.from(value).toString('base64') });
  }

  /** withLock runs f under the lock, and releases it. */
  async withLock(name, options, f) {
    const lock = await this.acquire(name, options);
    let result;
    try {
      result = await f(lock);
    } catch (e) {
      await lock.release().catch(() => {}); // f's own error is the one to report
      throw e;
    }
    await lock.release();
    return result;
  }

  async _acquire(names, timeout, more) {
    const lock = new Lock(this, newId(), names, more.maxHoldMs);
    const body = { session: this._id, requestId: lock.id, names, owner: this._owner, ttlMs: this._ttl, ...more };
    if (this._bind) body.bind = true;
    const end = now().steady + timeout;
    this._asked.add(lock.id);
    this._opened = true;
    let passing = ['unavailable'];
    try {
      for (;;) {
        const left = Math.max(Math.min(end - now().steady, this._ttl / 2), 0);
        const sent = now();
        let answer;
        try {
          answer = await this._call('Acquire', { ...body, waitMs: Math.floor(left) }, left + MARGIN);
        } catch (e) {
          if (!passing.includes(e.code) || now().steady >= end) throw e;
          await sleep(100);
          continue;
        }
        if (answer.state === 'HELD') {
          lock._believe(sent, answer.lock);
          this._keep(lock);
          lock.check();
          return lock;
        }
        if (answer.state === 'BUSY') return null;
        if (answer.state === 'LOST') throw new LockLost(lock.name, answer.lock.why || 'NOT_HELD');
        passing = AGAIN; // a limit is no reason to give the position up
        if (!this._renewing && !this._closed) this._renew(); // what an earlier acquisition won, and never learned of, may be in the way
        if (now().steady >= end) {
          const late = new Error(`lock ${JSON.stringify(lock.name)}: not held after ${timeout} ms`);
          late.name = 'TimeoutError';
          throw late;
        }
      }
    } catch (e) {
      lock._end('given up');
      this._locks.delete(lock.id);
      await Promise.race([this._free(lock.id), sleep(MARGIN / 2)]); // where pawld answers, it is done when this returns
      throw e;
    } finally {
      this._asked.delete(lock.id);
    }
  }

  _keep(lock) {
    if (this._closed) throw new PawldError('invalid_argument', 'the session is closed');
    this._locks.set(lock.id, lock);
    if (!this._renewing) this._renew();
  }

  async _renew() {
    this._renewing = true;
    while ((this._locks.size > 0 || this._asked.size > 0) && !this._closed) {
      const settled = this._settled;
      this._settled = [];
      const wait = this._ttl / 4;
      const sent = now();
      let answer;
      try {
        answer = await this._call('Renew', { session: this._id, waitMs: Math.floor(wait), settled }, wait + this._ttl / 4);
      } catch (e) {
        if (AGAIN.includes(e.code)) this._settled = settled.concat(this._settled);
        await sleep(Math.min(100, this._ttl / 20));
        continue;
      }
      const listed = new Map((answer.locks || []).map((l) => [l.requestId, l]));
      let unparked = listed.size === 0; // pawld parks no Renew of a session that it does not know
      for (const [id, seen] of listed) {
        if (this._locks.has(id) || this._asked.has(id)) continue;
        if (seen.state === 'HELD') this._free(id); // won, and its answer, or its release, was lost
        else this._settle(id); // as long as it is not settled, pawld parks no Renew
      }
      for (const [id, lock] of [...this._locks]) {
        const seen = listed.get(id);
        if (seen && seen.state === 'HELD') {
          lock._believe(sent, seen);
          if (!lock.held()) { // its belief has ended, or its release failed
            if (!lock._released()) lock._lose('');
            this._free(id);
          }
        } else if (seen || lock._knew(sent)) {
          if (!lock._released()) lock._lose((seen && seen.why) || ''); // otherwise Release says what became of it
          if (!this._releasing.has(id)) this._settle(id); // its answer may be lost, and sent again it must find what it did
          else if (seen) unparked = true;
        }
      }
      if (unparked) await sleep(Math.min(100, this._ttl / 20));
    }
    this._renewing = false;
  }

  _settle(id) {
    this._locks.delete(id);
    this._settled = this._settled.concat(id).slice(-100);
  }

  async _release(lock) {
    this._releasing.add(lock.id);
    try {
      const { results = [] } = await this._callRelease({ session: this._id, requestIds: [lock.id] }, this._ttl);
      this._settle(lock.id);
      return results[0] || {}; // of a session that has ended there are none
    } finally {
      this._releasing.delete(lock.id);
    }
  }

  /** _callRelease calls again where pawld is away, or at a limit: until then another waits for what is kept. */
  async _callRelease(body, timeout) {
    const end = now().steady + timeout;
    for (;;) {
      try {
        return await this._call('Release', body, Math.max(end - now().steady, 0) + MARGIN);
      } catch (e) {
        if (!AGAIN.includes(e.code) || now().steady >= end) throw e;
        await sleep(100);
      }
    }
  }

  /** _free releases what nobody believes in. Where that is lost, the next Renew lists it. */
  _free(id) {
    return this._call('Release', { session: this._id, requestIds: [id] }, 1000).catch(() => {});
  }

  /** close gives everything back. */
  async close() {
    if (this._closed) return;
    this._closed = true;
    const locks = [...this._locks.values()];
    this._locks.clear();
    for (const lock of locks) lock._end('the session was closed');
    if (locks.length > 0) await this._callRelease({ session: this._id }, this._ttl);
    else if (this._opened) await this._callRelease({ session: this._id }, MARGIN).catch(() => {}); // it counts until it ends; where pawld is away, its TTL ends it
  }

  /** _call is one request on a connection of its own, which takes no longer than timeout. */
  _call(method, body, timeout) {
    const { socket, url, token, tls } = this._to;
    const text = JSON.stringify(body);
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text), 'Connect-Timeout-Ms': Math.floor(timeout) };
    if (token) headers.Authorization = `Bearer ${token}`;
    const options = { method: 'POST', headers, agent: false };
    const path = `/pawl.v1.Locks/${method}`;
    return new Promise((resolve, reject) => {
      const fail = (e) => reject(new PawldError('unavailable', `pawld does not answer: ${e.message}`));
      const receive = (response) => {
        const parts = [];
        response.on('data', (b) => parts.push(b));
        response.on('error', fail);
        response.on('end', () => {
          let answer;
          try {
            answer = JSON.parse(Buffer.concat(parts).toString());
          } catch (e) {
            fail(e);
            return;
          }
          if (response.statusCode === 200) resolve(answer);
          else reject(new PawldError(answer.code || 'unknown', answer.message || ''));
        });
      };
      const request = url
        ? (url.startsWith('https:') ? https : http).request(url + path, { ...options, ...tls }, receive)
        : http.request({ ...options, socketPath: socket, host: 'pawl', path }, receive);
      request.on('error', fail);
      const late = setTimeout(() => request.destroy(new Error(`not within ${timeout} ms`)), timeout); // of all of it: request's own begins again with each byte
      request.on('close', () => clearTimeout(late));
      request.end(text);
    });
  }
}

module.exports = { Session, Lock, LockLost, PawldError };
