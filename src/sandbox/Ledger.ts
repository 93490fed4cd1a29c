/**
 * What was asked for and what became of it, on disk before the asking: a sandbox whose owner died is found again by it.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { openLines } from "./internal/lines.js"
import { Metadata } from "./SandboxSpec.js"

/**
 * The ledger cannot be read or written. Nothing is created without it.
 *
 * @since 0.1.0
 * @category errors
 */
export class LedgerError extends Schema.TaggedError<LedgerError>("deskhand/LedgerError")("LedgerError", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `the ledger ${this.path} cannot be kept: ${this.reason}. Check the folder's permissions and the disk's space`
  }
}

/**
 * One create and how far it came: `intended`, `created`, then `removed` once the removal was asked for and `confirmed`
 * once the sandbox is known not to exist. An attempt that never came to be is `confirmed` without an id.
 *
 * @since 0.1.0
 * @category models
 */
export class LedgerEntry extends Schema.Class<LedgerEntry>("deskhand/sandbox/LedgerEntry")({
  attemptKey: Schema.NonEmptyString,
  provider: Schema.String,
  metadata: Metadata,
  sandboxId: Schema.optionalWith(Schema.String, { exact: true }),
  state: Schema.Literal("intended", "created", "removed", "confirmed"),
  /** Why it is not confirmed yet, when closing it failed. */
  reason: Schema.optionalWith(Schema.String, { exact: true })
}) {}

/**
 * What became of all creates so far.
 *
 * @since 0.1.0
 * @category models
 */
export class Receipt extends Schema.Class<Receipt>("deskhand/sandbox/Receipt")({
  provider: Schema.String,
  /** Sandboxes that are known to have existed. */
  created: Schema.NonNegativeInt,
  /** Of those, how many were asked to be removed. */
  removed: Schema.NonNegativeInt,
  /** Of those, how many are confirmed gone. */
  confirmed: Schema.NonNegativeInt,
  /** What is not confirmed: sandboxes, and creates whose outcome is not known. */
  left: Schema.Array(LedgerEntry)
}) {}

/**
 * What was created and is not confirmed gone, as a service.
 *
 * @since 0.1.0
 * @category context
 */
export class Ledger extends Context.Tag("deskhand/sandbox/Ledger")<
  Ledger,
  {
    /** On disk when it returns. */
    readonly intend: (entry: {
      readonly attemptKey: string
      readonly provider: string
      readonly metadata: typeof Metadata.Type
    }) => Effect.Effect<void, LedgerError>
    readonly created: (attemptKey: string, sandboxId: string) => Effect.Effect<void, LedgerError>
    readonly removed: (attemptKey: string) => Effect.Effect<void, LedgerError>
    readonly confirmed: (attemptKey: string) => Effect.Effect<void, LedgerError>
    readonly failed: (attemptKey: string, reason: string) => Effect.Effect<void, LedgerError>
    /** Entries that are not confirmed. */
    readonly open: Effect.Effect<ReadonlyArray<LedgerEntry>>
    readonly receipt: (provider: string) => Effect.Effect<Receipt>
  }
>() {}

const Row = Schema.parseJson(
  Schema.Union(
    Schema.Struct({
      intended: Schema.NonEmptyString,
      provider: Schema.String,
      metadata: Metadata,
      at: Schema.Finite
    }),
    Schema.Struct({ created: Schema.NonEmptyString, sandboxId: Schema.String, at: Schema.Finite }),
    Schema.Struct({ removed: Schema.NonEmptyString, at: Schema.Finite }),
    Schema.Struct({ confirmed: Schema.NonEmptyString, at: Schema.Finite }),
    Schema.Struct({ failed: Schema.NonEmptyString, reason: Schema.String, at: Schema.Finite })
  )
)

type Row = typeof Row.Type

interface Counts {
  created: number
  removed: number
  confirmed: number
}

interface Page {
  readonly entry: LedgerEntry
  /** Every sandbox that came of the attempt: a service that lost its head may have made several. */
  readonly sandboxes: ReadonlySet<string>
  /** How many of them were counted as removed. */
  readonly removed: number
}

/** What the rows say so far. What is confirmed is only counted, so a long run's book stays small. */
class Book {
  private readonly pages = new Map<string, Page>()
  private readonly counts = new Map<string, Counts>()

  get open(): ReadonlyArray<LedgerEntry> {
    return [...this.pages.values()].map(({ entry }) => entry)
  }

  of(provider: string): Counts {
    const found = this.counts.get(provider) ?? { created: 0, removed: 0, confirmed: 0 }
    this.counts.set(provider, found)
    return found
  }

