/// <reference types="node" />
import { EventEmitter } from 'events';
import { ConnectionOptions, SecureContextOptions } from 'tls';

/** A call was refused, or pawld or etcd does not answer. code says which. */
export class PawldError extends Error {
  readonly code: string;
}

/** The lock is no longer held. why says what ended it. */
export class LockLost extends Error {
  readonly lockName: string;
  readonly why: string;
}

export type TLSOptions = SecureContextOptions & Pick<ConnectionOptions, 'checkServerIdentity' | 'rejectUnauthorized' | 'servername'>;

export interface SessionOptions {
  /** Path of pawld's Unix socket. The default is /run/pawl/pawld.sock. */
  socket?: string;
  /** Of pawld's --listen, without a path: https://host:port, or http:// with token. */
  url?: string;
  /**
   * A token, or a function or a file that is asked for it at each call, as it may change. Where that fails, or gives what
   * cannot be used, the one before it counts; at the first call it is an error. A file is read without the spaces around it.
   */
  token?: string | (() => string | Promise<string>) | { file: string };
  /** ca, cert, key, pfx and so on, as https.request takes them, or a function that is asked for them at each call, like token's. */
  tls?: TLSOptions | (() => TLSOptions | Promise<TLSOptions>);
  /** In milliseconds. The default is 10,000. */
  ttl?: number;
  /** For people. */
  owner?: string;
  /**
   * The session is bound to this process, on the Unix socket and Linux 6.5 and later. When the
   * process exits, its locks are given up at once.
   */
  bind?: boolean;
}

export interface SignalOptions {
  /** Once it is aborted, the wait rejects with its reason. Then nothing is held, and the position in the queue is given up. */
  signal?: AbortSignal | undefined;
}

/** Times are in milliseconds. */
export interface AcquireOptions extends SignalOptions {
  timeout?: number;
  shared?: boolean;
  maxHold?: number;
  /** It is lost when lock.progress() was not called for that long, even while the session renews it. At least 1,000. */
  stall?: number;
}

/** Times are in milliseconds. */
export interface AcquireAllOptions extends SignalOptions {
  /** Further names, which are held together with other readers. */
  shared?: string[];
  timeout?: number;
  maxHold?: number;
  stall?: number;
}

/** One acquisition of a lock or of several at once, or one term of an election. */
export class Lock {
  readonly name: string;
  readonly names: string[];
  /** For the storage. It is greater than the token of every holder before, of each of the names. */
  readonly token: bigint;
  /** The token in decimal, as JSON can represent it. */
  readonly tokenString: string;
  /** The number of a semaphore's slot, which no other holder has. */
  readonly slot: number;
  /** Its keys in etcd, one for each of its names. */
  readonly keys: string[];
  /** Compares the clock, and does no I/O. */
  held(): boolean;
  /** Throws LockLost unless it is held. Does no I/O. */
  check(): void;
  /**
   * Aborted once somebody waits behind it. It is a hint. It ends nothing, and stays aborted if nobody waits any more.
   * For a lock that is shared it means somebody who waits for it alone; of several names, for any of them. It is never
   * aborted for a slot or a term. After the first call, the session asks pawld with each renewal. That begins within a
   * quarter of the TTL, and finds those who waited before, too.
   */
  wanted(): AbortSignal;
  /** Queries etcd. */
  confirm(options?: SignalOptions): Promise<void>;
  /**
   * Reports that the work has got something done, to pawld, within half a second. Rejects with LockLost unless the lock is
   * held. If pawld does not answer, it does not count. Call it from the work, each time something is done.
   */
  progress(options?: SignalOptions): Promise<void>;
  /** Changes the value of an election's term. */
  proclaim(value: string | Uint8Array, options?: SignalOptions): Promise<void>;
  /** Releases the lock. Rejects with LockLost if it was lost before. */
  release(): Promise<void>;
  /** Its names, its token in decimal, its slot and its keys, for logs. */
  toJSON(): { name: string; names: string[]; token: string; slot: number; keys: string[] };
  /** await using releases it, unless that was begun. */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface Session {
  /** A call failed and is sent again, because pawld or etcd is away, or a limit is reached; or renewals are refused. Emitted whenever the code changes, too. */
  on(event: 'unavailable', listener: (error: PawldError) => void): this;
  /** A call is answered again. */
  on(event: 'available', listener: () => void): this;
}

/** What a process's locks depend on. It renews them. */
export class Session extends EventEmitter {
  constructor(options?: SessionOptions);
  /** Rejects with an Error whose name is TimeoutError after timeout. */
  acquire(name: string, options?: AcquireOptions): Promise<Lock>;
  /** null if another holds the lock, or waits for it. */
  tryAcquire(name: string, options?: SignalOptions & { shared?: boolean; maxHold?: number; stall?: number }): Promise<Lock | null>;
  /** All names at once, in any order. Acquisitions of several names never wait for one another in a circle. */
  acquireAll(names: string[], options?: AcquireAllOptions): Promise<Lock>;
  /** All of the names or none. null if one of them is not free. */
  tryAcquireAll(names: string[], options?: SignalOptions & { shared?: string[]; maxHold?: number; stall?: number }): Promise<Lock | null>;
  /** One of a semaphore's limit slots. lock.slot says which. */
  acquireSlot(name: string, limit: number, options?: SignalOptions & { timeout?: number; maxHold?: number; stall?: number }): Promise<Lock>;
  /** null if no slot is free, or if others wait for one. */
  tryAcquireSlot(name: string, limit: number, options?: SignalOptions & { maxHold?: number; stall?: number }): Promise<Lock | null>;
  campaign(name: string, value?: string | Uint8Array, options?: SignalOptions & { timeout?: number; stall?: number }): Promise<Lock>;
  withLock<T>(name: string, options: AcquireOptions, f: (lock: Lock) => Promise<T> | T): Promise<T>;
  /** Releases everything, and ends what waits. acquire rejects with the code closed, then and afterwards. Called again, it waits for the first call. */
  close(): Promise<void>;
  /** await using closes it. */
  [Symbol.asyncDispose](): Promise<void>;
}
