// An AG-UI client: sends its requests to a thread one after the other, then returns its messages, state and events.
// A request that is a JSON array is a list of content parts. One that starts with @ answers all pending interrupts with what
// follows: @{"payload": …} or @{"status": "cancelled"}.
export async function converse(library, url, token, threadId, requests) {
  const { HttpAgent, buildResumeArray } = await import(library);
  const agent = new HttpAgent({ url, threadId, headers: { Authorization: `Bearer ${token}` } });
  const events = [];
  const interrupts = []; // those that are pending after each request
  let error = null;

  function answerAll(response) {
    const entries = agent.pendingInterrupts.map(({ id }) => [id, { status: "resolved", ...response }]);
    return { resume: buildResumeArray(agent.pendingInterrupts, Object.fromEntries(entries)) };
  }

  for (const [index, request] of requests.entries()) {
    const content = request.startsWith("[") ? JSON.parse(request) : request;
    const isAnswer = request.startsWith("@");
    if (!isAnswer) agent.addMessage({ id: `request-${index}`, role: "user", content });
    try {
      const parameters = isAnswer ? answerAll(JSON.parse(request.slice(1))) : {};
      await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) });
    } catch (failure) {
      error = String(failure.message);
    }
    interrupts.push(agent.pendingInterrupts);
  }
  return { messages: agent.messages, state: agent.state, events, interrupts, error };
}
