// node anthropic_methods.mjs URL CHAT_MODEL: what each method of Anthropic's own client comes to, as one JSON object:
// `names`, `worked` (each drives its method), and `refused`: what every other method was answered.
import Anthropic from '@anthropic-ai/sdk';

const [url, model] = process.argv.slice(2);
const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0, timeout: 60000 });
const asked = { model, max_tokens: 8, messages: [{ role: 'user', content: 'Write about a quiet library.' }] };

function* methods(resource, path) {
  for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(resource))) {
    if (name !== 'constructor' && !name.startsWith('_')) yield [...path, name].join('.');
  }
  for (const [name, value] of Object.entries(resource)) {
    if (name !== '_client' && value?._client) yield* methods(value, [...path, name]);
  }
}

async function all(page) {
  const found = [];
  for await (const one of page) found.push(one);
  return found;
}

// One after the other: each takes what the ones before it have made.
const drive = {
  create: async (messages) => (await messages.create(asked)).content[0].text,
  stream: async (messages) => (await messages.stream(asked).finalMessage()).content[0].text,
  countTokens: async (messages) => (await messages.countTokens({ model, messages: asked.messages })).input_tokens,
  parse: async (messages) => (await messages.parse({ ...asked, max_tokens: 200, output_config: { format: {
    type: 'json_schema', schema: { type: 'object', properties: { city: { enum: ['Paris'] } }, required: ['city'] },
    parse: JSON.parse } } })).parsed_output.city,
  toolRunner: async (messages) => {
    const run = () => 'fine';
    const tool = { name: 'weather', description: 'd', input_schema: { type: 'object', properties: {} }, run,
      parse: (input) => input };
    const choice = { type: 'tool', name: 'weather' };
    const runner = messages.toolRunner({ ...asked, max_tokens: 60, tools: [tool], tool_choice: choice, max_iterations: 2 });
    return (await all(runner)).map((message) => message.stop_reason)[0];
  },
  'batches.create': async (messages, kept) => {
    kept.id = (await messages.batches.create({ requests: [{ custom_id: 'a', params: asked }] })).id;
    return kept.id.slice(0, 9);
  },
  'batches.retrieve': async (messages, kept) => {
    while ((await messages.batches.retrieve(kept.id)).processing_status !== 'ended') {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    return 'ended';
  },
  'batches.list': async (messages, kept) => (await all(messages.batches.list())).some((one) => one.id === kept.id),
  'batches.results': async (messages, kept) => (await all(await messages.batches.results(kept.id)))[0].result.type,
  'batches.cancel': async (messages, kept) => (await messages.batches.cancel(kept.id)).request_counts.succeeded,
  'batches.delete': async (messages, kept) => (await messages.batches.delete(kept.id)).type,
};

const worked = {};
for (const [place, resource] of [['', client], ['beta.', client.beta]]) {
  const kept = {};
  for (const [name, run] of Object.entries(drive)) {
    if (name.split('.').reduce((found, part) => found?.[part], resource.messages)) {
      worked[`${place}messages.${name}`] = await run(resource.messages, kept);
    }
  }
  worked[`${place}models.list`] = (await all(resource.models.list())).length;
  worked[`${place}models.retrieve`] = (await resource.models.retrieve(model)).id;
}

const names = Object.entries(client).filter(([, value]) => value?._client)
  .flatMap(([name, value]) => [...methods(value, [name])]);

// Arguments for whatever a method demands: an object that has every field for its parameters, 'x' for each id.
function dummies(method) {
  const fields = { file: new File(['x'], 'x'), files: [] };
  const get = (held, key) => (typeof key === 'symbol' ? undefined : held[key] ?? 'x');
  const named = /\(([^)]*)\)/.exec(method.toString())[1].split(',').map((each) => each.trim().split(' ')[0]);
  return named.filter((each) => each && each !== 'options')
    .map((each) => (/^(params|body)/.test(each) ? new Proxy(fields, { get }) : 'x'));
}

const refused = {};
for (const name of names.filter((each) => !(each in worked) && !/beta.webhooks|poller|worker|toolRunner/.test(each))) {
  const parts = name.split('.');
  const resource = parts.slice(0, -1).reduce((found, part) => found[part], client);
  try {
    const method = parts.at(-1);
    if (name === 'beta.messages.thread') {
      await resource.thread({ model, max_tokens: 4, messages: asked.messages }).send();
    } else {
      await resource[method](...dummies(resource[method]));
    }
    refused[name] = 'answered';
  } catch (error) {
    refused[name] = error.status && error.error?.type === 'error' ? error.status : String(error).slice(0, 90);
  }
}
console.log(JSON.stringify({ names, worked, refused }));
