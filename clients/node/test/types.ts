// What a program in TypeScript may write, and what its compiler refuses: .ci/types compiles it.

import { Session, Lock, LockLost, PawldError } from 'pawld';
import type { AcquireOptions, SessionOptions, TLSOptions } from 'pawld';
import * as https from 'https';

const tls: TLSOptions = { ca: ['a', Buffer.from('b')], cert: 'c', key: Buffer.from('k'), passphrase: 'p', servername: 's', rejectUnauthorized: true, minVersion: 'TLSv1.3' };
const options: SessionOptions = { url: 'https://pawld.example:8443', tls };

/** What may change while a program runs. */
export const changing: SessionOptions[] = [
  { token: 'a' }, { token: () => 'a' }, { token: async () => 'a' }, { token: { file: '/run/secrets/token' } }, { tls: () => tls }, { tls: async () => tls },
];

/** Whatever tls takes, https.request takes. */
export const taken: https.RequestOptions = tls;

export async function report(signal: AbortSignal): Promise<string> {
  await using session = new Session(options);
  session.on('unavailable', (e) => console.log(e.code)).on('available', () => {});
  const within: AcquireOptions = { timeout: 1000, maxHold: 60000, signal: AbortSignal.timeout(5) };
  await using lock = await session.acquire('report', { ...within, signal });
  await using free: Lock | null = await session.tryAcquire('other', { signal });
  await using slot = await session.acquireSlot('pool', 3, { signal });
  await using all = await session.acquireAll(['a'], { shared: ['b'], signal });
  const term = await session.campaign('leader', new Uint8Array(1), { timeout: 1, signal });
  await term.proclaim('v', { signal });
  await lock.confirm({ signal });
  const wanted: AbortSignal = AbortSignal.any([signal, lock.wanted()]);
  const n: number = await session.withLock('n', { signal }, (held) => held.slot);
  const token: bigint = lock.token;
  const text: string = lock.tokenString + lock.toJSON().token + JSON.stringify({ lock });
  try {
    lock.check();
  } catch (e) {
    if (e instanceof LockLost) return e.why;
    if (e instanceof PawldError) return e.code;
    throw e;
  }
  if (wanted.aborted) return '';
  return `${n} ${token} ${text} ${free?.name ?? ''} ${slot.slot} ${all.keys.join()}`;
}

export async function refused(session: Session, lock: Lock): Promise<void> {
  // @ts-expect-error it can be null
  (await session.tryAcquire('n')).check();
  // @ts-expect-error a token is no number
  const token: number = lock.token;
  // @ts-expect-error it is read only
  lock.tokenString = `${token}`;
  // @ts-expect-error a controller is no signal
  await session.acquire('n', { signal: new AbortController() });
  // @ts-expect-error what is no option of TLS
  new Session({ tls: { method: 'GET' } });
  // @ts-expect-error a token is no path
  new Session({ token: { path: 'token' } });
  // @ts-expect-error there is no such event
  session.on('lost', () => {});
}
