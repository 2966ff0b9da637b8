'use strict';

/* Timers whose time passes only when it is told to. */
class Clock {
  now = 0;
  #timers = new Map();
  #next = 1;

  setTimeout = (call, wait) => {
    this.#timers.set(this.#next, { call, at: this.now + wait });
    return this.#next++;
  };

  clearTimeout = (id) => void this.#timers.delete(id);

  get waiting() {
    return this.#timers.size;
  }

  pass(time) {
    const end = this.now + time;
    for (;;) {
      const due = [...this.#timers].filter(([, t]) => t.at <= end).sort(([, a], [, b]) => a.at - b.at)[0];
      if (!due) break;
      this.#timers.delete(due[0]);
      this.now = due[1].at;
      due[1].call();
    }
    this.now = end;
  }
}

module.exports = { Clock };