  /** A row about an attempt that is confirmed, or that was never intended, says nothing new. */
  take(row: Row) {
    if ("intended" in row) {
      const { intended: attemptKey, metadata, provider } = row
      this.pages.set(attemptKey, {
        entry: LedgerEntry.make({ attemptKey, provider, metadata, state: "intended" }),
        sandboxes: new Set(),
        removed: 0
      })
    } else if ("created" in row) {
      this.turn(row.created, ({ entry, removed, sandboxes }, counts) => {
        counts.created += sandboxes.has(row.sandboxId) ? 0 : 1
        return {
          entry: LedgerEntry.make({ ...entry, sandboxId: row.sandboxId, state: "created" }),
          sandboxes: new Set([...sandboxes, row.sandboxId]),
          removed
        }
      })
    } else if ("removed" in row) {
      this.turn(row.removed, ({ entry, removed, sandboxes }, counts) => {
        counts.removed += sandboxes.size - removed
        return {
          entry: sandboxes.size === 0 ? entry : LedgerEntry.make({ ...entry, state: "removed" }),
          sandboxes,
          removed: sandboxes.size
        }
      })
    } else if ("failed" in row) {
      this.turn(row.failed, (page) => ({ ...page, entry: LedgerEntry.make({ ...page.entry, reason: row.reason }) }))
    } else {
      this.turn(row.confirmed, ({ removed, sandboxes }, counts) => {
        // What is known not to exist was removed, by whomever.
        counts.removed += sandboxes.size - removed
        counts.confirmed += sandboxes.size
        return undefined
      })
    }
  }

  private turn(key: string, next: (page: Page, counts: Counts) => Page | undefined) {
    const page = this.pages.get(key)
    if (page === undefined) {
      return
    }
    const changed = next(page, this.of(page.entry.provider))
    if (changed === undefined) {
      this.pages.delete(key)
    } else {
      this.pages.set(key, changed)
    }
  }
}

/** `write` puts a row down; `sync` says that it has to be on the disk, not in a cache, when it returns. */
const fromBook = (
  book: Book,
  write: (line: string, sync: boolean) => Effect.Effect<void, LedgerError>
): Ledger["Type"] => {
  const put = (row: (at: number) => Row, sync = false) =>
    Effect.gen(function* () {
      const said = row(yield* Clock.currentTimeMillis)
      yield* write(`${yield* Effect.orDie(Schema.encode(Row)(said))}\n`, sync)
      book.take(said)
    }).pipe(Effect.uninterruptible)
  return {
    intend: (entry) =>
      put((at) => ({ intended: entry.attemptKey, provider: entry.provider, metadata: entry.metadata, at }), true),
    created: (attemptKey, sandboxId) => put((at) => ({ created: attemptKey, sandboxId, at })),
    removed: (attemptKey) => put((at) => ({ removed: attemptKey, at })),
    confirmed: (attemptKey) => put((at) => ({ confirmed: attemptKey, at })),
    failed: (attemptKey, reason) => put((at) => ({ failed: attemptKey, reason, at }), true),
    open: Effect.sync(() => book.open),
    receipt: (provider) =>
      Effect.sync(() =>
        Receipt.make({
          provider,
          ...book.of(provider),
          left: book.open.filter((entry) => entry.provider === provider)
        })
      )
  }
}

/**
 * A ledger that ends with the program: for tests, and for sandboxes that end with it, too.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeMemory: Effect.Effect<Ledger["Type"]> = Effect.sync(() => fromBook(new Book(), () => Effect.void))

/**
 * A ledger in a file of JSON Lines, which it appends to. What an earlier program left open in the same file is open
 * again. A line that a crash or a full disk tore is left out; an intent on such a line was never sent.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: {
  readonly path: string
}): Effect.Effect<Ledger["Type"], LedgerError, FileSystem.FileSystem | Path.Path | Scope.Scope> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    yield* fs.makeDirectory(path.dirname(path.resolve(options.path)), { recursive: true })
    const lines = yield* openLines(options.path)
    const book = new Book()
    for (const line of lines.found) {
      const row = Schema.decodeUnknownOption(Row)(line)
      if (row._tag === "Some") {
        book.take(row.value)
      }
    }
    return fromBook(book, (line, sync) =>
      Effect.mapError(
        lines.append(line, sync),
        (error) => new LedgerError({ path: options.path, reason: error.message })
      )
    )
  }).pipe(
    Effect.catchTags({
      BadArgument: (error) => new LedgerError({ path: options.path, reason: error.message }),
      SystemError: (error) => new LedgerError({ path: options.path, reason: error.message })
    })
  )

/**
 * A ledger in a file, which later processes of the same run go on with.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  readonly path: string
}): Layer.Layer<Ledger, LedgerError, FileSystem.FileSystem | Path.Path> => Layer.scoped(Ledger, make(options))

/**
 * A ledger that ends with the program: what a killed one left is found by its labels alone.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerMemory: Layer.Layer<Ledger> = Layer.effect(Ledger, makeMemory)
