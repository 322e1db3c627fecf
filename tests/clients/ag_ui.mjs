// One AG-UI client: says one thing after the other in a thread, and prints what it has of it in the end.
const [library, url, token, threadId, ...requests] = process.argv.slice(2);
const { HttpAgent } = await import(library);

const agent = new HttpAgent({ url, threadId, headers: { Authorization: `Bearer ${token}` } });
const events = [];
let error = null;
for (const [place, content] of requests.entries()) {
  agent.addMessage({ id: `request-${place}`, role: "user", content });
  try {
    await agent.runAgent({}, { onEvent: ({ event }) => void events.push(event) });
  } catch (failure) {
    error = String(failure.message);
  }
}
console.log(JSON.stringify({ messages: agent.messages, state: agent.state, events, error }));
