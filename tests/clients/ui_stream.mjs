// What `useChat` is made of, without React: says one thing after the other in a chat, and prints what it has of it in the end.
const [library, api, token, id, ...requests] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport } = await import(library);

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

class Chat extends AbstractChat {
  constructor(init) {
    super({ ...init, state: new State() });
  }
}

const data = [];
const asked = [];
const chat = new Chat({
  id,
  transport: new DefaultChatTransport({ api, headers: { Authorization: `Bearer ${token}` } }),
  onData: (part) => void data.push(part),
  onToolCall: ({ toolCall }) => void asked.push(toolCall),
});
for (const text of requests) await chat.sendMessage({ text });
const { messages, status, error } = chat;
console.log(JSON.stringify({ messages, data, asked, status, error: error ? error.message : null }));
