/** What the lines of an evidence file are: records, in which prompts stand as numbers of messages that were written before. */
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import { AssistantMessage, SystemMessage, ToolMessage, UserMessage } from "../../../model/Conversation.js"
import { ModelReply } from "../../../model/ModelClient.js"
import { CallFailed, ModelCall, Replied } from "../../Agent.js"
import { PackedTokens } from "./tokens.js"

/** An `AssistantMessage` as it is written. */
export const StoredAssistant = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: AssistantMessage.fields.content,
  tokens: Schema.optionalWith(PackedTokens, { exact: true })
})

export type StoredAssistant = typeof StoredAssistant.Type

/** A message that no earlier prompt had. They are numbered from 0, in the file's order. */
export const StoredMessage = Schema.TaggedStruct("Message", {
  number: Schema.NonNegativeInt,
  message: Schema.Union(SystemMessage, UserMessage, ToolMessage, StoredAssistant)
})

export type StoredMessage = typeof StoredMessage.Type

const StoredReplied = Schema.TaggedStruct("Replied", {
  reply: Schema.Struct({ ...Struct.omit(ModelReply.fields, "message"), message: StoredAssistant }),
  read: Replied.fields.read
})

/** A call. They are numbered from 0, in the file's order. */
export const StoredCalled = Schema.TaggedStruct("Called", {
  number: Schema.NonNegativeInt,
  step: Schema.NonNegativeInt,
  /** The prompt: the first `take` messages of an earlier call's, then half-open intervals of message numbers. */
  prompt: Schema.Struct({
    call: Schema.optionalWith(Schema.NonNegativeInt, { exact: true }),
    take: Schema.NonNegativeInt,
    added: Schema.Array(Schema.Tuple(Schema.NonNegativeInt, Schema.NonNegativeInt))
  }),
  call: Schema.Struct({
    ...Struct.omit(ModelCall.fields, "messages", "result"),
    result: Schema.Union(StoredReplied, CallFailed)
  })
})

export type StoredCalled = typeof StoredCalled.Type

/** The numbers that intervals list. */
export const listed = (intervals: ReadonlyArray<readonly [number, number]>): ReadonlyArray<number> =>
  intervals.flatMap(([start, end]) => Array.from({ length: Math.max(0, end - start) }, (_, at) => start + at))

/** Numbers as the fewest half-open intervals that list them in order. */
export const intervals = (numbers: ReadonlyArray<number>): ReadonlyArray<readonly [number, number]> => {
  const found: Array<readonly [number, number]> = []
  for (const number of numbers) {
    const last = found.at(-1)
    if (last !== undefined && last[1] === number) found[found.length - 1] = [last[0], number + 1]
    else found.push([number, number + 1])
  }
  return found
}
