import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Stream from "effect/Stream"
import * as Sse from "../../src/model/internal/sse.js"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

/** What comes of the chunks: the events, and the reason where it ends in an error. */
const read = (chunks: Iterable<Uint8Array>, options: Sse.SseOptions = {}) => {
  const events: Array<Sse.SseEvent> = []
  let state = Sse.initial(options)
  for (const chunk of chunks) {
    const fed = Sse.feed(state, chunk)
    events.push(...fed.events)
    if (Either.isLeft(fed.next)) return { events, error: fed.next.left.reason, pending: false }
    state = fed.next.right
  }
  return { events, error: undefined, pending: Sse.isPending(state) }
}

const cut = (all: Uint8Array, places: ReadonlyArray<number>): ReadonlyArray<Uint8Array> => {
  const at = [0, ...places.map((place) => place % (all.length + 1)).sort((a, b) => a - b), all.length]
  return at.slice(1).map((end, index) => all.subarray(at[index], end))
}

const byteByByte = (all: Uint8Array) => Array.from(all, (byte) => Uint8Array.of(byte))

describe("sse", () => {
  // The first three are the examples of the HTML standard, 9.2.6 "Interpreting an event stream".
  it.each([
    ["data: YHOO\ndata: +2\ndata: 10\n\n", [{ event: "message", data: "YHOO\n+2\n10" }]],
    [
      ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n",
      [
        { event: "message", data: "first event", id: "1" },
        { event: "message", data: "second event" }
      ]
    ],
    [
      "data\n\ndata\ndata\n\ndata:",
      [
        { event: "message", data: "" },
        { event: "message", data: "\n" }
      ]
    ],
    [
      "data:test\n\ndata: test\n\n",
      [
        { event: "message", data: "test" },
        { event: "message", data: "test" }
      ]
    ],
    ["\uFEFFdata: after a mark\r\n\r\n", [{ event: "message", data: "after a mark" }]],
    ["data: a\n\n\uFEFFdata: a mark in its midst is none\n\n", [{ event: "message", data: "a" }]],
    ["\uFEFF\uFEFFdata: only the first mark is one\n\n", []],
    ["data: a\r\ndata: b\rdata: c\n\r\n", [{ event: "message", data: "a\nb\nc" }]],
    [
      "event: delta\ndata: 1\n\ndata: 2\n\n",
      [
        { event: "delta", data: "1" },
        { event: "message", data: "2" }
      ]
    ],
    ["event: no data\n\n: a comment\n\nunknown: field\nretry: 12\n\n", []],
    [
      "id: 7\ndata: a\n\ndata: b\n\n",
      [
        { event: "message", data: "a", id: "7" },
        { event: "message", data: "b", id: "7" }
      ]
    ],
    ["data: ä€😀\n\n", [{ event: "message", data: "ä€😀" }]]
  ])("reads %j, whole and byte by byte", (text, expected) => {
    assert.deepStrictEqual(read([bytes(text)]).events, expected)
    assert.deepStrictEqual(read(byteByByte(bytes(text))).events, expected)
  })

  it("takes a line feed that comes apart from its carriage return for one line end", () => {
    assert.deepStrictEqual(read([bytes("data: a\r"), bytes("\ndata: b\r\n\r"), bytes("\n")]).events, [
      { event: "message", data: "a\nb" }
    ])
  })

  it("keeps the time to come back as a fact", () => {
    const { next } = Sse.feed(Sse.initial(), bytes("retry: 2500\nretry: soon\n\n"))
    assert.strictEqual(Either.getOrThrow(next).retry, 2500)
  })

  it("does not dispatch an event without its end, and says that one was pending", () => {
    assert.deepStrictEqual(read([bytes("data: a\n\ndata: b\n")]), {
      events: [{ event: "message", data: "a" }],
      error: undefined,
      pending: true
    })
    assert.isFalse(read([bytes("data: a\n\n")]).pending)
  })

  it("fails on bytes that are no UTF-8, after the events before them", () => {
    const broken = new Uint8Array([...bytes("data: a\n\ndata: "), 0xff, ...bytes("\n\n")])
    const half = new Uint8Array([...bytes("data: a\n\ndata: "), 0xe2, 0x82, ...bytes("\n\n")])
    for (const all of [broken, half]) {
      for (const chunks of [[all], byteByByte(all)]) {
        assert.deepStrictEqual(read(chunks), {
          events: [{ event: "message", data: "a" }],
          error: "invalid_utf8",
          pending: false
        })
      }
    }
  })

  it("fails on an event that is too large: in one line, in many, in a line without end", () => {
    const options = { maxEventBytes: 20 }
    assert.strictEqual(read([bytes(`data: ${"x".repeat(14)}\n\n`)], options).error, undefined)
    assert.strictEqual(read([bytes(`data: ${"x".repeat(15)}\n\n`)], options).error, "event_too_large")
    assert.strictEqual(read([bytes("data: 1234\ndata: 1234\ndata: 1234\n\n")], options).error, "event_too_large")
    assert.strictEqual(read([bytes("x".repeat(21))], options).error, "event_too_large")
    // The limit is one event's, not the stream's.
    assert.strictEqual(read([bytes("data: 1234\n\n".repeat(100))], options).error, undefined)
    // What keeps a connection open is no part of an event.
    assert.strictEqual(read([bytes(": keep-alive\n".repeat(100))], options).error, undefined)
  })

  it("holds a line that comes a byte at a time in few pieces, so that its cost grows with its length", () => {
    let state = Sse.initial()
    for (const byte of byteByByte(bytes("x".repeat(10_000)))) state = Either.getOrThrow(Sse.feed(state, byte).next)
    const lengths: Array<number> = []
    for (let rest = state.line; rest !== undefined; rest = rest.before) lengths.push(rest.bytes.length)
    // Each piece is longer than the one after it, twice as long as a rule: the bits of 10,000.
    assert.deepStrictEqual(lengths, [16, 256, 512, 1024, 8192])
  })

  const line = FastCheck.oneof(
    FastCheck.constantFrom("data", "data:", "event: e", "id: 1", "id", "retry: 5", ": note", "", "\uFEFFdata: m"),
    FastCheck.fullUnicodeString({ maxLength: 12 }).map((text) => `data: ${text.replace(/[\r\n]/g, "")}`)
  )
  const stream = FastCheck.array(FastCheck.tuple(line, FastCheck.constantFrom("\n", "\r", "\r\n")), {
    maxLength: 20
  }).map((lines) => bytes(lines.map((each) => each.join("")).join("")))
  // Bytes that are wrong, and limits that are passed, come out the same as well.
  const soiled = FastCheck.tuple(
    stream,
    FastCheck.option(FastCheck.nat()),
    FastCheck.integer({ min: 0, max: 255 })
  ).map(([all, at, byte]) => (at === null ? all : all.map((old, index) => (index === at % all.length ? byte : old))))

  it("gives the same events however the bytes are cut", () => {
    FastCheck.assert(
      FastCheck.property(
        soiled,
        FastCheck.array(FastCheck.nat(), { maxLength: 12 }),
        FastCheck.constantFrom(15, 30, 1000),
        (all, places, maxEventBytes) => {
          const once = read([all], { maxEventBytes })
          assert.deepStrictEqual(read(cut(all, places), { maxEventBytes }), once)
          assert.deepStrictEqual(read(byteByByte(all), { maxEventBytes }), once)
        }
      ),
      { numRuns: 1000 }
    )
  })

  it("reads what it wrote", () => {
    const output = FastCheck.record({
      event: FastCheck.constantFrom("message", "error", "response.created"),
      data: FastCheck.fullUnicodeString(),
      id: FastCheck.constantFrom("1", "a b")
    })
    FastCheck.assert(
      FastCheck.property(FastCheck.array(output, { maxLength: 8 }), (events) => {
        const text = events.map((event) => Sse.encode(event) + Sse.comment("still\nhere")).join("")
        assert.deepStrictEqual(
          read([bytes(text)]).events,
          events.map((event) => ({ ...event, data: event.data.replace(/\r\n|\r/g, "\n") }))
        )
      }),
      { numRuns: 1000 }
    )
  })

  it.effect("a stream emits the events before its error", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const error = yield* Stream.make(bytes("data: 1\n\nda"), bytes("ta: 2\n\n"), new Uint8Array([0xff, 0x0a])).pipe(
        Sse.decode(),
        Stream.runForEach(({ data }) => Effect.sync(() => seen.push(data))),
        Effect.flip
      )
      assert.deepStrictEqual(seen, ["1", "2"])
      assert.strictEqual(error.reason, "invalid_utf8")
    })
  )

  it.effect("a stream passes on the error of its source", () =>
    Effect.gen(function* () {
      const error = yield* Stream.concat(Stream.make(bytes("data: 1\n\n")), Stream.fail("broken" as const)).pipe(
        Sse.decode(),
        Stream.runDrain,
        Effect.flip
      )
      assert.strictEqual(error, "broken")
    })
  )
})
