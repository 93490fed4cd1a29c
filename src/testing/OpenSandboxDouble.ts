/**
 * A double of an OpenSandbox service on loopback, with faults on demand. Its sandboxes are folders; their commands are
 * processes of this host, in a bubblewrap container with the folder as its root where bubblewrap is there.
 *
 * @since 0.1.0
 */
import * as fs from "node:fs"
import * as http from "node:http"
import * as os from "node:os"
import * as path from "node:path"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { onLifecycle } from "./internal/openSandboxControl.js"
import { onSandbox } from "./internal/openSandboxExecd.js"
import { Service } from "./internal/openSandboxState.js"

/**
 * What can be asked of the service.
 *
 * @since 0.1.0
 * @category models
 */
export type Operation =
  | "create"
  | "get"
  | "list"
  | "delete"
  | "pause"
  | "resume"
  | "renew"
  | "endpoint"
  | "snapshot"
  | "ping"
  | "command"
  | "interrupt"
  | "status"
  | "upload"
  | "download"

/**
 * What happens to a request instead of, or besides, what should.
 *
 * - `lose`: it is carried out, and the connection is cut instead of an answer.
 * - `drop`: the connection is cut before anything is done.
 * - `hang`: it is carried out only after `millis`, whether the client is still there or not, and then answered.
 * - `status`: it is refused with `status`, and nothing is done.
 * - `malformed`: it is carried out and answered with half a JSON text.
 * - `cut`: of a command, the stream is cut after its first event, and the command goes on.
 * - `nullExit`: of a command, its exit code stays unknown.
 *
 * @since 0.1.0
 * @category models
 */
export type Fault =
  | { readonly kind: "lose" | "drop" | "malformed" | "cut" | "nullExit" }
  | { readonly kind: "hang"; readonly millis: number }
  | { readonly kind: "status"; readonly status: number; readonly retryAfter?: string }

/**
 * How the service behaves; it can be changed while it runs.
 *
 * @since 0.1.0
 * @category models
 */
export interface Behaviour {
  /** Milliseconds from a create's answer to `Running`. */
  startDelay: number
  /** Milliseconds from a delete's answer to 404. */
  deleteDelay: number
  /** Milliseconds that pausing and resuming take. */
  pauseDelay: number
  /** No page is longer, whatever is asked for. */
  pageLimit: number
  /** Answers every list with everything. */
  ignoresFilter: boolean
  /** Sandboxes never come to run. */
  failsToStart: boolean
  /** What endpoints call the host. */
  host: string
}

/**
 * One request as it arrived. `plane` tells whether the service got it or a sandbox.
 *
 * @since 0.1.0
 * @category models
 */
export interface Seen {
  readonly plane: "lifecycle" | "sandbox"
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  /** Of a create. */
  readonly body?: unknown
}

/**
 * @since 0.1.0
 * @category models
 */
export interface OpenSandboxDouble {
  /** With the version, and without a trailing slash. */
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted
  readonly behaviour: Behaviour
  /** The next requests of this kind meet this fault, `times` of them (one unless given). */
  readonly inject: (operation: Operation, fault: Fault, times?: number) => Effect.Effect<void>
  /** Faults that no request has met yet are forgotten. */
  readonly heal: Effect.Effect<void>
  readonly requests: Effect.Effect<ReadonlyArray<Seen>>
  /** What is there: the ids of sandboxes in any state, of snapshots, and how many processes run. */
  readonly inventory: Effect.Effect<{
    readonly sandboxes: ReadonlyArray<string>
    readonly snapshots: ReadonlyArray<string>
    readonly processes: number
    readonly folders: number
  }>
  /** Puts a sandbox there that nobody created: somebody else's. */
  readonly plant: (metadata: Readonly<Record<string, string>>) => Effect.Effect<string>
  /** Ends a sandbox as if by itself. */
  readonly kill: (id: string) => Effect.Effect<void>
}

const listening = (
  handle: (request: http.IncomingMessage, response: http.ServerResponse) => Promise<unknown>
): Effect.Effect<number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<{ readonly server: http.Server; readonly port: number }>((resume) => {
        const server = http.createServer((request, response) => {
          handle(request, response).catch(() => response.destroy())
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          resume(Effect.succeed({ server, port: typeof address === "object" && address !== null ? address.port : 0 }))
        })
      }),
      ({ server }) =>
        Effect.async<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    ),
    ({ port }) => port
  )

/**
 * Runs until the scope closes; then everything of it is gone.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (behaviour: Partial<Behaviour> = {}): Effect.Effect<OpenSandboxDouble, never, Scope.Scope> =>
  Effect.gen(function* () {
    const service = yield* Effect.acquireRelease(
      Effect.sync(() => new Service(fs.mkdtempSync(path.join(os.tmpdir(), "dh-opensandbox-")))),
      (service) =>
        Effect.sync(() => {
          for (const box of [...service.boxes.values()]) {
            service.drop(box)
          }
          fs.rmSync(service.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
        })
    )
    Object.assign(service.behaviour, behaviour)
    service.dataPort = yield* listening(onSandbox(service))
    service.port = yield* listening(onLifecycle(service))
    return {
      baseUrl: `http://127.0.0.1:${service.port}/v1`,
      apiKey: Redacted.make(service.key),
      behaviour: service.behaviour,
      inject: (operation, fault, times = 1) =>
        Effect.sync(() => {
          const queue = service.faults.get(operation) ?? []
          service.faults.set(operation, [...queue, ...Array.from({ length: times }, () => fault)])
        }),
      heal: Effect.sync(() => service.faults.clear()),
      requests: Effect.sync(() => [...service.seen]),
      inventory: Effect.sync(() => ({
        sandboxes: [...service.boxes.keys()],
        snapshots: [...service.snapshots.keys()],
        processes: [...service.boxes.values()]
          .flatMap(({ commands }) => [...commands.values()])
          .filter(({ running }) => running).length,
        folders: fs.readdirSync(service.folder).length
      })),
      plant: (metadata) =>
        Effect.sync(() => {
          const box = service.open({ metadata })
          service.start(box)
          return box.id
        }),
      kill: (id) =>
        Effect.sync(() => {
          const box = service.boxes.get(id)
          if (box !== undefined) {
            service.over(box, "it was killed")
          }
        })
    }
  })
