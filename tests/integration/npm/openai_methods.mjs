// node openai_methods.mjs URL CHAT_MODEL EMBEDDING_MODEL: every method of OpenAI's own client, and whether those that are
// said to work do, as one JSON object.
import { createHmac } from 'node:crypto';
import OpenAI, { toFile } from 'openai';

const [url, chat, words] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 60000,
  webhookSecret: 'whsec_c2VjcmV0' });

function* methods(resource, path) {
  const seen = new Set();
  for (let proto = Object.getPrototypeOf(resource); proto && proto !== Object.prototype; proto = Object.getPrototypeOf(proto)) {
    for (const name of Object.getOwnPropertyNames(proto)) {
      const plain = typeof Object.getOwnPropertyDescriptor(proto, name).value === 'function';
      if (plain && name !== 'constructor' && !/^[_#]/.test(name)) seen.add(name);
    }
  }
  for (const name of seen) yield [...path, name].join('.');
  for (const name of Object.keys(resource)) {
    const value = resource[name];
    if (name !== '_client' && value && typeof value === 'object' && '_client' in value) yield* methods(value, [...path, name]);
  }
}

const all = Object.keys(client).filter((name) => client[name] && typeof client[name] === 'object' && '_client' in client[name])
  .flatMap((name) => [...methods(client[name], [name])]);

const ask = { model: chat, messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 };
const respond = { model: chat, input: 'hi', max_output_tokens: 4 };
const schema = { type: 'object', properties: { good: { type: 'boolean' } }, required: ['good'], additionalProperties: false };
const line = (id) => JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body: ask });
const verdict = { model: chat, messages: ask.messages, response_format: { type: 'json_schema',
  json_schema: { name: 'v', schema, strict: true } } };
const text = (count) => Array.from({ length: count }, (_, number) => line(`r${number}`)).join('\n');
const upload = async (count = 1) => (await client.files.create({ file: await toFile(Buffer.from(text(count)), 'a.jsonl'),
  purpose: 'batch' })).id;
const batch = async (count) => (await client.batches.create({ input_file_id: await upload(count),
  endpoint: '/v1/chat/completions', completion_window: '24h' })).id;
const stored = async () => (await client.chat.completions.create({ ...ask, store: true })).id;
const responded = async () => (await client.responses.create(respond)).id;
const ids = async (page) => { const found = []; for await (const one of page) found.push(one.id); return found; };
const body = '{"id": "evt_1", "type": "response.completed", "data": {"id": "resp_1"}, "created_at": 1, "object": "event"}';
const signed = () => {
  const now = `${Math.floor(Date.now() / 1000)}`;
  const made = createHmac('sha256', Buffer.from('secret')).update(`wh_1.${now}.${body}`).digest('base64');
  return { 'webhook-id': 'wh_1', 'webhook-timestamp': now, 'webhook-signature': `v1,${made}` };
};
const cancelled = async (responses) => {
  const stream = await responses.create({ ...respond, max_output_tokens: 3000, stream: true });
  const first = await stream[Symbol.asyncIterator]().next();
  const told = await responses.cancel(first.value.response.id).then((found) => found.status, (error) => error.message);
  stream.controller.abort();
  return told !== 'in_progress' && /^[a-z]+$|has ended/.test(told); // the tiny model may have ended on its own
};
const runs = async () => client.chat.completions.runTools({ ...verdict, tools: [] }).finalContent();

const drives = {
  'batches.create': async () => batch(),
  'batches.retrieve': async () => (await client.batches.retrieve(await batch())).id,
  'batches.list': async () => { const id = await batch(); return (await ids(client.batches.list())).includes(id); },
  'batches.cancel': async () => (await client.batches.cancel(await batch(500))).status === 'cancelling',
  'chat.completions.create': async () => (await client.chat.completions.create(ask)).usage.prompt_tokens > 0,
  'chat.completions.parse': async () => (await client.chat.completions.parse(verdict)).choices[0].message.content,
  'chat.completions.stream': async () => client.chat.completions.stream(verdict).finalContent(),
  'chat.completions.runTools': runs,
  'chat.completions.list': async () => { const id = await stored(); return (await ids(client.chat.completions.list())).includes(id); },
  'chat.completions.retrieve': async () => (await client.chat.completions.retrieve(await stored())).id,
  'chat.completions.update': async () => (await client.chat.completions.update(await stored(), { metadata: { a: 'b' } })).metadata.a === 'b',
  'chat.completions.messages.list': async () => (await client.chat.completions.messages.list(await stored())).data[0].content === 'hi',
  'chat.completions.delete': async () => (await client.chat.completions.delete(await stored())).deleted,
  'completions.create': async () => (await client.completions.create({ model: chat, prompt: 'a', max_tokens: 4 })).usage.prompt_tokens > 0,
  'embeddings.create': async () => (await client.embeddings.create({ model: words, input: 'a' })).data[0].embedding.length === 64,
  'files.create': async () => upload(),
  'files.retrieve': async () => (await client.files.retrieve(await upload())).id,
  'files.list': async () => { const id = await upload(); return (await ids(client.files.list())).includes(id); },
  'files.content': async () => (await (await client.files.content(await upload())).text()) === line('r0'),
  'files.waitForProcessing': async () => (await client.files.waitForProcessing(await upload())).status === 'processed',
  'files.delete': async () => (await client.files.delete(await upload())).deleted,
  'models.list': async () => (await ids(client.models.list())).length === 2,
  'models.retrieve': async () => (await client.models.retrieve(chat)).id === chat,
  'responses.create': async () => (await client.responses.create(respond)).usage.input_tokens > 0,
  'responses.parse': async () => (await client.responses.parse({ model: chat, input: 'a',
    text: { format: { type: 'json_schema', name: 'v', schema, strict: true } } })).output_text,
  'responses.stream': async () => (await client.responses.stream(respond).finalResponse()).id,
  'responses.retrieve': async () => (await client.responses.retrieve(await responded())).id,
  'responses.delete': async () => { await client.responses.delete(await responded()); return true; },
  'responses.cancel': async () => cancelled(client.responses),
  'responses.inputItems.list': async () => (await client.responses.inputItems.list(await responded())).data.length === 1,
  'responses.inputTokens.count': async () => (await client.responses.inputTokens.count({ model: chat, input: 'a' })).input_tokens > 0,
  'beta.responses.create': async () => (await client.beta.responses.create(respond)).id,
  'beta.responses.retrieve': async () => (await client.beta.responses.retrieve(await responded())).id,
  'beta.responses.delete': async () => { await client.beta.responses.delete(await responded()); return true; },
  'beta.responses.cancel': async () => cancelled(client.beta.responses),
  'beta.responses.inputItems.list': async () => (await client.beta.responses.inputItems.list(await responded())).data.length === 1,
  'beta.responses.inputTokens.count': async () => (await client.beta.responses.inputTokens.count({ model: chat, input: 'a' })).input_tokens > 0,
  'webhooks.unwrap': async () => (await client.webhooks.unwrap(body, signed())).id === 'evt_1',
  'webhooks.verifySignature': async () => { await client.webhooks.verifySignature(body, signed()); return true; },
};

const driven = {};
for (const [method, drive] of Object.entries(drives)) {
  if (!all.includes(method)) continue;
  driven[method] = await drive().then(Boolean, (error) => { console.error(method, error); return false; });
}
console.log(JSON.stringify({ methods: all, driven }));
