// A client of the JavaScript SDK. Each line of the input is a request, and each line of
// the output its result or error. Arguments: URL, user, binding, folder of the packages.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [url, user, binding, folder] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${folder}/@a2a-js/sdk/dist/${path}`).href);
const { ClientFactory, ClientFactoryOptions } = await load("client/index.js");
const { Task, SendMessageRequest, StreamResponse, ListTasksResponse } =
  await load("index.js");

const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  preferredTransports: [binding],
});
const client = await new ClientFactory(options).createFromUrl(url);
const call = { serviceParameters: { "x-user": user } };

const operations = {
  async send(params) {
    const made = await client.sendMessage(SendMessageRequest.fromJSON(params), call);
    return Task.toJSON(made);
  },
  async stream(params) {
    const events = [];
    const request = SendMessageRequest.fromJSON(params);
    for await (const each of client.sendMessageStream(request, call)) {
      events.push(StreamResponse.toJSON(each));
    }
    return events;
  },
  async get(params) {
    return Task.toJSON(await client.getTask({ tenant: "", ...params }, call));
  },
  async list() {
    const request = { tenant: "", contextId: "", pageToken: "", status: 0 };
    return ListTasksResponse.toJSON(await client.listTasks(request, call));
  },
  async cancel(params) {
    return Task.toJSON(await client.cancelTask({ tenant: "", ...params }, call));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { operation, params } = JSON.parse(line);
  let answer;
  try {
    answer = { result: await operations[operation](params) };
  } catch (error) {
    answer = { error: error.name, message: error.message };
  }
  console.log(JSON.stringify(answer));
}
