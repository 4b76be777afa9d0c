// node openai.mjs URL CHAT_MODEL EMBEDDING_MODEL: what OpenAI's own client makes of the answers, as one JSON object.
import OpenAI from 'openai';

const [url, chatModel, embeddingModel] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60000 });
const asked = {
  model: chatModel, messages: [{ role: 'user', content: 'Write about a quiet library.' }], temperature: 0, max_tokens: 12,
};

const whole = await client.chat.completions.create(asked);
let streamed = '', usage = null;
for await (const chunk of await client.chat.completions.create(
  { ...asked, stream: true, stream_options: { include_usage: true } })) {
  streamed += chunk.choices[0]?.delta?.content ?? '';
  usage = chunk.usage ?? usage;
}
const listed = [];
for await (const model of client.models.list()) listed.push(model.id);
const embedded = await client.embeddings.create({ model: embeddingModel, input: ['one', 'two', 'three'] });
const request = { model: chatModel, input: 'Write about a quiet library.', temperature: 0, max_output_tokens: 12 };
const response = await client.responses.create(request);
let said = '', final = null;
for await (const event of client.responses.stream(request)) {
  if (event.type === 'response.output_text.delta') said += event.delta;
  final = event.response ?? final;
}
const kept = await client.responses.retrieve(final.id);
const next = await client.responses.create({ ...request, input: 'And?', previous_response_id: response.id });
const items = [];
for await (const item of client.responses.inputItems.list(next.id, { order: 'asc', limit: 2 })) items.push(item.content[0].text);
await client.responses.delete(final.id);
const gone = await client.responses.retrieve(final.id).catch((error) => error);
const stored = await client.chat.completions.create({ ...asked, store: true, metadata: { by: 'npm' } });
const found = [];
for await (const one of client.chat.completions.list({ metadata: { by: 'npm' } })) found.push(one.id);
const refused = await client.chat.completions.create({ ...asked, model: 'nobody' }).catch((error) => error);

console.log(JSON.stringify({
  whole: whole.choices[0].message.content, streamed, counted: [whole.usage.completion_tokens, usage.completion_tokens],
  listed, embeddings: embedded.data.map((row) => [row.index, row.embedding]),
  responses: [response.output_text, said, final.output[0].content[0].text, kept.output[0].content[0].text],
  items, gone: gone.status, stored: [stored.id], found,
  refused: [refused.constructor.name, refused.status],
}));
