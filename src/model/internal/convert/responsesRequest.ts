import * as Either from "effect/Either"
import { dropped, type Fate, isEmpty, passing, streamFields, toolFields } from "./chatFields.js"
import { type ChatWriting, writeChatMessages } from "./chatWrite.js"
import { each, isSet, type JsonObject, list, nonEmpty, object, type Reading, refuse, string, typeName } from "./json.js"
import { readResponsesInput } from "./responsesRead.js"
import * as tools from "./tools.js"
import { called, type InputTurn, type Turn } from "./turn.js"

const state = "what only the server that keeps it can look up"

const fates: Readonly<Record<string, Fate>> = {
  background: { refuse: "a reply that is fetched later", unless: (value) => value === false },
  conversation: { refuse: `a conversation by id, ${state}` },
  previous_response_id: { refuse: `an earlier response by id, ${state}` },
  prompt: { refuse: `a prompt by id, ${state}` },
  context_management: { refuse: "a history that the server shortens", unless: isEmpty },
  truncation: { refuse: "a history that the server shortens", unless: (value) => value === "disabled" },
  include: {
    refuse: "more than a chat completion tells",
    // Sealed reasoning is for servers that hide it; a bridge tells it openly.
    unless: (value) => Array.isArray(value) && value.every((item) => item === "reasoning.encrypted_content")
  },
  // It counts calls of tools that the server runs, and those are refused.
  max_tool_calls: dropped,
  // Its one use is padding of a Responses stream.
  stream_options: dropped
}

const taken = new Set([
  "input",
  "instructions",
  "max_output_tokens",
  "parallel_tool_calls",
  "reasoning",
  "text",
  "tool_choice",
  "tools"
])

// -----------------------------------------------------------------------------
// Messages
// -----------------------------------------------------------------------------

const isLeading = (turn: Turn): turn is InputTurn => turn.role === "system" || turn.role === "developer"

const words = (turn: InputTurn): Reading<string> =>
  Either.map(
    Either.all(
      turn.pieces.map((piece) =>
        piece._tag === "text"
          ? Either.right(piece.text)
          : refuse(turn.path, `${called(piece)} in a ${turn.role} message that is joined to the instructions`)
      )
    ),
    (texts) => texts.join("")
  )

/** Instructions and the system messages that begin the history are one system message, a blank line between them. */
const instructed = (instructions: string, turns: ReadonlyArray<Turn>): Reading<ReadonlyArray<Turn>> => {
  const end = turns.findIndex((turn) => !isLeading(turn))
  const cut = end === -1 ? turns.length : end
  return Either.map(Either.all(turns.slice(0, cut).filter(isLeading).map(words)), (texts) => [
    {
      role: "system" as const,
      pieces: [{ _tag: "text" as const, text: [instructions, ...texts].join("\n\n") }],
      plain: true,
      path: "instructions"
    },
    ...turns.slice(cut)
  ])
}

const messages = (body: JsonObject, writing: ChatWriting): Reading<ReadonlyArray<JsonObject>> =>
  Either.gen(function* () {
    const { instructions } = body
    const turns = yield* readResponsesInput(body["input"], "input", { detail: "auto" })
    const told = isSet(instructions) ? yield* string(instructions, "instructions") : ""
    return yield* writeChatMessages(told === "" ? turns : yield* instructed(told, turns), writing)
  })

// -----------------------------------------------------------------------------
// Fields
// -----------------------------------------------------------------------------

const chatTool = (value: unknown, path: string): Reading<JsonObject> =>
  Either.map(tools.responsesFunction(value, path), ({ strict: _strict, type: _type, ...described }) => ({
    type: "function",
    function: described
  }))

const toolChoice = (value: unknown): Reading<string | JsonObject | undefined> =>
  isSet(value)
    ? Either.map(tools.fromResponsesChoice(value, "tool_choice"), (choice) =>
        typeof choice === "string" ? choice : { type: "function", function: { name: choice.name } }
      )
    : Either.right(undefined)

const effort = (value: unknown): Reading<JsonObject> =>
  Either.gen(function* () {
    if (!isSet(value)) return {}
    const reasoning = yield* object(value, "reasoning")
    // A bridge tells the reasoning itself, which is more than any summary.
    const { effort, generate_summary: _old, summary: _summary, ...others } = reasoning
    const [other] = Object.keys(others).filter((key) => isSet(others[key]))
    if (other !== undefined) return yield* refuse(`reasoning.${other}`, "what chat completions have no field for")
    return isSet(effort) ? { reasoning_effort: yield* string(effort, "reasoning.effort") } : {}
  })

const responseFormat = (value: unknown): Reading<JsonObject> =>
  Either.gen(function* () {
    if (!isSet(value)) return {}
    const format = yield* object(value, "text.format")
    switch (format["type"]) {
      case "text":
        return {}
      case "json_object":
        return { response_format: { type: "json_object" } }
      case "json_schema": {
        yield* nonEmpty(format["name"], "text.format.name")
        const { type: _type, ...schema } = format
        return { response_format: { type: "json_schema", json_schema: schema } }
      }
      default:
        return yield* refuse("text.format", `a format of type ${typeName(format["type"])}`)
    }
  })

const textFields = (value: unknown): Reading<JsonObject> =>
  Either.gen(function* () {
    if (!isSet(value)) return {}
    const { format, verbosity } = yield* object(value, "text")
    return { ...(yield* responseFormat(format)), ...(isSet(verbosity) ? { verbosity } : {}) }
  })

/** A Responses request as a Chat Completions request. */
export const responsesRequest = (body: JsonObject, writing: ChatWriting): Reading<JsonObject> =>
  Either.gen(function* () {
    const passed = yield* passing(body, taken, fates)
    const offered = isSet(body["tools"]) ? yield* list(body["tools"], "tools") : []
    const choice = yield* toolChoice(body["tool_choice"])
    return {
      ...passed,
      ...streamFields(body["stream"]),
      ...(body["max_output_tokens"] === undefined ? {} : { max_tokens: body["max_output_tokens"] }),
      ...(yield* effort(body["reasoning"])),
      ...(yield* textFields(body["text"])),
      ...(yield* toolFields(
        yield* each(offered, "tools", chatTool),
        choice,
        body["parallel_tool_calls"],
        "tool_choice"
      )),
      messages: yield* messages(body, writing)
    }
  })
