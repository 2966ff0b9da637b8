// Streamable HTTP in front of a stdio server, for the conformance suite, which speaks HTTP only: every session gets a
// child of its own, and messages pass through unchanged. The transport is the official SDK's; all answers are the
// child's. Usage: bridge.mjs COMMAND [ARG...]; prints its URL.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import { createInterface } from 'node:readline';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';

const [command, ...args] = process.argv.slice(2);
const sessions = new Map();
const children = new Set();

function openSession() {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const tokens = new Map(); // progress token -> the request that wants it
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: id => sessions.set(id, transport),
    enableDnsRebindingProtection: true,
    allowedHosts: [`127.0.0.1:${server.address().port}`, `localhost:${server.address().port}`],
  });
  children.add(child);
  child.on('exit', () => children.delete(child));
  transport.onmessage = message => {
    const token = message.params?._meta?.progressToken;
    if (token !== undefined) tokens.set(token, message.id);
    child.stdin.write(JSON.stringify(message) + '\n');
  };
  transport.onclose = () => child.stdin.end();
  createInterface({ input: child.stdout }).on('line', line => {
    const message = JSON.parse(line);
    const relatedRequestId = tokens.get(message.params?.progressToken);
    transport.send(message, relatedRequestId === undefined ? undefined : { relatedRequestId }).catch(console.error);
  });
  return transport.start().then(() => transport);
}

const server = http.createServer(async (request, response) => {
  let text = '';
  for await (const piece of request) text += piece;
  const body = text ? JSON.parse(text) : undefined;
  let transport = sessions.get(request.headers['mcp-session-id']);
  if (!transport && isInitializeRequest(body)) transport = await openSession();
  if (transport) return transport.handleRequest(request, response, body);
  response.writeHead(404).end();
});

server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
process.on('SIGTERM', () => {
  for (const child of children) child.stdin.end();
  server.close();
  server.closeAllConnections();
  setTimeout(() => process.exit(0), 2000).unref();
});
