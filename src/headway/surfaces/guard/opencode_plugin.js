// The headway guard for opencode: passes events to `headway guard hook opencode`, and sends the agent back if it may not stop.
// `headway guard uninstall opencode` removes this file.
import { spawn } from "node:child_process"

const COMMAND = ["headway"]

const ask = (event) =>
  new Promise((resolve) => {
    const nothing = {}
    try {
      const program = spawn(COMMAND[0], [...COMMAND.slice(1), "guard", "hook", "opencode"], { stdio: ["pipe", "pipe", "ignore"] })
      let output = ""
      program.on("error", () => resolve({ notice: "Headway's guard is off: its program was not found." }))
      program.stdin.on("error", () => {})
      program.stdout.on("data", (data) => {
        output += data
      })
      program.on("close", () => {
        try {
          resolve(JSON.parse(output || "{}"))
        } catch {
          resolve(nothing)
        }
      })
      program.stdin.end(JSON.stringify(event))
    } catch {
      resolve(nothing)
    }
  })

export const HeadwayGuard = async ({ client, directory }) => {
  const parents = new Map() // of the sessions of sub-agents
  const begun = new Set()
  const repeated = new Set() // sessions that were sent back since the user's last message

  const describe = (sessionID) => {
    const parent = parents.get(sessionID)
    return { session_id: parent ?? sessionID, cwd: directory, ...(parent ? { agent_id: sessionID } : {}) }
  }

  const tell = async (answer) => {
    if (!answer.notice) return
    console.error(answer.notice)
    await client.tui.showToast({ body: { message: answer.notice, variant: "warning" } }).catch(() => {})
  }

  const readLastAnswer = async (sessionID) => {
    const messages = (await client.session.messages({ path: { id: sessionID } })).data ?? []
    const last = messages.filter((message) => message.info.role === "assistant").at(-1)
    const text = (last?.parts ?? []).filter((part) => part.type === "text").map((part) => part.text)
    return { text: text.join("\n"), isStopped: Boolean(last?.info.error) }
  }

  const stop = async (sessionID) => {
    const last = await readLastAnswer(sessionID)
    if (last.isStopped) return // the user interrupted it, or the provider failed
    const name = parents.has(sessionID) ? "SubagentStop" : "Stop"
    const answer = await ask({
      ...describe(sessionID),
      hook_event_name: name,
      last_assistant_message: last.text,
      stop_hook_active: repeated.has(sessionID),
    })
    await tell(answer)
    repeated.delete(sessionID)
    if (!answer.refusal) return
    repeated.add(sessionID)
    await client.session.promptAsync({ path: { id: sessionID }, body: { parts: [{ type: "text", text: answer.refusal }] } })
  }

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created" && info?.parentID) parents.set(info.id, parents.get(info.parentID) ?? info.parentID)
      if (event.type === "session.compacted") begun.delete(event.properties.sessionID)
      if (event.type === "session.deleted" && info) await ask({ ...describe(info.id), hook_event_name: "SessionEnd" })
      if (event.type === "session.idle") await stop(event.properties.sessionID).catch(() => {})
    },
    "tool.execute.after": async (input) => {
      if (input.tool !== "todowrite") return
      const call = { hook_event_name: "PostToolUse", tool_name: input.tool, tool_input: input.args }
      await tell(await ask({ ...describe(input.sessionID), ...call }))
    },
    "experimental.chat.system.transform": async (input, output) => {
      if (!input.sessionID || begun.has(input.sessionID) || parents.has(input.sessionID)) return
      begun.add(input.sessionID)
      const answer = await ask({ ...describe(input.sessionID), hook_event_name: "SessionStart" })
      await tell(answer)
      if (answer.context) output.system.push(answer.context)
    },
  }
}
