// OpenAI's client: streams one chat completion after the other, with its history, then a response, and returns what it saw.
export async function converse(library, baseURL, apiKey, model, requests) {
  const { default: OpenAI } = await import(library);
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const models = (await client.models.list()).data.map(({ id }) => id);
  const messages = [];
  const progress = [];
  for (const content of requests) {
    messages.push({ role: "user", content });
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    const answer = { role: "assistant", content: "" };
    let reasoning = "";
    for await (const { choices } of stream) {
      answer.content += choices[0]?.delta.content ?? "";
      reasoning += choices[0]?.delta.reasoning_content ?? "";
    }
    messages.push(answer);
    progress.push(reasoning);
  }
  const response = await client.responses.stream({ model, input: requests[0] }).finalResponse();
  const refused = await client.chat.completions.create({ model, messages, n: 2 }).catch((error) => error);
  return { models, messages, progress, response, refused: { status: refused.status, code: refused.code, param: refused.param } };
}
