'use strict';

/* Reads [[function, argument], …] as JSON and answers with [{"value": …} or {"error": name}, …]. Each answer has the
 * entries of an object as a list, so that no name can hide. */
const query = require('../src/query.js');

function entries(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? Object.entries(value) : value;
}

const calls = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
const answers = calls.map(([name, argument]) => {
  try {
    return { value: entries(query[name](argument)) };
  } catch (error) {
    return { error: error.name };
  }
});
process.stdout.write(JSON.stringify(answers));
