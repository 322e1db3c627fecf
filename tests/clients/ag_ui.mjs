// An AG-UI client: sends its requests to a thread one after the other, then returns its messages, state and events.
// A request that is a JSON array is a list of content parts. One that starts with @ answers all pending interrupts with what
// follows: @{"payload": …} or @{"status": "cancelled"}. Calls of the client's own tools get the results that `side` has for them.
export async function converse(library, url, token, threadId, requests, side) {
  const { HttpAgent, buildResumeArray } = await import(library);
  const agent = new HttpAgent({ url, threadId, headers: { Authorization: `Bearer ${token}` } });
  const events = [];
  const interrupts = []; // those that are pending after each request
  let error = null;

  function answerAll(response) {
    const entries = agent.pendingInterrupts.map(({ id }) => [id, { status: "resolved", ...response }]);
    return { resume: buildResumeArray(agent.pendingInterrupts, Object.fromEntries(entries)) };
  }

  async function run(parameters) {
    const { tools, context } = side;
    await agent.runAgent({ tools, context, ...parameters }, { onEvent: ({ event }) => void events.push(event) });
    const done = new Set(agent.messages.map(({ toolCallId }) => toolCallId));
    const calls = agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []);
    const open = calls.filter((call) => call.function.name in side.results && !done.has(call.id));
    for (const call of open) {
      agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: side.results[call.function.name] });
    }
    if (open.length) await run({});
  }

  for (const [index, request] of requests.entries()) {
    const content = request.startsWith("[") ? JSON.parse(request) : request;
    const isAnswer = request.startsWith("@");
    if (!isAnswer) agent.addMessage({ id: `request-${index}`, role: "user", content });
    try {
      const parameters = isAnswer ? answerAll(JSON.parse(request.slice(1))) : {};
      await run(parameters);
    } catch (failure) {
      error = String(failure.message);
    }
    interrupts.push(agent.pendingInterrupts);
  }
  return { messages: agent.messages, state: agent.state, events, interrupts, error };
}
