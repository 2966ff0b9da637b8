'use strict';

const assert = Object.freeze(require('node:assert/strict')); // before the code under test could change it
const test = require('node:test');
const { Emitter } = require('../src/emitter.js');

/* An emitter, and a maker of listeners that note their name and arguments. */
function set() {
  const notes = [];
  return { emitter: new Emitter(), notes, note: (name) => (...args) => void notes.push([name, ...args].join(' ')) };
}

test('listeners get the arguments', () => {
  const { emitter, notes, note } = set();
  emitter.on('x', note('a'));
  assert.strictEqual(emitter.emit('x', 1, 'two'), 1);
  assert.deepEqual(notes, ['a 1 two']);
});

test('listeners are called in the order they came', () => {
  const { emitter, notes, note } = set();
  for (const name of ['c', 'a', 'b']) emitter.on('x', note(name));
  assert.strictEqual(emitter.emit('x'), 3);
  assert.deepEqual(notes, ['c', 'a', 'b']);
});

test('nobody listens', () => {
  const { emitter } = set();
  assert.strictEqual(emitter.emit('x'), 0);
  assert.strictEqual(emitter.count('x'), 0);
});

test('who left is not called', () => {
  const { emitter, notes, note } = set();
  const leave = emitter.on('x', note('a'));
  emitter.on('x', note('b'));
  leave();
  emitter.emit('x');
  assert.deepEqual(notes, ['b']);
  assert.strictEqual(emitter.count('x'), 1);
});

test('who came twice leaves once', () => {
  const { emitter, notes, note } = set();
  const a = note('a');
  emitter.on('x', a);
  emitter.on('x', a);
  emitter.off('x', a);
  assert.strictEqual(emitter.emit('x'), 1);
  assert.deepEqual(notes, ['a']);
});

test('once is once', () => {
  const { emitter, notes, note } = set();
  emitter.once('x', note('a'));
  emitter.emit('x');
  emitter.emit('x');
  assert.deepEqual(notes, ['a']);
});

test('several that listen once are all called', () => {
  const { emitter, notes, note } = set();
  for (const name of ['a', 'b', 'c']) emitter.once('x', note(name));
  assert.strictEqual(emitter.emit('x'), 3);
  assert.deepEqual(notes, ['a', 'b', 'c']);
  assert.strictEqual(emitter.emit('x'), 0);
});

test('one that leaves when called does not hide the next', () => {
  const { emitter, notes, note } = set();
  const leave = emitter.on('x', () => leave());
  emitter.on('x', note('b'));
  emitter.emit('x');
  assert.deepEqual(notes, ['b']);
});

test('one that comes meanwhile is called next time', () => {
  const { emitter, notes, note } = set();
  const invite = () => emitter.count('x') < 2 && emitter.on('x', note('late'));
  emitter.on('x', invite);
  assert.strictEqual(emitter.emit('x'), 1);
  assert.deepEqual(notes, []);
  assert.strictEqual(emitter.emit('x'), 2);
  assert.deepEqual(notes, ['late']);
});

test('an error is thrown after all were called', () => {
  const { emitter, notes, note } = set();
  const error = new Error('first');
  emitter.on('x', note('a'));
  emitter.on('x', () => { throw error; });
  emitter.on('x', note('b'));
  assert.throws(() => emitter.emit('x'), (thrown) => thrown === error);
  assert.deepEqual(notes, ['a', 'b']);
});

test('of several errors the first is thrown', () => {
  const { emitter } = set();
  for (const name of ['first', 'second']) emitter.on('x', () => { throw new Error(name); });
  assert.throws(() => emitter.emit('x'), /first/);
});

test('undefined can be thrown like all else', () => {
  const { emitter, notes, note } = set();
  emitter.on('x', () => { throw undefined; });
  emitter.on('x', note('b'));
  let thrown = 'nothing';
  try { emitter.emit('x'); } catch (error) { thrown = error; }
  assert.strictEqual(thrown, undefined);
  assert.deepEqual(notes, ['b']);
});
