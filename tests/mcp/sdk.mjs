// The official TypeScript SDK as a client of a stdio server: sdk.mjs GENERATION SCENARIO JSON COMMAND [ARG...]
// prints one JSON object. COMMAND may be the URL of a server instead, with the key in HUTCH_API_KEY. Generation 1 is @modelcontextprotocol/sdk, which begins with `initialize`; generation 2 is
// @modelcontextprotocol/client, told to use the stateless revision. Both check what they are sent against their own schemas,
// and structured content against the tools' output schemas.
const [generation, scenario, json, command, ...args] = process.argv.slice(2);
const given = JSON.parse(json);

async function open() {
  const info = { name: 'hutch-test', version: '1' };
  const http = /^https?:/.test(command) && [
    new URL(command),
    { requestInit: { headers: { Authorization: `Bearer ${process.env.HUTCH_API_KEY}` } } },
  ];
  if (generation === '1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return [new Client(info), http ? new StreamableHTTPClientTransport(...http) : new StdioClientTransport({ command, args })];
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  return [
    new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
    http ? new StreamableHTTPClientTransport(...http) : new StdioClientTransport({ command, args }),
  ];
}

const [client, transport] = await open();
const troubles = []; // what the SDK did not understand
client.onerror = error => troubles.push(String(error));
await client.connect(transport);

const call = (name, input, options) =>
  generation === '1'
    ? client.callTool({ name, arguments: input }, undefined, options)
    : client.callTool({ name, arguments: input }, options);

const scenarios = {
  async look() {
    return {
      server: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions(),
      tools: (await client.listTools()).tools,
      resources: (await client.listResources()).resources,
      templates: (await client.listResourceTemplates()).resourceTemplates,
    };
  },
  // Each of the given calls, in order.
  async calls() {
    await client.listTools(); // from here on structured content is checked
    const results = [];
    for (const [name, input] of given.calls) results.push(await call(name, input));
    return { results };
  },
  // All at once.
  async together() {
    await client.listTools();
    return { results: await Promise.all(given.calls.map(([name, input]) => call(name, input))) };
  },
  async failures() {
    const codes = [];
    for (const attempt of [
      () => call('none', {}),
      () => client.readResource({ uri: 'file:///workspace/none' }),
      () => client.readResource({ uri: 'nonsense:' }),
      () => client.listTools({ cursor: 'nonsense' }),
    ])
      codes.push(await attempt().then(() => null, error => error.code));
    return { codes };
  },
  async resources() {
    const read = [];
    for (const uri of given.uris) read.push((await client.readResource({ uri })).contents);
    const completion = await client.complete({
      ref: { type: 'ref/resource', uri: 'file:///workspace/{path}' },
      argument: { name: 'path', value: given.typed },
    });
    return { read, completion: completion.completion };
  },
  async progress() {
    const told = [];
    const result = await call('bash', { command: given.command }, {
      onprogress: progress => told.push(progress),
      timeout: 30000,
      resetTimeoutOnProgress: true,
    });
    return { result, told };
  },
  async abort() {
    const controller = new AbortController();
    const attempt = call('bash', { command: 'sleep 1000' }, {
      signal: controller.signal,
      onprogress: () => controller.abort('enough'),
      timeout: 30000,
    });
    const failure = await attempt.then(() => null, error => String(error));
    const after = await call('bash', { command: 'pgrep sleep || echo none' });
    return { failure, after };
  },
};

const result = await scenarios[scenario]();
await client.close();
console.log(JSON.stringify({ ...result, troubles }));
