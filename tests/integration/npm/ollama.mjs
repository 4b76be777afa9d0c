// node ollama.mjs URL CHAT_MODEL EMBEDDING_MODEL: what Ollama's own client makes of the answers, as one JSON object.
import { Ollama } from 'ollama';

const [url, chatModel, embeddingModel] = process.argv.slice(2);
const client = new Ollama({ host: url });
const asked = {
  model: chatModel, messages: [{ role: 'user', content: 'Write about a quiet library.' }],
  options: { temperature: 0, num_predict: 12 },
};

const whole = await client.chat(asked);
let streamed = '', last = null;
for await (const part of await client.chat({ ...asked, stream: true })) {
  streamed += part.message.content;
  last = part;
}
const listed = (await client.list()).models.map((model) => model.name);
const embedded = await client.embed({ model: embeddingModel, input: ['one', 'two', 'three'] });
const older = await client.embeddings({ model: embeddingModel, prompt: 'one' });
const refused = await client.chat({ ...asked, model: 'nobody' }).catch((error) => error);

console.log(JSON.stringify({
  whole: whole.message.content, streamed, counted: [whole.eval_count, last.eval_count], done: last.done,
  listed, embeddings: embedded.embeddings.map((row, index) => [index, row]), older: older.embedding,
  refused: [refused.constructor.name, refused.status_code],
}));
