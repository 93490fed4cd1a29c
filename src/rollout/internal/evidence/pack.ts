/** Records on their way to the file. */
import { createHash } from "node:crypto"
import * as Schema from "effect/Schema"
import type { AssistantMessage, Message } from "../../../model/Conversation.js"
import type { ModelCall } from "../../Agent.js"
import type { EvidenceRecord } from "../../EvidenceRecord.js"
import { intervals, type StoredAssistant, StoredCalled, type StoredMessage } from "./stored.js"
import { type Known, packPrompt, remember } from "./tokens.js"

/**
 * What is written at each step is as it stands what its schema would encode it to: classes hold their fields and nothing
 * else, and none of these fields is another in JSON. An encoder makes all of it anew, and checks what its classes checked.
 */
const asItStands = (value: StoredMessage["message"] | StoredCalled | EvidenceRecord): string => JSON.stringify(value)

/** An error is a class too, and has more than its fields. */
const encodeCalled = Schema.encodeSync(Schema.parseJson(StoredCalled))

/** What is kept of the file so far: a hash for each message, and a few calls. */
export interface Packer {
  readonly messages: Map<string, number>
  /** The tokens of calls. */
  known: ReadonlyArray<Known>
  /** The prompts of calls, as the numbers of their messages. */
  prompts: ReadonlyArray<Known>
  calls: number
}

export const packer = (): Packer => ({ messages: new Map(), known: [], prompts: [], calls: 0 })

const storedAssistant = (
  { content, role, tokens }: AssistantMessage,
  known: ReadonlyArray<Known>
): StoredAssistant => ({
  role,
  content,
  ...(tokens === undefined
    ? {}
    : {
        tokens: {
          prompt: packPrompt(tokens.promptTokenIds, known),
          generation: tokens.generationTokenIds,
          logProbs: tokens.generationLogProbs,
          ...("routedExperts" in tokens ? { routedExperts: tokens.routedExperts } : {})
        }
      })
})

/** What a message is known by: all that it holds. Not its stored form, which depends on where its tokens stand. */
const nameOf = (message: Message): string => createHash("sha256").update(JSON.stringify(message)).digest("base64")

/** The lines of a call: the messages that are new, then the call. */
export const packCall = (packer: Packer, step: number, call: ModelCall): ReadonlyArray<string> => {
  const lines: Array<string> = []
  const numbers = call.messages.map((message) => {
    const name = nameOf(message)
    const found = packer.messages.get(name)
    if (found !== undefined) return found
    const number = packer.messages.size
    packer.messages.set(name, number)
    const json = asItStands(message.role === "assistant" ? storedAssistant(message, packer.known) : message)
    lines.push(`{"_tag":"Message","number":${number},"message":${json}}`)
    return number
  })
  const number = packer.calls++
  const shared = packPrompt(numbers, packer.prompts)
  packer.prompts = remember(packer.prompts, { call: number, promptTokenIds: numbers, generationTokenIds: [] })
  const { messages: _, result, ...rest } = call
  const stored: StoredCalled = {
    _tag: "Called",
    number,
    step,
    prompt: {
      ...(shared.call === undefined ? {} : { call: shared.call }),
      take: shared.take,
      added: intervals(shared.added)
    },
    call: {
      ...rest,
      result:
        result._tag === "CallFailed"
          ? result
          : {
              _tag: "Replied",
              read: result.read,
              reply: { ...result.reply, message: storedAssistant(result.reply.message, packer.known) }
            }
    }
  }
  lines.push(result._tag === "CallFailed" ? encodeCalled(stored) : asItStands(stored))
  const tokens = result._tag === "Replied" ? result.reply.message.tokens : undefined
  if (tokens !== undefined) {
    const { generationTokenIds, promptTokenIds } = tokens
    packer.known = remember(packer.known, { call: number, promptTokenIds, generationTokenIds })
  }
  return lines
}

/** The lines of a record, without their digests. */
export const pack = (
  packer: Packer,
  record: EvidenceRecord,
  encode: (record: Exclude<EvidenceRecord, { readonly _tag: "Called" }>) => string
): ReadonlyArray<string> => {
  switch (record._tag) {
    case "Called":
      return packCall(packer, record.step, record.call)
    case "Observed":
    case "Acted":
      return [asItStands(record)]
    default:
      return [encode(record)]
  }
}
