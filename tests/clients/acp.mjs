// Drives an agent with the protocol's official client: one prompt in a new session. Returns what the client was shown.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

export async function converse(command, environment, cwd, text) {
  const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"], env: environment });
  const updates = [];
  const asked = [];
  const app = client({ name: "test" })
    .onNotification(methods.client.session.update, ({ params }) => {
      updates.push(params.update);
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      asked.push(params.toolCall.title);
      return { outcome: { outcome: "selected", optionId: params.options.find(({ kind }) => kind === "allow_once").optionId } };
    });
  const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  try {
    return await app.connectWith(stream, async (context) => {
      const hello = await context.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
      const { sessionId } = await context.request(methods.agent.session.new, { cwd, mcpServers: [] });
      const prompt = [{ type: "text", text }];
      const { stopReason } = await context.request(methods.agent.session.prompt, { sessionId, prompt });
      return { agent: hello.agentInfo.name, updates, asked, stopReason };
    });
  } finally {
    agent.kill();
  }
}
