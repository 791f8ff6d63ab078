// The client of the official TypeScript SDK on its own standard input and output.
//
// Its arguments are a file of a package that depends on the SDK, and "all" if it answers what a
// server may ask. It reads steps from file descriptor 3, one a line, and says on file descriptor 4
// when it has connected and after each step. An error of the server is an answer like any other.
// Any other error ends the client.
import { createReadStream, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(process.argv[2]);
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioServerTransport } = require('@modelcontextprotocol/sdk/server/stdio.js');
const types = require('@modelcontextprotocol/sdk/types.js');

const all = process.argv[3] === 'all';
const client = new Client({ name: 'c', version: '1' },
  { capabilities: { roots: { listChanged: true }, ...(all && { sampling: {}, elicitation: {} }) } });
client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///a', name: 'a' }] }));
if (all) {
  client.setRequestHandler(types.CreateMessageRequestSchema,
    () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'sampled' } }));
  client.setRequestHandler(types.ElicitRequestSchema, () => ({ action: 'decline' }));
}

const methods = {
  'completion/complete': client.complete,
  'logging/setLevel': ({ level }, options) => client.setLoggingLevel(level, options),
  'ping': (_, options) => client.ping(options),
  'prompts/get': client.getPrompt,
  'prompts/list': client.listPrompts,
  'resources/list': client.listResources,
  'resources/read': client.readResource,
  'resources/subscribe': client.subscribeResource,
  'resources/templates/list': client.listResourceTemplates,
  'resources/unsubscribe': client.unsubscribeResource,
  'tools/call': (params, options) => client.callTool(params, undefined, options),
  'tools/list': client.listTools,
};

async function take({ method, params, cancelled }) {
  const stop = new AbortController();
  const options = { signal: stop.signal };
  if (params?._meta) { // the SDK makes the token itself
    options.onprogress = () => cancelled && stop.abort('enough');
    delete params._meta;
  }
  try {
    await methods[method].call(client, params, options);
  } catch (error) {
    if (!(error instanceof types.McpError)) throw error;
  }
}

const done = () => writeSync(4, 'done\n');
// The transport of a server reads and writes the streams of its own process, as this client does.
await client.connect(new StdioServerTransport());
done();
for await (const line of createInterface({ input: createReadStream('', { fd: 3 }) })) {
  await take(JSON.parse(line));
  done();
}
await client.close();
