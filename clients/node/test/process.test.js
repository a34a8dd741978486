'use strict';

// What keeps a process from its end after close: node --test test/process.test.js, in the client's folder.

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');

const HANG = 180000; // ms, after which a test that waits for an event has failed

// A timer of a second or more takes a thousand times as long there: only what was ended ends.
for (const name of ['held', 'waiting', 'confirm', 'given up', 'without pawld', 'nothing']) {
  test(`the process ends at once after close: ${name}`, { timeout: HANG }, async () => {
    const child = spawn(process.execPath, [path.join(__dirname, 'closing.js'), name], { stdio: ['ignore', 'inherit', 'inherit'], timeout: HANG - 10000, killSignal: 'SIGKILL' });
    const code = await new Promise((done) => { child.on('close', (status, signal) => done(signal || status)); });
    assert.strictEqual(code, 0);
  });
}
