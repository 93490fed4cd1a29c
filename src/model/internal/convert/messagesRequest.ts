import * as Either from "effect/Either"
import { type Fate, isEmpty, passing, streamFields, toolFields } from "./chatFields.js"
import { writeChatMessages } from "./chatWrite.js"
import { each, isSet, type JsonObject, list, nonEmpty, object, type Reading, refuse, string, typeName } from "./json.js"
import { readMessages, readSystem } from "./messagesRead.js"

const fates: Readonly<Record<string, Fate>> = {
  container: { refuse: "a container of the server" },
  context_management: { refuse: "a history that the server shortens", unless: isEmpty },
  mcp_servers: { refuse: "tools that the server calls itself", unless: isEmpty }
}

const taken = new Set([
  "messages",
  "metadata",
  "output_config",
  "output_format",
  "service_tier",
  "stop_sequences",
  "system",
  "thinking",
  "tool_choice",
  "tools"
])

/** Of a tool, what is carried, and what changes no reply but for how it is checked or kept. */
const toolKeys = new Set([
  "cache_control",
  "description",
  "eager_input_streaming",
  "input_schema",
  "name",
  "strict",
  "type"
])

const chatTool = (value: unknown, path: string): Reading<JsonObject> =>
  Either.gen(function* () {
    const tool = yield* object(value, path)
    if (isSet(tool["type"]) && tool["type"] !== "custom") {
      return yield* refuse(path, `a tool of type ${typeName(tool["type"])}`)
    }
    const other = Object.keys(tool).find((key) => isSet(tool[key]) && !toolKeys.has(key))
    if (other !== undefined)
      return yield* refuse(`${path}.${other}`, "what a tool of chat completions has no field for")
    const { description } = tool
    return {
      type: "function",
      function: {
        name: yield* nonEmpty(tool["name"], `${path}.name`),
        ...(isSet(description) ? { description: yield* string(description, `${path}.description`) } : {}),
        parameters: yield* object(tool["input_schema"], `${path}.input_schema`)
      }
    }
  })

interface Chosen {
  readonly choice: string | JsonObject | undefined
  readonly parallel: boolean | undefined
}

const toolChoice = (value: unknown): Reading<Chosen> =>
  Either.gen(function* () {
    if (!isSet(value)) return { choice: undefined, parallel: undefined }
    const chosen = yield* object(value, "tool_choice")
    const single = chosen["disable_parallel_tool_use"]
    const parallel = typeof single === "boolean" ? !single : undefined
    switch (chosen["type"]) {
      case "auto":
      case "none":
        return { choice: chosen["type"], parallel }
      case "any":
        return { choice: "required", parallel }
      case "tool": {
        const name = yield* nonEmpty(chosen["name"], "tool_choice.name")
        return { choice: { type: "function", function: { name } }, parallel }
      }
      default:
        return yield* refuse("tool_choice", `a tool choice of type ${typeName(chosen["type"])}`)
    }
  })

const user = (value: unknown): Reading<JsonObject> =>
  Either.gen(function* () {
    if (!isSet(value)) return {}
    const { user_id, ...others } = yield* object(value, "metadata")
    const [other] = Object.keys(others).filter((key) => isSet(others[key]))
    if (other !== undefined) return yield* refuse(`metadata.${other}`, "what Messages has no field for")
    return isSet(user_id) ? { user: yield* string(user_id, "metadata.user_id") } : {}
  })

const serviceTier = (value: unknown): Reading<JsonObject> => {
  if (!isSet(value)) return Either.right({})
  if (value === "auto") return Either.right({ service_tier: "auto" })
  if (value === "standard_only") return Either.right({ service_tier: "default" })
  return refuse("service_tier", `the service tier ${typeName(value)}`)
}

/** Whether and how much the model thinks is the chat server's own affair; a budget is what it can't keep. */
const thinking = (value: unknown): Reading<void> => {
  if (!isSet(value)) return Either.void
  return Either.flatMap(object(value, "thinking"), (asked) => {
    if (asked["type"] === "disabled" || asked["type"] === "adaptive") return Either.void
    return refuse("thinking", `thinking of type ${typeName(asked["type"])}, which has a budget of tokens`)
  })
}

const outputFormat = (value: unknown, path: string): Reading<JsonObject> =>
  Either.gen(function* () {
    if (!isSet(value)) return {}
    const format = yield* object(value, path)
    if (format["type"] !== "json_schema") return yield* refuse(path, `a format of type ${typeName(format["type"])}`)
    // A chat request wants a name, and Messages has none.
    const schema = yield* object(format["schema"], `${path}.schema`)
    return { response_format: { type: "json_schema", json_schema: { name: "output", schema } } }
  })

const outputConfig = (value: unknown): Reading<JsonObject> =>
  Either.gen(function* () {
    if (!isSet(value)) return {}
    const { effort, format, ...others } = yield* object(value, "output_config")
    const [other] = Object.keys(others).filter((key) => isSet(others[key]))
    if (other !== undefined) return yield* refuse(`output_config.${other}`, "what chat completions have no field for")
    return {
      ...(isSet(effort) ? { reasoning_effort: yield* string(effort, "output_config.effort") } : {}),
      ...(yield* outputFormat(format, "output_config.format"))
    }
  })

/**
 * An Anthropic Messages request as a Chat Completions request. `cache_control` marks say what may be kept for later and
 * change no reply: they are left out.
 */
export const messagesRequest = (body: JsonObject, reasoning: "inline" | "field" | "omit"): Reading<JsonObject> =>
  Either.gen(function* () {
    const passed = yield* passing(body, taken, fates)
    yield* thinking(body["thinking"])
    const offered = isSet(body["tools"]) ? yield* list(body["tools"], "tools") : []
    const { choice, parallel } = yield* toolChoice(body["tool_choice"])
    const system = yield* readSystem(body["system"], "system")
    const turns = yield* readMessages(yield* list(body["messages"], "messages"), "messages")
    const last = turns.at(-1)
    if (last?.role === "assistant") {
      return yield* refuse(last.path, "the beginning of a reply, which chat servers do not continue")
    }
    return {
      ...passed,
      ...streamFields(body["stream"]),
      ...(isSet(body["stop_sequences"]) ? { stop: body["stop_sequences"] } : {}),
      ...(yield* user(body["metadata"])),
      ...(yield* serviceTier(body["service_tier"])),
      ...(yield* outputConfig(body["output_config"])),
      ...(yield* outputFormat(body["output_format"], "output_format")),
      ...(yield* toolFields(yield* each(offered, "tools", chatTool), choice, parallel, "tool_choice")),
      messages: yield* writeChatMessages([...system, ...turns], { reasoning, tokens: false })
    }
  })
