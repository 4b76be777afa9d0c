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
const refused = await client.chat.completions.create({ ...asked, model: 'nobody' }).catch((error) => error);

console.log(JSON.stringify({
  whole: whole.choices[0].message.content, streamed, counted: [whole.usage.completion_tokens, usage.completion_tokens],
  listed, embeddings: embedded.data.map((row) => [row.index, row.embedding]),
  refused: [refused.constructor.name, refused.status],
}));
