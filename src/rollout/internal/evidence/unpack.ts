/** Lines of an evidence file on their way back to records. */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { AssistantMessage, type Message } from "../../../model/Conversation.js"
import { ModelReply } from "../../../model/ModelClient.js"
import { TokenBundle } from "../../../model/TokenBundle.js"
import { ModelCall, Replied } from "../../Agent.js"
import { EvidenceRecord } from "../../EvidenceRecord.js"
import { genesis, link, unseal } from "./chain.js"
import { listed, type StoredAssistant, StoredCalled, StoredMessage } from "./stored.js"
import { type Known, remember, unpackPrompt } from "./tokens.js"

/** What is wrong with a line. */
export interface LineFault {
  readonly kind: "chain_broken" | "unreadable" | "gap"
  readonly detail: string
}

/** What a line gave: faults, and a record unless it is a message or cannot be read. */
export interface Unpacked {
  readonly record?: EvidenceRecord
  readonly faults: ReadonlyArray<LineFault>
}

/** What is kept of the file so far: each distinct message once, and a few calls. */
export interface Unpacker {
  /** The digests that the next line may be chained to: two after a line whose own was wrong. */
  chains: ReadonlyArray<string>
  readonly messages: Map<number, Message>
  nextMessage: number
  nextCall: number
  /** The tokens of calls. */
  known: ReadonlyArray<Known>
  /** The prompts of calls, as the numbers of their messages. */
  prompts: ReadonlyArray<Known>
}

export const unpacker = (): Unpacker => ({
  chains: [genesis],
  messages: new Map(),
  nextMessage: 0,
  nextCall: 0,
  known: [],
  prompts: []
})

const decode = Schema.decodeUnknownEither(Schema.Union(StoredMessage, StoredCalled, EvidenceRecord), {
  onExcessProperty: "error"
})

const assistant = (
  { content, role, tokens }: StoredAssistant,
  known: ReadonlyArray<Known>
): AssistantMessage | undefined => {
  if (tokens === undefined) return new AssistantMessage({ role, content }, true)
  const promptTokenIds = unpackPrompt(tokens.prompt, known)
  if (promptTokenIds === undefined || tokens.generation.length !== tokens.logProbs.length) return undefined
  const bundle = new TokenBundle(
    {
      promptTokenIds,
      generationTokenIds: tokens.generation,
      generationLogProbs: tokens.logProbs,
      ...("routedExperts" in tokens ? { routedExperts: tokens.routedExperts } : {})
    },
    true
  )
  return new AssistantMessage({ role, content, tokens: bundle }, true)
}

const lostTokens: LineFault = { kind: "gap", detail: "its tokens are written by a call that is not there" }
const lostPrompt: LineFault = { kind: "gap", detail: "its prompt is written by a call that is not there" }

const gap = (what: string, expected: number, found: number): ReadonlyArray<LineFault> =>
  found === expected ? [] : [{ kind: "gap", detail: `${what} ${expected} is missing: this is ${what} ${found}` }]

const unpackMessage = (unpacker: Unpacker, { message, number }: StoredMessage): Unpacked => {
  const faults = gap("message", unpacker.nextMessage, number)
  unpacker.nextMessage = number + 1
  const whole = message.role === "assistant" ? assistant(message, unpacker.known) : message
  if (whole === undefined) return { faults: [...faults, lostTokens] }
  unpacker.messages.set(number, whole)
  return { faults }
}

const unpackCall = (unpacker: Unpacker, { call, number, prompt, step }: StoredCalled): Unpacked => {
  const faults = gap("call", unpacker.nextCall, number)
  unpacker.nextCall = number + 1
  const numbers = unpackPrompt({ ...prompt, added: listed(prompt.added) }, unpacker.prompts)
  if (numbers === undefined) return { faults: [...faults, lostPrompt] }
  unpacker.prompts = remember(unpacker.prompts, { call: number, promptTokenIds: numbers, generationTokenIds: [] })
  const messages: Array<Message> = []
  for (const at of numbers) {
    const message = unpacker.messages.get(at)
    if (message === undefined) {
      return { faults: [...faults, { kind: "gap", detail: `its prompt has message ${at}, which is not there` }] }
    }
    messages.push(message)
  }
  const { result, ...rest } = call
  if (result._tag === "CallFailed") {
    return { faults, record: { _tag: "Called", step, call: new ModelCall({ ...rest, messages, result }, true) } }
  }
  const message = assistant(result.reply.message, unpacker.known)
  if (message === undefined) return { faults: [...faults, lostTokens] }
  if (message.tokens !== undefined) {
    const { generationTokenIds, promptTokenIds } = message.tokens
    unpacker.known = remember(unpacker.known, { call: number, promptTokenIds, generationTokenIds })
  }
  const replied = new Replied({ read: result.read, reply: new ModelReply({ ...result.reply, message }, true) }, true)
  return { faults, record: { _tag: "Called", step, call: new ModelCall({ ...rest, messages, result: replied }, true) } }
}

const parse = (body: Buffer): Either.Either<unknown, string> =>
  Either.try({
    try: () => JSON.parse(`${body.toString("utf8")}}`),
    catch: (error) => (error instanceof Error ? error.message : String(error))
  })

/** Reads the next line, given without its newline. */
export const unpack = (unpacker: Unpacker, line: Buffer): Unpacked => {
  const sealed = unseal(line)
  if (sealed === undefined) {
    // The next line is chained to a digest that cannot be known; its own is taken for right.
    unpacker.chains = []
    return { faults: [{ kind: "unreadable", detail: "this is no record with a digest" }] }
  }
  const { body, chain } = sealed
  const { chains } = unpacker
  const computed = chains.map((before) => link(before, body))
  const whole = chains.length === 0 || computed.includes(chain)
  const broken: ReadonlyArray<LineFault> = whole
    ? []
    : [{ kind: "chain_broken", detail: "its digest is another one: it, or a line before it, was changed" }]
  unpacker.chains = whole ? [chain] : [chain, ...computed]
  const unreadable = (detail: string): Unpacked => ({ faults: [...broken, { kind: "unreadable", detail }] })
  const json = parse(body)
  if (Either.isLeft(json)) return unreadable(json.left)
  const stored = decode(json.right)
  if (Either.isLeft(stored))
    return unreadable(ParseResult.TreeFormatter.formatErrorSync(stored.left).split("\n", 1).join(""))
  const given = stored.right
  const { faults, record } =
    given._tag === "Message"
      ? unpackMessage(unpacker, given)
      : given._tag !== "Called"
        ? { faults: [], record: given }
        : "prompt" in given
          ? unpackCall(unpacker, given)
          : { faults: [], record: given }
  return { faults: [...broken, ...faults], ...(record === undefined ? {} : { record }) }
}
