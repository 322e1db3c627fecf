// An AG-UI client: sends its requests to a thread one after the other, then returns its messages, state and events.
// A request that is a JSON array is a list of content parts.
export async function converse(library, url, token, threadId, requests) {
  const { HttpAgent } = await import(library);
  const agent = new HttpAgent({ url, threadId, headers: { Authorization: `Bearer ${token}` } });
  const events = [];
  let error = null;
  for (const [index, request] of requests.entries()) {
    const content = request.startsWith("[") ? JSON.parse(request) : request;
    agent.addMessage({ id: `request-${index}`, role: "user", content });
    try {
      await agent.runAgent({}, { onEvent: ({ event }) => void events.push(event) });
    } catch (failure) {
      error = String(failure.message);
    }
  }
  return { messages: agent.messages, state: agent.state, events, error };
}
