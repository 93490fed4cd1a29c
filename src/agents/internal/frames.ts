/** The turns of a prompt as the pictures that it shows, each with the turns before it that are text alone. */
import type { NonEmptyReadonlyArray } from "effect/Array"
import type { PromptView, Shown, Turn } from "../Protocol.js"

/** A turn by its number, which counts from 0. */
export interface Numbered {
  readonly number: number
  readonly turn: Turn
}

export interface Frame {
  /** The turns between the picture before and this one, oldest first. */
  readonly folded: ReadonlyArray<Numbered>
  readonly number: number
  readonly shown: Shown
}

/** A frame whose picture the model has answered. */
export interface Past extends Frame {
  readonly turn: Turn
}

/**
 * The pictures that were answered, and the one that is to be. Turns that a summary stands for are left out. Text comes
 * before the next picture, so that a later prompt only adds to an earlier one until the history policy breaks it.
 */
export const frames = ({
  isLive,
  now,
  summary,
  turns
}: PromptView): { readonly past: ReadonlyArray<Past>; readonly last: Frame } => {
  const past: Array<Past> = []
  let folded: Array<Numbered> = []
  turns.forEach((turn, number) => {
    if (number < (summary?.turns ?? 0)) return
    if (isLive(number)) {
      past.push({ folded, number, shown: turn.shown, turn })
      folded = []
    } else {
      folded.push({ number, turn })
    }
  })
  return { past, last: { folded, number: turns.length, shown: now } }
}

/** Messages that begin with one that is always there. */
export const startingWith = <A>(first: A, rest: ReadonlyArray<A>): NonEmptyReadonlyArray<A> => [first, ...rest]

/** What stands for a reply without words: a server may refuse an empty message. */
export const emptyReply = "(no reply)"
