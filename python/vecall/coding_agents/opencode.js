// vecall install: a plugin of opencode. It recalls memories for a prompt, and remembers
// what was said when the session is idle. A failure changes nothing.
import { spawn } from "node:child_process"

const COMMANDS = {}

// Runs a hook with JSON on its standard input; returns its JSON, or nothing.
function run(verb, input) {
  return new Promise((done) => {
    const child = spawn(COMMANDS[verb], { shell: true, stdio: ["pipe", "pipe", "ignore"] })
    let printed = ""
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => (printed += text))
    child.stdin.on("error", () => {})
    child.on("error", () => done())
    child.on("close", () => {
      try {
        done(JSON.parse(printed))
      } catch {
        done()
      }
    })
    child.stdin.end(JSON.stringify(input))
  })
}

const said = (parts) =>
  parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)

export const Vecall = async ({ client, directory }) => ({
  "chat.message": async ({ sessionID }, { message, parts }) => {
    const texts = said(parts)
    if (!texts.length) return
    const answer = await run("recall", {
      hook_event_name: "chat.message",
      session_id: sessionID,
      cwd: directory,
      prompt: texts.map((part) => part.text).join("\n"),
    })
    const text = answer?.additional_context
    if (!text) return
    // Ids sort by time; this one comes after that of the last part.
    const id = `${parts[parts.length - 1].id}0`
    parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
  },
  event: async ({ event }) => {
    if (event.type !== "session.idle") return
    try {
      const sessionID = event.properties.sessionID
      const path = { id: sessionID }
      const { data: session } = await client.session.get({ path })
      if (!session || session.parentID) return // of a subagent
      const { data: messages } = await client.session.messages({ path })
      const own = messages.filter(({ info }) => info.summary !== true) // no compaction
      const turns = own.map(({ info, parts }) => ({
        id: info.id,
        role: info.role,
        text: said(parts).map((part) => part.text).join("\n"),
        timestamp: new Date(info.time.created).toISOString(),
      }))
      await run("retain", { hook_event_name: "session.idle", session_id: sessionID, cwd: directory, turns })
    } catch {}
  },
})
