// `useChat` without React: sends its requests to a chat one after the other, then returns its messages and data.
// A request that is a JSON object is a message with files.
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

export async function converse(library, api, token, id, requests) {
  const { AbstractChat, DefaultChatTransport } = await import(library);

  class Chat extends AbstractChat {
    constructor(init) {
      super({ ...init, state: new State() });
    }
  }

  const data = [];
  const toolCalls = [];
  const chat = new Chat({
    id,
    transport: new DefaultChatTransport({ api, headers: { Authorization: `Bearer ${token}` } }),
    onData: (part) => void data.push(part),
    onToolCall: ({ toolCall }) => void toolCalls.push(toolCall),
  });
  for (const request of requests) await chat.sendMessage(request.startsWith("{") ? JSON.parse(request) : { text: request });
  const { messages, status, error } = chat;
  return { messages, data, toolCalls, status, error: error ? error.message : null };
}
