// `useChat` without React: sends its requests to a chat one after the other, then returns its messages and data.
// A request that is a JSON object is a message with files. One that starts with @ answers what the chat waits for:
// @approve, @deny REASON or @answer TEXT. @resume continues the stream of a running turn, and @stop cancels the turn. Calls of the
// client's own tools get the results that `side` has for them.
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void this.messages.push(message);
  popMessage = () => void this.messages.pop();
  replaceMessage = (index, message) => {
    this.messages[index] = message;
  };
  snapshot = (value) => structuredClone(value);
}

export async function converse(library, api, token, id, requests, side) {
  const sdk = await import(library);
  const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } = sdk;
  const isVersion5 = library === "ai-5";

  class Chat extends AbstractChat {
    constructor(init) {
      super({ ...init, state: new State() });
    }
  }

  const data = [];
  const toolCalls = [];
  const waits = []; // the parts that wait after each request
  let sent = 0;
  let finish = () => {};
  const chat = new Chat({
    id,
    transport: new DefaultChatTransport({
      api,
      headers: { Authorization: `Bearer ${token}` },
      body: { ...(isVersion5 ? { sdk: 5 } : {}), tools: side.tools, context: side.context },
      fetch: (...request) => {
        sent += 1;
        return fetch(...request);
      },
    }),
    onData: (part) => void data.push(part),
    onToolCall: ({ toolCall }) => {
      toolCalls.push(toolCall);
      const { toolName: tool, toolCallId } = toolCall;
      if (tool in side.results) void chat.addToolOutput({ tool, toolCallId, output: side.results[tool] });
    },
    onFinish: () => finish(),
    sendAutomaticallyWhen: (options) =>
      lastAssistantMessageIsCompleteWithToolCalls(options) ||
      Boolean(sdk.lastAssistantMessageIsCompleteWithApprovalResponses?.(options)),
  });

  function listWaiting() {
    const isWaiting = ({ type, state, toolName }) =>
      state === "approval-requested" || (toolName === "ask_person" && state === "input-available") || type === "data-approval";
    return (chat.lastMessage?.parts ?? []).filter(isWaiting);
  }

  async function answer(how, text) {
    const finished = new Promise((resolve) => {
      finish = resolve; // the client sends the answer by itself
    });
    for (const part of listWaiting()) {
      const reason = text || undefined;
      if (how === "answer") await chat.addToolOutput({ tool: "ask_person", toolCallId: part.toolCallId, output: text });
      else if (!isVersion5) await chat.addToolApprovalResponse({ id: part.approval.id, approved: how === "approve", reason });
      else {
        const output = { approved: how === "approve", reason };
        await chat.addToolOutput({ tool: part.data.tool, toolCallId: part.data.tool_call_id, output });
      }
    }
    if (isVersion5 && how !== "answer") await chat.sendMessage();
    await finished;
    await settle();
  }

  async function settle() {
    while (chat.status === "submitted" || chat.status === "streaming") await new Promise((resolve) => setImmediate(resolve));
  }

  for (const request of requests) {
    const [, how, text] = /^@(\w+) ?(.*)$/.exec(request) ?? [];
    if (how === "resume") await chat.resumeStream();
    else if (how === "stop") await fetch(`${api}/${id}/stop`, { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    else if (how) await answer(how, text);
    else await chat.sendMessage(request.startsWith("{") ? JSON.parse(request) : { text: request });
    await settle();
    waits.push(listWaiting().map((part) => structuredClone(part)));
  }
  const { messages, status, error } = chat;
  return { messages, data, toolCalls, waits, sent, status, error: error ? error.message : null };
}
