// node anthropic.mjs URL CHAT_MODEL: what Anthropic's own client makes of the answers, as one JSON object.
import Anthropic from '@anthropic-ai/sdk';

const [url, chatModel] = process.argv.slice(2);
const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0, timeout: 60000 });
const prompt = {
  model: chatModel, system: 'Be brief.', messages: [{ role: 'user', content: 'Write about a quiet library.' }],
};
const asked = { ...prompt, temperature: 0, max_tokens: 12 };

const whole = await client.messages.create(asked);
const stream = client.messages.stream(asked);
let streamed = '';
stream.on('text', (piece) => { streamed += piece; });
const final = await stream.finalMessage();
const counted = await client.messages.countTokens(prompt);
const refused = await client.messages.create({ ...asked, model: 'nobody' }).catch((error) => error);

console.log(JSON.stringify({
  whole: whole.content[0].text, streamed, final: final.content[0].text,
  counted: [whole.usage.output_tokens, final.usage.output_tokens],
  input: [whole.usage.input_tokens + whole.usage.cache_read_input_tokens, counted.input_tokens],
  refused: [refused.constructor.name, refused.status],
}));
