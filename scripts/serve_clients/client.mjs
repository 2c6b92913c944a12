// What the official openai client of Node does with gorgon serve.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "clients-key", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "user", content: "Who are you?" }];
const request = { model, messages, temperature: 0, max_tokens: 40 };
const whole = await client.chat.completions.create(request);
const text = whole.choices[0].message.content;
assert.ok(text.length > 0);

let streamed = "";
for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
}
assert.equal(streamed, text);

const runner = client.chat.completions.stream({ ...request, logprobs: true });
assert.equal((await runner.finalChatCompletion()).choices[0].message.content, text);

await assert.rejects(client.chat.completions.create({ ...request, temperature: -1 }), OpenAI.BadRequestError);
await assert.rejects(client.chat.completions.create({ ...request, model: "gpt-9" }), OpenAI.NotFoundError);

// A client that leaves.
const controller = new AbortController();
const long = { ...request, max_tokens: 500, ignore_eos: true, stream: true };
const leaving = await client.chat.completions.create(long, { signal: controller.signal });
for await (const chunk of leaving) {
  if (chunk) controller.abort();
}
console.log(`openai (Node ${process.version}): ok, ${JSON.stringify(text)}`);
