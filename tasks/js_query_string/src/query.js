'use strict';

/*
 * Query strings to objects and back. A name that occurs several times has a list of its values; a name without `=`
 * has the value ''.
 */
function decode(text) {
  return decodeURIComponent(text.replace('+', ' '));
}

function encode(text) {
  return encodeURIComponent(text).replace(/%20/g, '+');
}

/* [name, value] of `name=value` */
function split(pair) {
  const [name, value = ''] = pair.split('=');
  return [decode(name), decode(value)];
}

function stringify(values) {
  return Object.keys(values)
    .flatMap((name) => [].concat(values[name]).map((value) => `${encode(name)}=${encode(value)}`))
    .join('&');
}

function parse(query) {
  const values = {};
  for (const pair of query.replace(/^\?/, '').split('&')) {
    const [name, value] = split(pair);
    if (name in values) values[name] = [].concat(values[name], value);
    else values[name] = value;
  }
  return values;
}

module.exports = { parse, stringify };
