import * as Either from "effect/Either"
import { ComputerTool, type OfferedTool, Tool } from "../../Conversation.js"
import type { ToolChoice } from "../../ModelClient.js"
import { each, isSet, type JsonObject, nonEmpty, object, type Reading, refuse, string, typeName } from "./json.js"

type Choice = typeof ToolChoice.Type

const described = (tool: Tool): JsonObject => ({
  name: tool.name,
  ...(tool.description === undefined ? {} : { description: tool.description }),
  parameters: tool.parameters,
  ...(tool.strict === undefined ? {} : { strict: tool.strict })
})

const path = (index: number) => `tools[${index}]`

export const toChat = (tools: ReadonlyArray<OfferedTool>): Reading<ReadonlyArray<JsonObject>> =>
  Either.all(
    tools.map((tool, index) =>
      tool instanceof ComputerTool
        ? refuse(path(index), "the computer tool, which Chat Completions lacks")
        : Either.right({ type: "function", function: described(tool) })
    )
  )

const responsesComputer = (tool: ComputerTool, path: string): Reading<JsonObject> => {
  switch (tool.generation) {
    case "preview":
      return Either.right({
        type: "computer_use_preview",
        display_width: tool.width,
        display_height: tool.height,
        environment: tool.environment
      })
    case "responses":
      return Either.right({ type: "computer" })
    default:
      return refuse(path, `the computer tool of ${tool.generation}, which only Messages has`)
  }
}

export const toResponses = (tools: ReadonlyArray<OfferedTool>): Reading<ReadonlyArray<JsonObject>> =>
  Either.all(
    tools.map((tool, index) =>
      tool instanceof ComputerTool
        ? responsesComputer(tool, path(index))
        : Either.right({ type: "function", ...described(tool) })
    )
  )

/** On the wire of Messages the computer tool is a function by this name. */
export const computerName = "computer"

/** What a function by that name is called where it is refused. */
export const taken = `a function by the name of ${computerName}, which is the computer tool's own`

const messagesComputer = (tool: ComputerTool, path: string): Reading<JsonObject> => {
  switch (tool.generation) {
    case "preview":
    case "responses":
      return refuse(path, `the computer tool of ${tool.generation}, which only Responses has`)
    case "2026-08-01":
      return Either.right({ type: "computer_toolset_20260801" })
    default:
      return Either.right({
        type: `computer_${tool.generation.replaceAll("-", "")}`,
        name: computerName,
        display_width_px: tool.width,
        display_height_px: tool.height
      })
  }
}

export const toMessages = (tools: ReadonlyArray<OfferedTool>): Reading<ReadonlyArray<JsonObject>> =>
  Either.all(
    tools.map((tool, index) => {
      if (tool instanceof ComputerTool) return messagesComputer(tool, path(index))
      if (tool.name === computerName) return refuse(path(index), taken)
      const { parameters, ...rest } = described(tool)
      return Either.right({ ...rest, input_schema: parameters })
    })
  )

export const toMessagesChoice = (choice: Choice): JsonObject => {
  if (typeof choice !== "string") return { type: "tool", name: choice.name }
  return { type: choice === "required" ? "any" : choice }
}

/** A function without parameters takes none. */
const noParameters: JsonObject = { type: "object", properties: {} }

const read = (wire: JsonObject, path: string): Reading<Tool> =>
  Either.gen(function* () {
    const { description, parameters, strict } = wire
    if (isSet(strict) && typeof strict !== "boolean") return yield* refuse(`${path}.strict`, "no truth value")
    return new Tool({
      name: yield* nonEmpty(wire["name"], `${path}.name`),
      ...(isSet(description) ? { description: yield* string(description, `${path}.description`) } : {}),
      parameters: isSet(parameters) ? yield* object(parameters, `${path}.parameters`) : noParameters,
      ...(typeof strict === "boolean" ? { strict } : {})
    })
  })

/** The object that names and describes the function. */
export const chatFunction = (value: unknown, path: string): Reading<JsonObject> =>
  Either.flatMap(object(value, path), (tool) =>
    tool["type"] === "function"
      ? object(tool["function"], `${path}.function`)
      : refuse(path, `a tool of type ${typeName(tool["type"])}`)
  )

/** As `chatFunction`, of the wire that has no object inside the tool. */
export const responsesFunction = (value: unknown, path: string): Reading<JsonObject> =>
  Either.flatMap(object(value, path), (tool) =>
    tool["type"] === "function" ? Either.right(tool) : refuse(path, `a tool of type ${typeName(tool["type"])}`)
  )

export const fromChat = (wire: ReadonlyArray<unknown>, root: string): Reading<ReadonlyArray<Tool>> =>
  each(wire, root, (value, path) =>
    Either.flatMap(chatFunction(value, path), (named) => read(named, `${path}.function`))
  )

export const fromResponses = (wire: ReadonlyArray<unknown>, root: string): Reading<ReadonlyArray<Tool>> =>
  each(wire, root, (value, path) => Either.flatMap(responsesFunction(value, path), (tool) => read(tool, path)))

const choice = (wire: unknown, path: string, name: (wire: JsonObject) => Reading<string>): Reading<Choice> => {
  if (wire === "auto" || wire === "none" || wire === "required") return Either.right(wire)
  if (typeof wire === "string") return refuse(path, `the tool choice ${typeName(wire)}`)
  return Either.flatMap(object(wire, path), (chosen) =>
    chosen["type"] === "function"
      ? Either.map(name(chosen), (called) => ({ name: called }))
      : refuse(path, `a tool choice of type ${typeName(chosen["type"])}`)
  )
}

export const fromChatChoice = (wire: unknown, path: string): Reading<Choice> =>
  choice(wire, path, (chosen) =>
    Either.flatMap(object(chosen["function"], `${path}.function`), (named) =>
      nonEmpty(named["name"], `${path}.function.name`)
    )
  )

export const fromResponsesChoice = (wire: unknown, path: string): Reading<Choice> =>
  choice(wire, path, (chosen) => nonEmpty(chosen["name"], `${path}.name`))
