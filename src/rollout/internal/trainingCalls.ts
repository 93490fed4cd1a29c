/** The calls of a recorded rollout that train, with their tokens and pictures. */
import * as Either from "effect/Either"
import type { MediaSpan } from "../../training/MediaMask.js"
import type { ModelCall as RecordedCall } from "../Agent.js"
import { type RecordedRollout, replyOf } from "../RecordedRollout.js"
import type { Captured, Media, Unusable } from "../TrainingInput.js"

/** What the policy did in a step: its last reply, and the last summary before it. */
const lastReplies = (calls: ReadonlyArray<RecordedCall>): ReadonlyArray<RecordedCall> => {
  const replied = calls.filter((call) => replyOf(call) !== undefined)
  return replied.filter((call, at) => !replied.slice(at + 1).some(({ purpose }) => purpose === call.purpose))
}

interface Said {
  readonly prompt: ReadonlyArray<number>
  readonly reply: ReadonlyArray<number>
  /** Where the policy wrote in the prompt. */
  readonly written: ReadonlyArray<Pick<MediaSpan, "offset" | "length">>
}

/** Whether a trainer learns from summaries: only where the policy says so, as its hashed parameters do. */
const trainsSummaries = ({ contract }: RecordedRollout["started"]): boolean =>
  contract.history_policy?.params["trained"] === true

/** Where the policy wrote in a prompt: in that of a call before and after it, if the prompt goes on from there. */
const writtenIn = (prompt: ReadonlyArray<number>, before: Said): Said["written"] => {
  const offset = before.prompt.length
  const goesOn =
    before.prompt.every((token, at) => prompt[at] === token) &&
    before.reply.every((token, at) => prompt[offset + at] === token)
  return goesOn ? [...before.written, { offset, length: before.reply.length }] : []
}

/** Runs of the token, apart from what the policy wrote. */
const spansOf = (
  prompt: ReadonlyArray<number>,
  tokenId: number,
  written: Said["written"]
): ReadonlyArray<MediaSpan> => {
  const spans: Array<MediaSpan> = []
  let next = 0
  for (let at = 0; at < prompt.length; ) {
    const skip = written[next]
    if (skip !== undefined && at >= skip.offset) {
      at = Math.max(at, skip.offset + skip.length)
      next++
      continue
    }
    const until = skip?.offset ?? prompt.length
    let end = at
    while (end < until && prompt[end] === tokenId) end++
    if (end > at) spans.push({ offset: at, length: end - at, tokenId })
    at = Math.max(end, at + 1)
  }
  return spans
}

const picturesOf = ({ messages }: RecordedCall): ReadonlyArray<string> =>
  messages.flatMap((message) =>
    message.role === "user" || message.role === "tool"
      ? message.content.flatMap((part) =>
          part._tag === "ImagePart" ? [part.blob.sha256] : part._tag === "ImageUrlPart" ? [part.url] : []
        )
      : []
  )

export const callsOf = (
  { started, steps }: RecordedRollout,
  media: Media | undefined
): Either.Either<Captured["calls"], Unusable> => {
  const made: Array<Captured["calls"][number]> = []
  const trained = trainsSummaries(started)
  /** The newest call that trains, and a summary after it: what comes next may go on from either. */
  let before: ReadonlyArray<Said> = []
  for (const call of steps.flatMap((step) => lastReplies(step.calls))) {
    const trains = trained || call.purpose === "act"
    const reply = replyOf(call)
    const tokens = reply?.message.tokens
    const modelCallId = `${started.identity.rolloutId}-step-${call.step}-call-${call.parseAttempt}`
    const known = { modelCallId, model: reply?.model ?? "" }
    if (media === undefined || tokens === undefined) {
      if (trains) made.push({ ...known, ...tokens })
      continue
    }
    const prompt = tokens.promptTokenIds
    const written = before.map((said) => writtenIn(prompt, said)).findLast(({ length }) => length > 0) ?? []
    const said = { prompt, reply: tokens.generationTokenIds, written }
    if (!trains) {
      // Its tokens are not to be taken for pictures where a later prompt repeats them.
      before = [...before.slice(0, 1), said]
      continue
    }
    const spans = spansOf(prompt, media.tokenId, written)
    const ids = picturesOf(call)
    if (spans.length !== ids.length) {
      const detail = `the prompt of call ${modelCallId} shows ${ids.length} pictures and has the tokens of ${spans.length}`
      return Either.left({ reason: "image_alignment", detail })
    }
    const { height, width } = media
    made.push({ ...known, ...tokens, images: spans.map((span, at) => ({ ...span, id: ids[at] ?? "", height, width })) })
    before = [said]
  }
  return Either.right(made)
}
