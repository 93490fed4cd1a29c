import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { spanned } from "../../src/trace/Span.js"

/** A tracer that keeps the name, the parent and the end of each span. */
const recording = () => {
  const spans: Array<{ readonly name: string; readonly parent: string | undefined; failed?: boolean }> = []
  const tracer = Tracer.make({
    span: (name, parent, context, links, startTime, kind) => {
      const told: (typeof spans)[number] = {
        name,
        parent: Option.getOrUndefined(Option.map(parent, (span) => (span._tag === "Span" ? span.name : span.spanId)))
      }
      spans.push(told)
      return {
        _tag: "Span",
        name,
        spanId: String(spans.length),
        traceId: "trace",
        parent,
        context,
        status: { _tag: "Started", startTime },
        attributes: new Map(),
        links,
        sampled: true,
        kind,
        end: (_, exit) => {
          told.failed = Exit.isFailure(exit)
        },
        attribute: () => {},
        event: () => {},
        addLinks: () => {}
      }
    },
    context: (f) => f()
  })
  return { spans, tracer }
}

describe("spanned", () => {
  it.effect("makes spans for the tracer that is installed, each within the one around it", () =>
    Effect.gen(function* () {
      const { spans, tracer } = recording()
      const inner = Effect.fail("no").pipe(spanned("inner"), Effect.ignore)
      const result = yield* Effect.as(inner, 1).pipe(spanned("outer"), Effect.withTracer(tracer))
      assert.strictEqual(result, 1)
      assert.deepStrictEqual(spans, [
        { name: "outer", parent: undefined, failed: false },
        { name: "inner", parent: "outer", failed: true }
      ])
    })
  )

  it.effect("makes none where no tracer is installed", () =>
    Effect.gen(function* () {
      const current = yield* Effect.option(Effect.currentSpan).pipe(spanned("unseen"))
      assert.isTrue(Option.isNone(current))
    })
  )
})
