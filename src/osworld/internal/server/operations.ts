/** What was asked for under an id, and what came of it: so that nothing is done twice. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"

interface Entry<A, E> {
  /** What was asked for. */
  readonly request: string
  readonly answer: Deferred.Deferred<A, E>
  over: boolean
}

export type Claim<A, E> =
  | { readonly _tag: "New"; readonly answer: Deferred.Deferred<A, E> }
  | { readonly _tag: "Known"; readonly answer: Deferred.Deferred<A, E> }
  /** The id stands for something else. */
  | { readonly _tag: "Other" }

/** Remembers all that run or wait, and of those that are over the last `limit`. */
export class Operations<A, E> {
  private readonly entries = new Map<string, Entry<A, E>>()
  private over = 0

  constructor(private readonly limit: number) {}

  get size(): number {
    return this.entries.size
  }

  claim(id: string, request: string): Effect.Effect<Claim<A, E>> {
    return Effect.fiberIdWith((fiber) =>
      Effect.sync((): Claim<A, E> => {
        const known = this.entries.get(id)
        if (known !== undefined)
          return known.request === request ? { _tag: "Known", answer: known.answer } : { _tag: "Other" }
        const answer = Deferred.unsafeMake<A, E>(fiber)
        this.entries.set(id, { request, answer, over: false })
        return { _tag: "New", answer }
      })
    )
  }

  /** It was carried out, whatever came of it. */
  settle(id: string): void {
    const entry = this.entries.get(id)
    if (entry === undefined || entry.over) return
    entry.over = true
    // Those that are over stand in the order in which they ended.
    this.entries.delete(id)
    this.entries.set(id, entry)
    this.over++
    for (const [old, { over }] of this.entries) {
      if (this.over <= this.limit) return
      if (!over) continue
      this.entries.delete(old)
      this.over--
    }
  }

  /** It was never begun, so it may be asked for again. */
  forget(id: string): void {
    const entry = this.entries.get(id)
    if (entry !== undefined && !entry.over) this.entries.delete(id)
  }

  /** What waits stays: asked for again, it must still be done once. */
  forgetFinished(): void {
    for (const [id, { over }] of this.entries) if (over) this.entries.delete(id)
    this.over = 0
  }
}
