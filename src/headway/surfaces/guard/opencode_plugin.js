// The headway guard for opencode: passes events to `headway guard hook opencode`, and sends the agent back if it may not stop.
// `headway guard uninstall opencode` removes this file.
import { spawn } from "node:child_process"

const COMMAND = ["headway"]
const LIMIT_MS = 900_000 // checks may take minutes
const FAILED = { notice: "Headway's guard is off: its program did not run." }
const TASK_RESULT = /(<task_result>\n)[^]*(\n<\/task_result>)/ // in the result of the tool `task`

const ask = (event) =>
  new Promise((resolve) => {
    try {
      const program = spawn(COMMAND[0], [...COMMAND.slice(1), "guard", "hook", "opencode"], {
        stdio: ["pipe", "pipe", "ignore"],
        timeout: LIMIT_MS,
      })
      let output = ""
      program.on("error", () => resolve(FAILED))
      program.stdin.on("error", () => {})
      program.stdout.on("data", (data) => {
        output += data
      })
      program.on("close", () => {
        try {
          resolve(JSON.parse(output))
        } catch {
          resolve(FAILED)
        }
      })
      program.stdin.end(JSON.stringify(event))
    } catch {
      resolve(FAILED)
    }
  })

const readText = (parts) =>
  parts
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n")

export const HeadwayGuard = async ({ client, directory }) => {
  const parents = new Map() // of the sessions of sub-agents
  const openings = new Map() // what sessions were told at their start. The system prompt is built for each request
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
    const { info, parts = [] } = messages.filter((message) => message.info.role === "assistant").at(-1) ?? {}
    return { info, text: readText(parts) }
  }

  /** Ask whether a session may stop. If not, return the prompt that sends it back, to the same agent and model. */
  const refuse = async (sessionID) => {
    const { info, text } = await readLastAnswer(sessionID)
    if (!info || info.error || info.agent === "plan") return // interrupted, failed, or made to show a plan
    const answer = await ask({
      ...describe(sessionID),
      hook_event_name: parents.has(sessionID) ? "SubagentStop" : "Stop",
      last_assistant_message: text,
      stop_hook_active: repeated.has(sessionID),
    })
    await tell(answer)
    repeated.delete(sessionID)
    if (!answer.refusal) return
    repeated.add(sessionID)
    const { agent, providerID, modelID } = info
    const parts = [{ type: "text", text: answer.refusal }]
    return { path: { id: sessionID }, body: { agent, model: { providerID, modelID }, parts } }
  }

  /** Let a sub-agent finish its list before its parent gets the result. */
  const finishTask = async (sessionID, output) => {
    for (let prompt = await refuse(sessionID); prompt; prompt = await refuse(sessionID)) {
      const { data } = await client.session.prompt(prompt)
      if (!data) return
      const text = readText(data.parts)
      const isFramed = TASK_RESULT.test(output.output)
      output.output = isFramed ? output.output.replace(TASK_RESULT, (_, start, end) => start + text + end) : text
    }
  }

  const stop = async (sessionID) => {
    if (parents.has(sessionID)) return // its parent's call of the tool `task` waits for it
    const prompt = await refuse(sessionID)
    if (prompt) await client.session.promptAsync(prompt)
  }

  return {
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created" && info?.parentID) parents.set(info.id, parents.get(info.parentID) ?? info.parentID)
      if (event.type === "session.compacted") openings.delete(event.properties.sessionID)
      if (event.type === "session.deleted" && info) await ask({ ...describe(info.id), hook_event_name: "SessionEnd" })
      if (event.type === "session.idle") await stop(event.properties.sessionID).catch(() => {})
    },
    "tool.execute.after": async (input, output) => {
      const child = input.tool === "task" && output.metadata?.sessionId
      if (child) await finishTask(child, output).catch(() => {})
      if (input.tool !== "todowrite") return
      const call = { hook_event_name: "PostToolUse", tool_name: input.tool, tool_input: input.args }
      await tell(await ask({ ...describe(input.sessionID), ...call }))
    },
    "experimental.chat.system.transform": async (input, output) => {
      const id = input.sessionID
      if (!id || parents.has(id)) return
      if (!openings.has(id)) {
        const answer = await ask({ ...describe(id), hook_event_name: "SessionStart" })
        await tell(answer)
        openings.set(id, answer.context)
      }
      if (openings.get(id)) output.system.push(openings.get(id))
    },
  }
}
