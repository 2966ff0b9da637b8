'use strict';

/* One that throws does not keep the others from being called; the first error is thrown in the end. */
function callAll(listeners, args) {
  for (const listener of listeners) listener(...args);
}

/* Who listens to what. Listeners are called in the order in which they came. */
class Emitter {
  #listeners = new Map();

  on(event, listener) {
    if (!this.#listeners.has(event)) this.#listeners.set(event, []);
    this.#listeners.get(event).push(listener);
    return () => this.off(event, listener);
  }

  once(event, listener) {
    const wrapper = (...args) => {
      this.off(event, wrapper);
      listener(...args);
    };
    return this.on(event, wrapper);
  }

  /* Removes one registration of the listener. */
  off(event, listener) {
    const list = this.#listeners.get(event) ?? [];
    const at = list.indexOf(listener);
    if (at !== -1) list.splice(at, 1);
    if (list.length === 0) this.#listeners.delete(event);
  }

  /* Calls all that listened when it began, and tells how many. */
  emit(event, ...args) {
    const listeners = this.#listeners.get(event) ?? [];
    callAll(listeners, args);
    return listeners.length;
  }

  count(event) {
    return this.#listeners.get(event)?.length ?? 0;
  }
}

module.exports = { Emitter };
