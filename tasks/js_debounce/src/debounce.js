'use strict';

/*
 * debounce(call, wait) is a function that calls `call` once things have been quiet for `wait` milliseconds, with the
 * arguments and the `this` of its last call.
 *
 *     .flush()     calls at once if a call is waiting, and returns its result
 *     .cancel()    forgets the call that is waiting
 *     .pending     whether one is waiting
 */
function debounce(call, wait, timers = globalThis) {
  let timer = null;
  let last = null;

  function fire() {
    const { self, args } = last;
    timer = last = null;
    return call.apply(self, args);
  }

  function debounced(...args) {
    last = { self: this, args };
    if (timer === null) timer = timers.setTimeout(fire, wait);
  }

  debounced.flush = () => {
    if (timer === null) return undefined;
    timers.clearTimeout(timer);
    return fire();
  };

  debounced.cancel = () => {
    timers.clearTimeout(timer);
    timer = last = null;
  };

  Object.defineProperty(debounced, 'pending', { get: () => timer !== null });
  return debounced;
}

module.exports = { debounce };
