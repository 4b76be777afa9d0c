// node ollama_pull.mjs URL MODEL MISSING: a pull as Ollama's own client sees it, as one JSON object.
import { Ollama } from 'ollama';

const [url, model, missing] = process.argv.slice(2);
const client = new Ollama({ host: url });

const parts = [];
for await (const part of await client.pull({ model, stream: true })) {
  parts.push(part);
}
const whole = await client.pull({ model, stream: false });
let refused = null;
try {
  for await (const part of await client.pull({ model: missing, stream: true })) {
    refused = part;
  }
} catch (error) {
  refused = error.message;
}
const wholly = await client.pull({ model: missing, stream: false }).catch((error) => error);

console.log(JSON.stringify({ parts, whole, refused, wholly: [wholly.constructor.name, wholly.status_code] }));
