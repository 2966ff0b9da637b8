// Reads streams with the providers' own clients: `node sdk.mjs URL`, a JSON list of {id, api} on stdin. Prints a JSON object:
// by id, what the client's stream helper made of the stream at URL/ID, or {failed: why}.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const messages = [{ role: "user", content: "hi" }];

const readers = {
  async anthropic(base) {
    const client = new Anthropic({ baseURL: base, apiKey: "k", maxRetries: 0 });
    const m = await client.messages.stream({ model: "m", max_tokens: 1000, messages }).finalMessage();
    return { content: m.content, stop: m.stop_reason, usage: m.usage };
  },
  async chat(base) {
    const client = new OpenAI({ baseURL: base, apiKey: "k", maxRetries: 0 });
    const params = { model: "m", messages, stream_options: { include_usage: true } };
    const c = await client.chat.completions.stream(params).finalChatCompletion();
    return { message: c.choices[0].message, stop: c.choices[0].finish_reason, usage: c.usage };
  },
  async responses(base) {
    const client = new OpenAI({ baseURL: base, apiKey: "k", maxRetries: 0 });
    const r = await client.responses.stream({ model: "m", input: "hi" }).finalResponse();
    return { output: r.output, reason: r.incomplete_details?.reason ?? null, status: r.status, usage: r.usage };
  },
};

let given = "";
for await (const piece of process.stdin) given += piece;
const jobs = JSON.parse(given);
const results = {};

async function work() {
  for (let job = jobs.shift(); job; job = jobs.shift()) {
    try {
      results[job.id] = await readers[job.api](`${process.argv[2]}/${job.id}`);
    } catch (error) {
      results[job.id] = { failed: String(error) };
    }
  }
}

await Promise.all([work(), work(), work(), work()]);
console.log(JSON.stringify(results));
