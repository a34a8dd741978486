'use strict';

// Strict locks and elections on etcd, through the daemon pawld. A lock is believed in for
// as long as pawld said, counted from before the request that it answered was written. The
// clock is compared at each check, so that the first check after a pause is right.

const http = require('http');
const https = require('https');
const fs = require('fs');
const { EventEmitter } = require('events');
const { randomBytes } = require('crypto');

/** A call was refused, or pawld or etcd does not answer. code says which. */
class PawldError extends Error {
  constructor(code, message) {
    super(`${code}: ${message}`);
    this.name = 'PawldError';
    this.code = code;
  }
}

/** The lock is no longer held. why says what ended it. */
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

/** PATIENCE is how long a call without a timeout may take. */
const PATIENCE = 10000;

/** AGAIN are the codes of temporary refusals: pawld, or etcd, is away, or a limit is reached. */
const AGAIN = ['unavailable', 'resource_exhausted'];

/** asyncDispose is what await using calls, if Node has it. */
const asyncDispose = Symbol.asyncDispose || Symbol.for('Symbol.asyncDispose');
const inspect = Symbol.for('nodejs.util.inspect.custom');

const newId = () => randomBytes(16).toString('hex');
const modesOf = (alone, shared) => [...alone.map(() => 'EXCLUSIVE'), ...shared.map(() => 'SHARED')];
const closed = () => new PawldError('closed', 'the session is closed');
const notPawld = (why) => new PawldError('unimplemented', `what answers is not pawld: ${why}`);

/** now reads both clocks, in milliseconds. */
const now = () => ({ steady: Number(process.hrtime.bigint() / 1000n) / 1000, wall: Date.now() });

/** since is the larger of what they show to have passed. */
const since = (later, earlier) => Math.max(later.steady - earlier.steady, later.wall - earlier.wall);

/** Aborted is what a signal ends a wait with, until it reaches the caller. Its reason may be anything. */
class Aborted {
  constructor(signal) {
    this.reason = reasonOf(signal);
  }
}

/** reasonOf is why a signal was aborted. Those of polyfills, and of Node before 17.2, do not say. */
function reasonOf(signal) {
  if (signal.reason !== undefined) return signal.reason;
  const e = new Error('This operation was aborted');
  e.name = 'AbortError';
  e.code = 'ABORT_ERR';
  return e;
}

/** LISTENING has what is called when a signal is aborted, of all sessions: each signal has one listener, because Node warns of more than ten. */
const LISTENING = new WeakMap();

/** onAbort calls f once signal is aborted. It returns a function that ends that. */
function onAbort(signal, f) {
  let all = LISTENING.get(signal);
  if (!all) {
    all = new Set();
    all.listener = () => [...all].forEach((g) => g());
    LISTENING.set(signal, all);
    signal.addEventListener('abort', all.listener);
  }
  all.add(f);
  return () => {
    all.delete(f);
    if (all.size > 0 || LISTENING.get(signal) !== all) return;
    LISTENING.delete(signal);
    signal.removeEventListener('abort', all.listener);
  };
}

/** BAD_TOKEN is in a token that no header can have. */
const BAD_TOKEN = /[^!-~]/;

function usableToken(token) {
  if (typeof token !== 'string' || token === '') throw new PawldError('invalid_argument', 'token is empty, or no string');
  if (BAD_TOKEN.test(token)) throw new PawldError('invalid_argument', "token has a space, a line's end or another character that no token has: strip what a file has around it");
  return token;
}

function usableTLS(tls) {
  if (tls === null || typeof tls !== 'object') throw new PawldError('invalid_argument', 'tls is no object');
  return tls;
}

/** asking returns a function that resolves with what ask gives now. Where it fails, or gives what cannot be used, what it gave before counts, and say is called with why. */
function asking(ask, usable, say) {
  let last;
  let failed = false;
  return async () => {
    try {
      last = usable(await ask());
      failed = false;
    } catch (e) {
      if (last === undefined) throw e instanceof PawldError ? e : new PawldError('invalid_argument', e && e.message ? e.message : String(e));
      if (!failed) say(e);
      failed = true;
    }
    return last;
  };
}

/** tokenOf returns what to ask for a token, which may be a string, a function, or { file }. */
function tokenOf(token, say) {
  if (typeof token === 'function') return asking(token, usableToken, say);
  if (token && typeof token === 'object') return asking(async () => (await fs.promises.readFile(token.file, 'utf8')).trim(), usableToken, say);
  const given = token ? usableToken(token) : '';
  return () => given;
}

