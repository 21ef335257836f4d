// Handrail's gate in OpenCode: each tool call is put to the hook's program, and runs only with its answer.
// `connect` writes this file with the program's line in it; what goes wrong throws, so the tool does not run.
import { spawn } from "node:child_process"

const LINE = ["@LINE@"]
const notes = new Map()

function ask(role, event) {
  return new Promise((resolve, reject) => {
    const [program, ...rest] = LINE
    // Of the environment of OpenCode, which the project's `.env` adds to, it gets this alone.
    const env = { LC_ALL: "C.UTF-8", HANDRAIL_TOKEN: process.env.HANDRAIL_TOKEN ?? "" }
    const hook = spawn(program, [...rest, role, "opencode"], { stdio: ["pipe", "pipe", "pipe"], env })
    const out = []
    const err = []
    hook.on("error", (error) => reject(new Error(`Handrail's hook did not start (${error.message}), so nothing is allowed.`)))
    hook.stdin.on("error", () => {})
    hook.stdout.on("data", (chunk) => out.push(chunk))
    hook.stderr.on("data", (chunk) => err.push(chunk))
    hook.on("close", (status) => {
      if (status === 0) return resolve(Buffer.concat(out).toString("utf8"))
      const said = Buffer.concat(err).toString("utf8").trim()
      reject(new Error(said || "Handrail's hook failed, so nothing is allowed."))
    })
    hook.stdin.end(JSON.stringify(event))
  })
}

export const Handrail = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const event = { hook_event_name: "tool.execute.before", session_id: input.sessionID, call_id: input.callID }
    const given = { ...event, tool: input.tool, args: output.args, cwd: directory }
    const answer = JSON.parse(await ask("gate", given))
    if (answer.decision !== "allow" || answer.args === null || typeof answer.args !== "object") {
      throw new Error(answer.reason || "Handrail's response is invalid, so nothing is allowed.")
    }
    // Another object in its place would be ignored.
    for (const name of Object.keys(output.args)) delete output.args[name]
    Object.assign(output.args, answer.args)
    if (answer.note) notes.set(input.callID, answer.note)
  },
  "tool.execute.after": async (input, output) => {
    const event = { hook_event_name: "tool.execute.after", session_id: input.sessionID, call_id: input.callID }
    const shown = typeof output.output === "string" ? output.output : ""
    if (notes.has(input.callID)) output.output = `${notes.get(input.callID)}\n\n${shown}`
    notes.delete(input.callID)
    const about = { tool: input.tool, args: input.args ?? {}, cwd: directory, output: shown.slice(-100000) }
    const given = { ...event, ...about, exit: output.metadata?.exit ?? null }
    await ask("report", given).catch(() => {})
  },
})
