/** Where a rollout's calls extend each other, and where they do not. */
import { stableId } from "../../../identity/StableId.js"
import { digest } from "./media.js"
import { extendsCall } from "./tokens.js"

/** A call with all of its tokens and the pictures that it showed, in order. */
export interface ExactCall {
  readonly promptTokenIds: ReadonlyArray<number>
  readonly generationTokenIds: ReadonlyArray<number>
  readonly mediaIds: ReadonlyArray<string>
}

export interface Placed {
  readonly segmentIndex: number
  readonly segmentId: string
  /** Whether it extends the call before it: its tokens and its pictures begin with all of that one's. */
  readonly extends: boolean
  readonly viewDigest: string
  /** Of the call before it, where there is one. */
  readonly previousDigest?: string
  /** Tokens of the prompt that the call before it has, as its prompt or its reply; 0 where it does not extend it. */
  readonly sharedTokens: number
  /** Pictures of the call before it that this one does not begin with. */
  readonly removedMedia: number
}

/**
 * A call begins a new segment unless the prompt and the reply of the call before it are a prefix of its prompt, and the
 * pictures of that call a prefix of its pictures.
 */
export const segments = (rolloutId: string, calls: ReadonlyArray<ExactCall>): ReadonlyArray<Placed> => {
  const placed: Array<Placed> = []
  for (const [at, call] of calls.entries()) {
    const before = calls[at - 1]
    const previous = placed.at(-1)
    const viewDigest = digest({ prompt_token_ids: call.promptTokenIds, media_ids: call.mediaIds })
    const kept = before === undefined ? 0 : common(before.mediaIds, call.mediaIds)
    const follows = before !== undefined && extendsCall(call.promptTokenIds, before) && kept === before.mediaIds.length
    const segmentIndex = previous === undefined ? 0 : previous.segmentIndex + (follows ? 0 : 1)
    placed.push({
      segmentIndex,
      segmentId:
        follows && previous !== undefined
          ? previous.segmentId
          : stableId("segment", rolloutId, segmentIndex, viewDigest),
      extends: follows,
      viewDigest,
      ...(previous === undefined ? {} : { previousDigest: previous.viewDigest }),
      sharedTokens: follows ? before.promptTokenIds.length + before.generationTokenIds.length : 0,
      removedMedia: before === undefined ? 0 : before.mediaIds.length - kept
    })
  }
  return placed
}

const common = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number => {
  let length = 0
  while (length < a.length && a[length] === b[length]) length++
  return length
}
