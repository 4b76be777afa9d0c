// node ollama.mjs URL CHAT_MODEL EMBEDDING_MODEL: what Ollama's own client makes of the answers, as one JSON object.
import { Ollama } from 'ollama';

const [url, chatModel, embeddingModel] = process.argv.slice(2);
const client = new Ollama({ host: url });
const options = { temperature: 0, num_predict: 12, seed: 1 };
const asked = {
  model: chatModel, messages: [{ role: 'user', content: 'Write about a quiet library.' }], options,
};
const failure = (error) => [error.constructor.name, error.status_code, String(error.error ?? error.message)];
const driven = {};
const drive = async (method, ...given) => {
  driven[method] = await client[method](...given).catch(failure);
  return driven[method];
};

const whole = await drive('chat', asked);
let streamed = '', last = null;
for await (const part of await client.chat({ ...asked, stream: true })) {
  streamed += part.message.content;
  last = part;
}
const listed = (await drive('list')).models.map((model) => model.name);
const embedded = await drive('embed', { model: embeddingModel, input: ['one', 'two', 'three'] });
const older = await drive('embeddings', { model: embeddingModel, prompt: 'one' });
const refused = await client.chat({ ...asked, model: 'nobody' }).catch((error) => error);

const first = await drive('generate', { model: chatModel, prompt: 'A library', options, logprobs: true });
const again = await client.generate({ model: chatModel, prompt: 'And?', options, context: first.context });
await drive('ps');
await drive('version');
await drive('show', { model: chatModel });
await drive('create', { model: 'mine', from: chatModel, system: 'Be brief.' });
await drive('copy', { source: 'mine', destination: 'copied' });
await drive('delete', { model: 'copied' });
await drive('pull', { model: chatModel, insecure: true });
await drive('push', { model: chatModel });
await drive('systemone', { model: chatModel, state: 's', questions: { q: { type: 'noul', instructions: 'i' } } });
await drive('encodeImage', new Uint8Array([1, 2, 3]));
await drive('fileExists', '/nowhere/at/all');
await drive('processStreamableRequest', 'generate', { model: chatModel, prompt: 'A', options });

const endless = await client.generate({ model: chatModel, prompt: 'A', stream: true });
driven.abort = 'was not';
try {
  for await (const part of endless) client.abort();
} catch (error) {
  driven.abort = error.name;
}

const methods = new Set();
for (let kind = Object.getPrototypeOf(client); kind !== Object.prototype; kind = Object.getPrototypeOf(kind)) {
  Object.getOwnPropertyNames(kind).forEach((name) => methods.add(name));
}
methods.delete('constructor');

console.log(JSON.stringify({
  whole: whole.message.content, streamed, counted: [whole.eval_count, last.eval_count], done: last.done,
  listed, embeddings: embedded.embeddings.map((row, index) => [index, row]), older: older.embedding,
  refused: [refused.constructor.name, refused.status_code], methods: [...methods], driven,
  asksOllama: ['webFetch', 'webSearch'].map((name) => String(client[name]).includes('https://ollama.com')),
  context: [first.context.length, again.context.slice(0, first.context.length).join() === first.context.join()],
}));
