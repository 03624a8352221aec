// Clients of AG-UI: `HttpAgent` of @ag-ui/client, driven by lines of JSON.
//
//     node client.mjs PACKAGE_JSON
//
// It prints the port on which it listens. A connection has clients of its own. A line
// has an `id`, the name of an `agent`, its `options`, and the `input` of a turn. The reply
// has what the client made of the stream. `verifyEvents` is a part of each turn of
// HttpAgent: a stream that breaks a rule of the protocol ends it with an error.

import { createRequire } from "node:module";
import { createServer } from "node:net";
import { createInterface } from "node:readline";

const { HttpAgent } = createRequire(process.argv[2])("@ag-ui/client");
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = () => {}; // an error of a turn is a part of its reply
// The error of a broken stream also rejects a promise of the client that nobody awaits.
process.on("unhandledRejection", () => {});

async function turn(agents, { agent: name, options, input, abortAfter }) {
  if (!agents.has(name)) agents.set(name, new HttpAgent(options));
  const agent = agents.get(name);
  Object.assign(agent, { url: options.url, headers: options.headers });
  if (options.state !== undefined) agent.state = options.state;
  if (input.messages !== undefined) agent.messages = input.messages;
  if (input.message !== undefined) agent.addMessage({ role: "user", ...input.message });
  const events = [];
  let error = null;
  try {
    await agent.runAgent(input.parameters, {
      onEvent: ({ event }) => {
        events.push(event);
        if (event.type === abortAfter) agent.abortRun();
      },
    });
  } catch (caught) {
    error = String(caught.message ?? caught);
  }
  return {
    events, error,
    messages: agent.messages,
    state: agent.state,
    interrupts: agent.pendingInterrupts,
    warnings: warnings.splice(0),
  };
}

const server = createServer((connection) => {
  const agents = new Map();
  createInterface({ input: connection }).on("line", (line) => {
    const command = JSON.parse(line);
    turn(agents, command).then((reply) => {
      connection.write(JSON.stringify({ id: command.id, ...reply }) + "\n");
    });
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
