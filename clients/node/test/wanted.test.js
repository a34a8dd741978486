'use strict';

// Whether somebody waits behind a lock: node --test test/wanted.test.js, in the client's folder.

const assert = require('node:assert');
const { test } = require('node:test');
const { within } = require('./bubble.js');

test('a holder that asks learns that it is wanted', within(async (b) => {
  const [session, daemon] = b.session();
  const { value: lock } = await b.outcome(session.acquire('n'));
  const { value: other } = await b.outcome(session.acquire('m'));
  const asked = () => daemon.calls('Renew').map((body) => body.wanted);
  const renewals = (n) => {
    const want = asked().length + n;
    return b.until(() => asked().length >= want);
  };
  const want = (wanted) => {
    for (const row of daemon.rows.values()) row.wanted = wanted;
  };
  await renewals(2);
  assert.ok(asked().every((wanted) => wanted === undefined), 'nobody asked');
  const signal = lock.wanted();
  await renewals(2);
  assert.strictEqual(asked().pop(), true);
  assert.strictEqual(signal.aborted, false);
  want('true'); // what is no answer of pawld's
  await renewals(2);
  assert.strictEqual(signal.aborted, false);
  want(true);
  await b.until(() => signal.aborted);
  lock.check(); // it is a hint
  assert.strictEqual(lock.wanted(), signal);
  assert.strictEqual(other._asks(), false);
  want(false);
  await renewals(2);
  assert.strictEqual(signal.aborted, true, 'it stays aborted');
  await b.outcome(lock.release());
  await renewals(2);
  assert.strictEqual(asked().pop(), undefined, 'nobody asks any more');
  await b.outcome(session.close());
}));