/** Wait is what one caller waits for, a pause or a request. end ends it, and rejects it with e. */
class Wait {
  #error = null;
  #stop = null;

  end(e) {
    this.#error = e;
    if (this.#stop) this.#stop(e); // of the last run, which may have ended
  }

  check() {
    if (this.#error) throw this.#error;
  }

  /** run resolves with start's result. start gets resolve and reject, and returns a function that stops it. */
  run(start) {
    return new Promise((resolve, reject) => {
      if (this.#error) {
        reject(this.#error);
        return;
      }
      const stop = start(resolve, reject);
      this.#stop = (e) => {
        reject(e);
        stop();
      };
    });
  }

  pause(ms) {
    return this.run((resolve) => {
      const timer = setTimeout(resolve, ms);
      return () => clearTimeout(timer);
    });
  }
}

/** PROXY are the statuses with which a proxy says that pawld does not answer. */
const PROXY = [408, 425, 429, 502, 503, 504];

/** PATH is how many bytes the path of a socket can have. Node cuts off a longer one, and connects to another socket. */
const PATH = process.platform === 'linux' ? 107 : 103;

const REFUSED_BY_TLS = /^ERR_(SSL_.*ALERT|TLS_CERT)|CERT|SELF_SIGNED|UNABLE_TO_(GET_ISSUER|VERIFY)|HOSTNAME_MISMATCH/;

/** failure is the error of a failed call. It is unavailable, unless another call would fail, too. */
function failure(e, { socket, url }) {
  const code = e.code || '';
  const at = url || socket;
  if (code === 'EACCES' || code === 'EPERM') return new PawldError('permission_denied', `${at}: ${e.message}`);
  if (REFUSED_BY_TLS.test(code)) return new PawldError('unauthenticated', `the certificate of pawld, or this one, is not accepted: ${e.message}`);
  if (/^(HPE_|EPROTO|ERR_SSL_)/.test(code) && code !== 'HPE_INVALID_EOF_STATE') return notPawld(e.message);
  if (code === 'ENOTFOUND') return new PawldError('invalid_argument', `host is not known: ${e.message}`);
  if (['EINVAL', 'ENAMETOOLONG', 'ENOTDIR', 'ELOOP', 'ENOTSOCK', 'EPROTOTYPE'].includes(code) || /^ERR_(INVALID|OSSL)/.test(code)) return new PawldError('invalid_argument', `${at}: ${e.message}`);
  if (code === 'ECONNREFUSED' && !url && !isSocket(socket)) return new PawldError('invalid_argument', `${socket} is not a socket`);
  return new PawldError('unavailable', `pawld does not answer: ${e.message}`);
}

function isSocket(path) {
  try {
    return fs.statSync(path).isSocket();
  } catch (e) {
    return true; // it has gone, and may come again
  }
}

/** checked is the answer, if it has the form of method's. */
function checked(method, answer) {
  const want = (ok, what) => {
    if (!ok) throw notPawld(`its answer to ${method} is malformed: ${what}`);
  };
  const isText = (x) => x === undefined || typeof x === 'string';
  const isWhole = (x) => (typeof x === 'string' || typeof x === 'number') && /^\d+$/.test(x); // an int64 is a string in JSON
  const isLock = (l) => {
    want(l && typeof l === 'object' && typeof l.requestId === 'string', 'a lock');
    want(isText(l.why), 'why');
    if (l.state !== 'HELD') return;
    want(isWhole(l.token) && BigInt(l.token) > 0n, 'token');
    want(Array.isArray(l.keys) && l.keys.length > 0, 'keys');
    want(l.validForMs === undefined || isWhole(l.validForMs), 'validForMs');
    want(l.slot === undefined || Number.isInteger(l.slot), 'slot');
  };
  want(answer && typeof answer === 'object' && !Array.isArray(answer), 'no object');
  if (method === 'Acquire') want(['HELD', 'BUSY', 'WAITING', 'LOST'].includes(answer.state), 'state');
  if (['Confirm', 'Proclaim', 'Progress'].includes(method) || answer.state === 'HELD' || answer.state === 'LOST') isLock(answer.lock);
  if (method === 'Acquire') want(answer.state !== 'HELD' || answer.lock.state === 'HELD', 'a lock that is not held');
  for (const list of ['locks', 'results']) want(answer[list] === undefined || Array.isArray(answer[list]), list);
  for (const l of answer.locks || []) isLock(l);
  for (const r of answer.results || []) want(r && typeof r === 'object' && isText(r.why), 'a result');
  return answer;
}

/** One acquisition of a lock or of several at once, or one term of an election. */
class Lock {
  #session;
  #sent = null;
  #valid = 0;
  #ended = '';
  #lost = '';
  #known = null;
  #wanted = null;
  #maxHold;
  #stall;
  #progressed = null;

  constructor(session, id, names, maxHold, stall) {
    this.#session = session;
    this.#maxHold = maxHold;
    this.#stall = stall;
    this.id = id;
    this.name = names.join(', ');
    this.names = names;
    this.token = 0n;
    this.tokenString = '0'; // as JSON can have it
    this.slot = 0;
    this.keys = [];
  }

  /** held compares the clock, and does no I/O. */
  held() {
    if (!this.#ended && (!this.#sent || since(now(), this.#sent) >= this.#valid)) this.#ended = this.#bound(); // what has ended stays ended
    return this.#ended === '';
  }

  /** bound says what ended the validity, as far as the client can tell. That is MAX_HOLD or STALLED if that bound comes before the end of the TTL. */
  #bound() {
    if (!this.#sent) return 'EXPIRED';
    const until = since(this.#sent, this.#known) + this.#session._ttl;
    const stall = this.#stall ? since(this.#progressed || this.#known, this.#known) + this.#stall : Infinity;
    if (this.#maxHold && this.#maxHold <= Math.min(until, stall)) return 'MAX_HOLD';
    return stall <= until ? 'STALLED' : 'EXPIRED';
  }

  /** check throws LockLost unless the lock is held. It does no I/O. */
  check() {
    if (!this.held()) throw new LockLost(this.name, this.#ended);
  }

  /** wanted returns a signal that is aborted once somebody waits behind the lock. It ends nothing. After the first call, the session asks for it. */
  wanted() {
    if (!this.#wanted) this.#wanted = new AbortController();
    return this.#wanted.signal;
  }

  /** confirm asks etcd whether the lock is held. */
  confirm({ signal } = {}) {
    return this.#query('Confirm', {}, signal);
  }

  /** proclaim changes the value of an election's term. */
  proclaim(value, { signal } = {}) {
    return this.#query('Proclaim', { value: Buffer.from(value).toString('base64') }, signal);
  }

  /** progress reports that the work has got something done. It rejects with LockLost unless the lock is held. If pawld does not answer, it does not count. */
  async progress({ signal } = {}) {
    try {
      await this.#query('Progress', {}, signal, MARGIN);
    } catch (e) {
      if (!AGAIN.includes(e.code)) throw e;
      this.check();
    }
  }

  async #query(method, more, signal, timeout = PATIENCE) {
    this.check();
    const sent = now();
    const body = { session: this.#session._id, requestId: this.id, ...more };
    const { lock } = await this.#session._waiting((wait) => this.#session._call(method, body, timeout, wait), signal);
    if (lock.state === 'HELD' && method === 'Progress' && (!this.#progressed || sent.steady > this.#progressed.steady)) this.#progressed = sent;
    if (lock.state === 'HELD') this._believe(sent, lock);
    else this._lose(lock.why || 'NOT_HELD');
    this.check();
  }

  /** release releases the lock. It rejects with LockLost if the lock was lost before. */
  async release() {
    const ended = this.held() ? '' : this.#ended;
    this._end('released'); // before anything is sent
    if (this.#lost) {
      if (this.names.length > 1) await this.#session._giveUp(this.id); // what is left of it
      throw new LockLost(this.name, this.#lost);
    }
    const result = await this.#session._release(this);
    const why = result.why || 'NOT_HELD';
    if (!result.released) throw new LockLost(this.name, why === 'NOT_HELD' ? ended || why : why); // pawld has forgotten it
  }

  /** await using releases it, unless that was begun. */
  async [asyncDispose]() {
    if (!this._released()) await this.release();
  }

  /** toJSON is for logs, because JSON has no bigint. */
  toJSON() {
    return { name: this.name, names: this.names, token: this.tokenString, slot: this.slot, keys: this.keys };
  }

  _believe(sent, answer) {
    const valid = Number(answer.validForMs || 0);
    const at = now();
    if (!this.#known) {
      this.token = BigInt(answer.token);
      this.tokenString = String(this.token);
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

  /** _asks reports whether wanted was called. */
  _asks() {
    return this.#wanted !== null;
  }

  /** _want takes from an answer whether it is wanted. What a listener throws is not handled here. */
  _want(answer) {
    if (this.#wanted && answer.wanted === true) this.#wanted.abort();
  }

  /** _left is for how many more milliseconds the lock is believed in, if nothing extends that. */
  _left() {
    return this.held() ? this.#valid - since(now(), this.#sent) : 0;
  }

  /** _released reports whether its release has begun. */
  _released() {
    return this.#ended === 'released';
  }

  /** _lose takes the reason that release reports. If pawld no longer knows one, that is what ended the validity. */
  _lose(why) {
    if (this.held()) this._end(why || 'NOT_HELD');
    this.#lost = why || this.#lost || this.#ended;
  }

  /** _knew reports whether it was known to be held when a request was sent. */
  _knew(sent) {
    return this.#known !== null && sent.steady >= this.#known.steady;
  }
}

/** A Session is what a process's locks depend on, and renews them. It emits unavailable when pawld is called again, and available when it answers again. */
class Session extends EventEmitter {
  #to; // with the token

  constructor({ socket = '/run/pawl/pawld.sock', url, token = '', tls = {}, ttl = 10000, owner = '', bind = false } = {}) {
    super();
    const say = (e) => queueMicrotask(() => this.emit('unavailable', e));
    Object.defineProperty(this, '_id', { value: newId() }); // a secret, which no log is to have
    this.#to = { socket, url, token: tokenOf(token, say), tls: typeof tls === 'function' ? asking(tls, usableTLS, say) : () => tls };
    this._ttl = ttl;
    this._owner = owner;
    this._bind = bind;
    this._locks = new Map();
    this._asked = new Map(); // being acquired
    this._waits = new Set(); // that close ends
    this._unwanted = new Map(); // to be released; until when that is of use
    this._freeing = false;
    this._away = ''; // the code that calls fail with
    this._releasing = new Set();
    this._settled = [];
    this._opened = false; // an Acquire was sent
    this._closed = false;
    this._closing = null;
    this._renewing = false;
  }

  /** acquire waits until the lock is held. It rejects with a TimeoutError after timeout ms, and with signal's reason once that is aborted. */
  acquire(name, { timeout = Infinity, signal, shared = false, maxHold = 0, stall = 0 } = {}) {
    return this._acquire([name], timeout, signal, { mode: shared ? 'SHARED' : 'EXCLUSIVE', maxHoldMs: maxHold, stallMs: stall });
  }

  /** tryAcquire resolves with null if another holds the lock, or waits for it. */
  tryAcquire(name, { signal, shared = false, maxHold = 0, stall = 0 } = {}) {
    return this._acquire([name], this._ttl, signal, { mode: shared ? 'SHARED' : 'EXCLUSIVE', maxHoldMs: maxHold, stallMs: stall, try: true });
  }

  /** acquireAll waits until all names are held at once, those of shared together with other readers. */
  acquireAll(names, { shared = [], timeout = Infinity, signal, maxHold = 0, stall = 0 } = {}) {
    return this._acquire([...names, ...shared], timeout, signal, { modes: modesOf(names, shared), maxHoldMs: maxHold, stallMs: stall });
  }

  /** tryAcquireAll acquires all of the names or none. It resolves with null if one of them is not free. */
  tryAcquireAll(names, { shared = [], signal, maxHold = 0, stall = 0 } = {}) {
    return this._acquire([...names, ...shared], this._ttl, signal, { modes: modesOf(names, shared), maxHoldMs: maxHold, stallMs: stall, try: true });
  }

  /** acquireSlot waits until one of a semaphore's limit slots is held. lock.slot says which. */
  acquireSlot(name, limit, { timeout = Infinity, signal, maxHold = 0, stall = 0 } = {}) {
    return this._acquire([name], timeout, signal, { mode: 'SEMAPHORE', limit, maxHoldMs: maxHold, stallMs: stall });
  }

  /** tryAcquireSlot resolves with null if no slot is free, or if others wait for one. */
  tryAcquireSlot(name, limit, { signal, maxHold = 0, stall = 0 } = {}) {
    return this._acquire([name], this._ttl, signal, { mode: 'SEMAPHORE', limit, maxHoldMs: maxHold, stallMs: stall, try: true });
  }

  /** campaign waits until it leads. The Lock is its term. */
  campaign(name, value = '', { timeout = Infinity, signal, stall = 0 } = {}) {
    return this._acquire([name], timeout, signal, { mode: 'ELECTION', value: Buffer.from(value).toString('base64'), stallMs: stall });
  }

  /** withLock runs f under the lock, and releases it. */
  async withLock(name, options, f) {
    const lock = await this.acquire(name, options);
    let result;
    try {
      result = await f(lock);
    } catch (e) {
      await lock.release().catch(() => {}); // f's error is the one to report
      throw e;
    }
    await lock.release();
    return result;
  }

  async _acquire(names, timeout, signal, more) {
    const lock = new Lock(this, newId(), names, more.maxHoldMs, more.stallMs);
    const body = { session: this._id, requestId: lock.id, names, owner: this._owner, ttlMs: this._ttl, ...more };
    if (this._bind) body.bind = true;
    if (this._closed) throw closed();
    if (signal && signal.aborted) throw reasonOf(signal);
    this._asked.set(lock.id, lock);
    this._opened = true;
    try {
      return await this._waiting(async (wait) => {
        const won = await this._poll(lock, body, wait, timeout);
        wait.check(); // it may have been ended in the instant of success
        return won;
      }, signal);
    } catch (e) {
      lock._end('given up');
      this._locks.delete(lock.id);
      await this._giveUp(lock.id);
      throw e;
    } finally {
      this._asked.delete(lock.id);
    }
  }

  /** _waiting gives f a Wait that close and signal end. */
  async _waiting(f, signal) {
    const wait = new Wait();
    const abort = () => wait.end(new Aborted(signal));
    this._waits.add(wait);
    let forget = () => {};
    if (signal && signal.aborted) abort();
    else if (signal) forget = onAbort(signal, abort);
    try {
      return await f(wait);
    } catch (e) {
      throw e instanceof Aborted ? e.reason : e;
    } finally {
      forget();
      this._waits.delete(wait);
    }
  }

  /** _poll resolves with the lock once it is held, or with null if it is busy. */
  async _poll(lock, body, wait, timeout) {
    const end = now().steady + timeout;
    let passing = ['unavailable'];
    for (;;) {
      const left = Math.max(Math.min(end - now().steady, this._ttl / 2), 0);
      const sent = now();
      let answer;
      try {
        answer = await this._call('Acquire', { ...body, waitMs: Math.floor(left) }, left + MARGIN, wait);
      } catch (e) {
        if (!passing.includes(e.code) || now().steady >= end) throw e;
        await wait.pause(100);
        continue;
      }
      if (answer.state === 'HELD') {
        lock._believe(sent, answer.lock);
        if (this._closed) throw closed();
        this._locks.set(lock.id, lock);
        this._renew();
        lock.check();
        return lock;
      }
      if (answer.state === 'BUSY') return null;
      if (answer.state === 'LOST') throw new LockLost(lock.name, answer.lock.why || 'NOT_HELD');
      passing = AGAIN; // a limit is no reason to give the position up
      this._renew(); // what an earlier acquisition won, and never learned of, may be in the way
      if (now().steady >= end) {
        const late = new Error(`lock ${JSON.stringify(lock.name)}: not held after ${timeout} ms`);
        late.name = 'TimeoutError';
        throw late;
      }
    }
  }

  /** _renew renews while there are locks, or while one is waited for, whatever a round throws. */
  _renew() {
    if (this._renewing || this._closed) return;
    this._renewing = true;
    this._rounds(() => this._locks.size > 0 || this._asked.size > 0, (wait, failed) => this._round(wait, failed), () => {
      this._renewing = false;
    });
  }

  /** _rounds never rejects. A round resolves with whether the next one waits for a moment. done is called in the same turn of the event loop in which no more work is found. */
  _rounds(work, round, done) {
    return this._waiting(async (wait) => {
      let failed = '';
      while (work() && !this._closed) {
        let pause = true;
        try {
          pause = await round(wait, failed !== '');
          failed = '';
        } catch (e) {
          const before = failed;
          failed = (e && (e.code || e.name)) || 'unknown';
          if (failed !== before && failed !== 'closed' && !AGAIN.includes(failed)) this._hear(e, failed); // _call has said what passes
        }
        if (pause && !this._closed) await wait.pause(Math.min(100, this._ttl / 20)).catch(() => {}); // closed
      }
      done();
    });
  }

  async _round(wait, failed) {
    const settled = this._settled;
    this._settled = [];
    const believed = [...this._locks.values()].map((lock) => lock._left()).filter((left) => left > 0);
    const left = Math.min(...(believed.length > 0 ? believed : [this._ttl]));
    const park = failed ? 0 : Math.min(this._ttl / 4, left / 2);
    const patience = Math.max(Math.min(this._ttl / 4, (left - park) / 2), this._ttl / 20);
    const body = { session: this._id, waitMs: Math.floor(park), settled };
    if ([...this._locks.values()].some((lock) => lock._asks())) body.wanted = true;
    const sent = now();
    let answer;
    try {
      answer = await this._call('Renew', body, park + patience, wait);
    } catch (e) {
      if (AGAIN.includes(e.code)) this._settled = settled.concat(this._settled);
      throw e;
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
        lock._want(seen);
        if (!lock.held()) { // its validity has ended, or its release failed
          if (!lock._released()) lock._lose('');
          this._free(id);
        }
      } else if (seen || lock._knew(sent)) {
        if (!lock._released()) lock._lose((seen && seen.why) || ''); // otherwise Release says what became of it
        if (!this._releasing.has(id)) this._settle(id); // its answer may be lost, and sent again it must find what it did
        else if (seen) unparked = true;
      }
    }
    return unparked;
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

  /** _callRelease calls again if pawld is away, or at a limit, because others wait for what is kept until then. */
  async _callRelease(body, timeout) {
    const end = now().steady + timeout;
    const wait = new Wait(); // nothing ends it but its time
    for (;;) {
      try {
        return await this._call('Release', body, Math.max(end - now().steady, 0) + MARGIN, wait);
      } catch (e) {
        if (!AGAIN.includes(e.code) || now().steady >= end) throw e;
        await wait.pause(100);
      }
    }
  }

  /** _free releases in the background what nobody believes in. A TTL later pawld has released it itself. */
  _free(id) {
    if (!this._unwanted.has(id)) this._unwanted.set(id, now().steady + this._ttl);
    if (this._freeing || this._closed) return;
    this._freeing = true;
    this._rounds(() => this._unwanted.size > 0, async (wait) => {
      for (const [i, until] of [...this._unwanted]) if (now().steady >= until) this._unwanted.delete(i);
      await this._freeAll([...this._unwanted.keys()].slice(0, 100), 1000, wait);
      return false;
    }, () => {
      this._freeing = false;
    });
  }

  async _freeAll(ids, timeout, wait) {
    if (ids.length === 0) return;
    try {
      await this._call('Release', { session: this._id, requestIds: ids }, timeout, wait);
    } catch (e) {
      if (AGAIN.includes(e.code) || e.code === 'closed') throw e;
    }
    for (const id of ids) this._unwanted.delete(id);
  }

  /** _giveUp releases what nobody believes in: before it resolves, if pawld answers. */
  async _giveUp(id) {
    if (this._closed) return; // close does it
    this._unwanted.set(id, now().steady + this._ttl);
    await this._waiting((wait) => this._freeAll([id], MARGIN / 2, wait)).catch(() => this._free(id));
  }

  /** close releases everything, and ends what waits. Called again, it waits for the first call, which says what came of it. */
  close() {
    if (this._closing) return this._closing.catch(() => {});
    this._closing = this._close();
    return this._closing;
  }

  async _close() {
    this._closed = true;
    // The validities end before anything is given back.
    const locks = [...this._locks.values()];
    for (const lock of [...locks, ...this._asked.values()]) lock._end('the session was closed');
    for (const wait of [...this._waits]) wait.end(closed());
    if (!this._opened) return;
    // An Acquire that pawld reads later is refused, and opens no session again.
    const wanted = [...new Set([...this._asked.keys(), ...this._unwanted.keys()])];
    const bodies = wanted.length > 0 ? [{ session: this._id, requestIds: wanted }] : [];
    bodies.push({ session: this._id });
    const end = now().steady + (locks.length > 0 ? this._ttl : MARGIN);
    try {
      for (const body of bodies) await this._callRelease(body, Math.max(end - now().steady, 0));
    } catch (e) {
      if (locks.length > 0) throw e; // else it counts until it ends, and where pawld is away, its TTL ends it
    }
  }

  /** await using closes it. */
  [asyncDispose]() {
    return this.close();
  }

  /** What console.log shows has no secret. */
  [inspect](depth, options, show) {
    return `Session ${show({ owner: this._owner, ttl: this._ttl, closed: this._closed, locks: [...this._locks.values()].map((l) => l.name) }, options)}`;
  }

  /** _call is one request, which takes no longer than timeout. The end of wait ends it. */
  async _call(method, body, timeout, wait = new Wait()) {
    try {
      const answer = checked(method, await this._send(method, body, timeout, wait));
      this._hear(null);
      return answer;
    } catch (e) {
      if (AGAIN.includes(e.code)) this._hear(e);
      throw e;
    }
  }

  /** _hear emits the first of some failures, each whose code is another one, and their end, which is an answer. What a listener throws is not handled here, and ends no renewal. */
  _hear(e, code = e ? e.code : '') {
    const before = this._away;
    this._away = code;
    if (code && code !== before) queueMicrotask(() => this.emit('unavailable', e));
    else if (before && !code) queueMicrotask(() => this.emit('available'));
  }

  /** _send sends a request on a new connection. */
  async _send(method, body, timeout, wait) {
    let status;
    let text;
    try {
      [status, text] = await wait.run((resolve, reject) => this._exchange(method, JSON.stringify(body), timeout, resolve, reject));
    } catch (e) {
      throw e instanceof PawldError || e instanceof Aborted ? e : failure(e, this.#to);
    }
    let answer;
    try {
      answer = JSON.parse(text);
    } catch (e) {
      answer = null;
    }
    const isObject = answer !== null && typeof answer === 'object';
    if (status === 200 && isObject) return answer;
    if (isObject && typeof answer.code === 'string') throw new PawldError(answer.code, `${typeof answer.message === 'string' ? answer.message : ''}`);
    if (PROXY.includes(status)) throw new PawldError('unavailable', `pawld does not answer: ${status}`);
    throw notPawld(isObject ? `${status}, and no code` : `${status}, and no JSON`);
  }

  /** _exchange resolves with the answer's status and text. It returns a function that stops it. What is thrown in a listener ends the process, so listeners only pass on. */
  _exchange(method, text, timeout, resolve, reject) {
    let stop = () => {};
    const late = setTimeout(() => { // of all of it, because request's timeout begins again with each byte
      fail(new Error(`not within ${timeout} ms`));
      stop();
    }, timeout);
    let over = false;
    const done = (f) => (x) => {
      over = true;
      clearTimeout(late);
      f(x);
    };
    const fail = done(reject);
    const begin = (token, tls) => {
      if (over) return;
      const request = this._request(method, text, timeout, token, tls, done(resolve), fail);
      stop = () => request.destroy();
    };
    const settings = [this.#to.token(), this.#to.tls()];
    if (settings.some((s) => s instanceof Promise)) Promise.all(settings).then((s) => begin(...s)).catch(fail);
    else {
      try {
        begin(...settings);
      } catch (e) {
        fail(e);
      }
    }
    return () => {
      done(stop)();
    };
  }

  _request(method, text, timeout, token, tls, resolve, fail) {
    const { socket, url } = this.#to;
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text), 'Connect-Timeout-Ms': Math.max(Math.floor(timeout), 1) };
    if (token) headers.Authorization = `Bearer ${token}`;
    const options = { method: 'POST', headers, agent: false };
    const path = `/pawl.v1.Locks/${method}`;
    if (!url && (!socket || socket.includes('\0') || Buffer.byteLength(socket) > PATH)) throw new PawldError('invalid_argument', `${JSON.stringify(socket)} cannot be the path of a socket, which has 1 to ${PATH} bytes`);
    const receive = (response) => {
      const parts = [];
      response.on('data', (b) => parts.push(b));
      response.on('error', fail);
      response.on('end', () => resolve([response.statusCode, Buffer.concat(parts).toString()]));
    };
    const request = url
      ? (url.startsWith('https:') ? https : http).request(url + path, { ...tls, ...options }, receive)
      : http.request({ ...options, socketPath: socket, host: 'pawl', path }, receive);
    request.on('error', fail);
    request.on('upgrade', (response, connection) => {
      connection.destroy();
      resolve([response.statusCode, '']);
    });
    request.end(text);
    return request;
  }
}

module.exports = { Session, Lock, LockLost, PawldError };
