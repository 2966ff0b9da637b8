'use strict';

const assert = Object.freeze(require('node:assert/strict')); // before the code under test could change it
const test = require('node:test');
const { Clock } = require('./clock.js');
const { debounce } = require('../src/debounce.js');

/* A debounced function with its clock, and what it was called with: [time, argument, …] each. */
function set(wait = 100) {
  const clock = new Clock();
  const calls = [];
  const debounced = debounce((...args) => calls.push([clock.now, ...args]), wait, clock);
  return { clock, calls, debounced };
}

test('nothing happens before the wait is over', () => {
  const { clock, calls, debounced } = set();
  debounced('a');
  clock.pass(99);
  assert.deepEqual(calls, []);
});

test('one call comes after the wait', () => {
  const { clock, calls, debounced } = set();
  debounced('a', 1);
  clock.pass(500);
  assert.deepEqual(calls, [[100, 'a', 1]]);
});

test('a call within the wait starts it anew', () => {
  const { clock, calls, debounced } = set();
  debounced('a');
  clock.pass(60);
  debounced('b');
  clock.pass(60);
  assert.deepEqual(calls, []);
  clock.pass(40);
  assert.deepEqual(calls, [[160, 'b']]);
});

test('a long burst is one call, with the last arguments', () => {
  const { clock, calls, debounced } = set();
  for (let i = 1; i <= 20; i++) {
    debounced(i);
    clock.pass(50);
  }
  clock.pass(1000);
  assert.deepEqual(calls, [[1050, 20]]);
});

test('two bursts are two calls', () => {
  const { clock, calls, debounced } = set();
  debounced('a');
  clock.pass(100);
  debounced('b');
  clock.pass(100);
  assert.deepEqual(calls, [[100, 'a'], [200, 'b']]);
});

test('it never holds more than one timer', () => {
  const { clock, debounced } = set();
  debounced('a');
  clock.pass(10);
  debounced('b');
  debounced('c');
  assert.equal(clock.waiting, 1);
  clock.pass(500);
  assert.equal(clock.waiting, 0);
});

test('this is that of the last call', () => {
  const clock = new Clock();
  const seen = [];
  const object = { debounced: debounce(function () { seen.push(this); }, 10, clock) };
  object.debounced();
  clock.pass(10);
  assert.equal(seen.length, 1);
  assert.ok(Object.is(seen[0], object));
});

test('flush calls at once and gives the result', () => {
  const { clock, calls, debounced } = set();
  debounced('a');
  clock.pass(30);
  assert.strictEqual(debounced.flush(), 1);
  clock.pass(500);
  assert.deepEqual(calls, [[30, 'a']]);
});

test('flush without a call that waits does nothing', () => {
  const { calls, debounced } = set();
  assert.strictEqual(debounced.flush(), undefined);
  assert.deepEqual(calls, []);
});

test('cancel forgets the call, and the next one waits in full', () => {
  const { clock, calls, debounced } = set();
  debounced('a');
  clock.pass(60);
  debounced.cancel();
  debounced('b');
  clock.pass(99);
  assert.deepEqual(calls, []);
  clock.pass(1);
  assert.deepEqual(calls, [[160, 'b']]);
});

test('pending tells whether a call waits', () => {
  const { clock, debounced } = set();
  const seen = [debounced.pending];
  debounced('a');
  seen.push(debounced.pending);
  clock.pass(100);
  seen.push(debounced.pending);
  assert.deepEqual(seen, [false, true, false]);
});

test('a call from within the call waits like others', () => {
  const clock = new Clock();
  const times = [];
  const debounced = debounce((left) => {
    times.push(clock.now);
    if (left > 0) debounced(left - 1);
  }, 10, clock);
  debounced(2);
  clock.pass(100);
  assert.deepEqual(times, [10, 20, 30]);
});
