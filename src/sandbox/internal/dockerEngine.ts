/**
 * A client of the Docker Engine API, 1.41 and later, with the calls that sandboxes need.
 */
import * as Http from "node:http"
import type { Duplex, Readable } from "node:stream"
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as Chunk from "effect/Chunk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as ParseResult from "effect/ParseResult"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Address } from "./dockerAddress.js"
import * as Connection from "./dockerConnection.js"
import { EngineError, Failure } from "./dockerFailure.js"
import * as Frames from "./dockerFrames.js"

// -----------------------------------------------------------------------------
// What the engine says
// -----------------------------------------------------------------------------

const absent = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { nullable: true, exact: true })
const Labels = Schema.Record({ key: Schema.String, value: Schema.String })

export const Version = Schema.Struct({ Version: Schema.String, ApiVersion: Schema.String })

export const Info = Schema.Struct({ OperatingSystem: absent(Schema.String), OSType: absent(Schema.String) })

export const Created = Schema.Struct({ Id: Schema.NonEmptyString })

export const Listed = Schema.Array(
  Schema.Struct({
    Id: Schema.String,
    Names: absent(Schema.Array(Schema.String)),
    Labels: absent(Labels),
    State: Schema.String,
    /** Seconds since 1970. */
    Created: Schema.Number
  })
)

const Binding = Schema.Struct({ HostIp: absent(Schema.String), HostPort: absent(Schema.String) })

export const Inspected = Schema.Struct({
  Id: Schema.String,
  Name: Schema.String,
  Created: Schema.String,
  State: Schema.Struct({
    Status: Schema.String,
    Running: Schema.Boolean,
    Paused: absent(Schema.Boolean),
    OOMKilled: absent(Schema.Boolean),
    ExitCode: absent(Schema.Number),
    Error: absent(Schema.String)
  }),
  Config: Schema.Struct({ Labels: absent(Labels), User: absent(Schema.String) }),
  HostConfig: Schema.Struct({ NetworkMode: absent(Schema.String) }),
  NetworkSettings: Schema.Struct({
    Ports: absent(Schema.Record({ key: Schema.String, value: Schema.NullOr(Schema.Array(Binding)) })),
    Networks: absent(
      Schema.Record({
        key: Schema.String,
        value: Schema.Struct({ IPAddress: absent(Schema.String), GlobalIPv6Address: absent(Schema.String) })
      })
    )
  })
})

export const ExecInspected = Schema.Struct({
  Running: Schema.Boolean,
  ExitCode: Schema.optionalWith(Schema.NullOr(Schema.Number), { exact: true })
})

export const Waited = Schema.Struct({ StatusCode: Schema.Number })

export const Network = Schema.Struct({
  Id: Schema.String,
  Name: Schema.String,
  Internal: Schema.Boolean,
  Labels: absent(Labels)
})

const Refusal = Schema.parseJson(Schema.Struct({ message: Schema.String }))

/** What `X-Docker-Container-Path-Stat` tells of a path, in base64; `mode` is Go's. */
export const PathStat = Schema.compose(
  Schema.StringFromBase64,
  Schema.parseJson(
    Schema.Struct({
      name: Schema.String,
      size: Schema.Number,
      mode: Schema.Number,
      linkTarget: absent(Schema.String)
    })
  )
)

export const isFolder = (stat: typeof PathStat.Type): boolean => (stat.mode & 0x80000000) !== 0

export interface ExecOptions {
  readonly Cmd: ReadonlyArray<string>
  readonly Env?: ReadonlyArray<string>
  readonly WorkingDir?: string
  readonly User?: string
  readonly AttachStdin: boolean
  readonly AttachStdout: boolean
  readonly AttachStderr: boolean
}

// -----------------------------------------------------------------------------
// Calls
// -----------------------------------------------------------------------------

interface Call {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "DELETE"
  /** With its query, without the version. */
  readonly path: string
  readonly json?: unknown
  /** Bytes to send, whose number is known. */
  readonly body?: { readonly open: () => Readable; readonly type: string; readonly size: number }
  /** The answer turns the connection over to us. */
  readonly upgrade?: boolean
}

interface Answer {
  readonly status: number
  readonly headers: Http.IncomingHttpHeaders
  readonly body: Readable
  /** After an upgrade: what is written here is the command's input. */
  readonly socket: Duplex | undefined
}

/** The newest version that is asked for, and the oldest that has everything: 1.47 and 1.41. */
const newestMinor = 47
export const oldestMinor = 41

/** How long an answer to a question may take. Creates and waits are not questions. */
const answerLimit = Duration.seconds(60)

/** A path's part. */
const part = encodeURIComponent

const query = (values: Readonly<Record<string, string | undefined>>): string => {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) {
      search.set(name, value)
    }
  }
  return search.size === 0 ? "" : `?${search}`
}

const reasonOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause))
const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : ""

/** One HTTP exchange; the connection is given up when the scope closes before the answer was read. */
const exchange = (address: Address, agent: Http.Agent, call: Call): Effect.Effect<Answer, EngineError, Scope.Scope> =>
  Effect.gen(function* () {
    const held = yield* Effect.acquireRelease(
      Effect.sync(() => ({ close: () => {} })),
      (held) => Effect.sync(() => held.close())
    )
    return yield* Effect.async<Answer, EngineError>((resume) => {
      const name = nameOf(call)
      const fail = (failure: Failure) => resume(Effect.fail(new EngineError({ failure })))
      const json = call.json === undefined ? undefined : Buffer.from(JSON.stringify(call.json))
      let connected = false
      let request: Http.ClientRequest
      try {
        request = Http.request({
          agent,
          method: call.method,
          path: call.path,
          headers: {
            Host: address._tag === "Unix" ? "docker" : address.host.includes(":") ? `[${address.host}]` : address.host,
            ...(json === undefined ? {} : { "Content-Type": "application/json", "Content-Length": json.length }),
            ...(call.body === undefined ? {} : { "Content-Type": call.body.type, "Content-Length": call.body.size }),
            ...(call.method === "POST" && json === undefined ? { "Content-Length": 0 } : {}),
            ...(call.upgrade === true ? { Connection: "Upgrade", Upgrade: "tcp" } : {})
          }
        })
      } catch (cause) {
        // Certificates that cannot be read.
        fail(Failure.Unsent({ call: name, reason: reasonOf(cause), denied: true }))
        return
      }
      held.close = () => request.destroy()
      request.on("socket", (socket: Duplex & { readonly connecting?: boolean; readonly encrypted?: boolean }) => {
        if (socket.connecting === true) {
          socket.once(socket.encrypted === true ? "secureConnect" : "connect", () => {
            connected = true
          })
        } else {
          connected = true
        }
      })
      request.on("error", (cause) => {
        const code = codeOf(cause)
        fail(
          connected
            ? Failure.Lost({ call: name, reason: reasonOf(cause) })
            : Failure.Unsent({ call: name, reason: reasonOf(cause), denied: code === "EACCES" || code === "EPERM" })
        )
      })
      request.on("response", (body) => {
        held.close = () => {
          if (!body.readableEnded) {
            request.destroy()
          }
        }
        resume(Effect.succeed({ status: body.statusCode ?? 0, headers: body.headers, body, socket: undefined }))
      })
      request.on("upgrade", (response, socket, head) => {
        held.close = () => socket.destroy()
        // Whoever reads it hears of its errors; when nobody does, they do not matter.
        socket.on("error", () => {})
        if (head.length > 0) {
          socket.unshift(head)
        }
        resume(Effect.succeed({ status: response.statusCode ?? 101, headers: response.headers, body: socket, socket }))
      })
      if (call.body === undefined) {
        request.end(json)
      } else {
        const body = call.body.open()
        body.on("error", (cause) => request.destroy(cause))
        request.on("close", () => body.destroy())
        body.pipe(request)
      }
    })
  })

const nameOf = (call: Call) => `${call.method} ${call.path.replace(/\?.*$/, "").replace(/^\/v[\d.]+/, "")}`

const lost = (call: Call) => (cause: unknown) =>
  new EngineError({ failure: Failure.Lost({ call: nameOf(call), reason: reasonOf(cause) }) })

const bytesOf = (call: Call, answer: Answer): Stream.Stream<Uint8Array, EngineError> =>
  NodeStream.fromReadable<EngineError, Uint8Array>(() => answer.body, lost(call))

const textOf = (call: Call, answer: Answer): Effect.Effect<string, EngineError> =>
  NodeStream.toString(() => answer.body, { onFailure: lost(call) })

const refused = (call: Call, answer: Answer): Effect.Effect<never, EngineError> =>
  Effect.flatMap(textOf(call, answer), (text) =>
    Effect.flatMap(
      Effect.orElseSucceed(
        Effect.map(Schema.decode(Refusal)(text), ({ message }) => message),
        () => text.trim()
      ),
      (reason) => new EngineError({ failure: Failure.Refused({ call: nameOf(call), status: answer.status, reason }) })
    )
  )

/**
 * The calls. All fail with `EngineError`; those with a limit of their own say `Lost` when it is over.
 */
export const make = (address: Address) =>
  Effect.gen(function* () {
    const agent = yield* Effect.acquireRelease(
      Effect.sync(() => Connection.agent(address)),
      (agent) => Effect.sync(() => agent.destroy())
    )
    const agreed = yield* Ref.make<string | undefined>(undefined)

    const raw = (call: Call) =>
      Effect.flatMap(exchange(address, agent, call), (answer) =>
        answer.status >= 400 ? refused(call, answer) : Effect.succeed(answer)
      )

    const limited =
      (call: Call) =>
      <A, R>(effect: Effect.Effect<A, EngineError, R>): Effect.Effect<A, EngineError, R> =>
        Effect.timeoutFail(effect, {
          duration: answerLimit,
          onTimeout: () => lost(call)(new Error(`no answer within ${Duration.format(answerLimit)}`))
        })

    const decoded = <A, I>(call: Call, schema: Schema.Schema<A, I>, answer: Answer): Effect.Effect<A, EngineError> =>
      Effect.flatMap(textOf(call, answer), (text) =>
        Effect.mapError(Schema.decode(Schema.parseJson(schema))(text), (error: ParseResult.ParseError) =>
          lost(call)(new Error(`the answer is not understood: ${error.message}`))
        )
      )

    /** Asked without a version, because every engine answers it. */
    const versionCall: Call = { method: "GET", path: "/version" }
    const version = limited(versionCall)(
      Effect.scoped(Effect.flatMap(raw(versionCall), (answer) => decoded(versionCall, Version, answer)))
    )

    /** The version that both sides speak, asked for once an engine answers. */
    const prefix = Effect.gen(function* () {
      const known = yield* Ref.get(agreed)
      if (known !== undefined) {
        return known
      }
      const { ApiVersion } = yield* version
      const [major, minor] = ApiVersion.split(".").map(Number)
      const found = major === 1 && minor !== undefined ? Math.min(minor, newestMinor) : oldestMinor
      const path = `/v1.${Math.max(found, oldestMinor)}`
      yield* Ref.set(agreed, path)
      return path
    })

    /** While the version is not known, nothing of the call has been sent. */
    const unsent = (error: EngineError) =>
      error.failure._tag === "Lost"
        ? new EngineError({ failure: Failure.Unsent({ ...error.failure, denied: false }) })
        : error

    const call = (wanted: Call) =>
      Effect.flatMap(Effect.mapError(prefix, unsent), (path) => raw({ ...wanted, path: `${path}${wanted.path}` }))

    /** A question is asked again on a connection that turned out to be closed. */
    const read = <A, I>(wanted: Call, schema: Schema.Schema<A, I>): Effect.Effect<A, EngineError> =>
      Effect.scoped(Effect.flatMap(call(wanted), (answer) => decoded(wanted, schema, answer))).pipe(
        limited(wanted),
        Effect.retry({ times: 1, while: ({ failure }) => wanted.method === "GET" && failure._tag === "Lost" })
      )

    /** The answer's text is read so that the connection can be used again. */
    const act = (wanted: Call): Effect.Effect<number, EngineError> =>
      Effect.scoped(Effect.flatMap(call(wanted), (answer) => Effect.as(textOf(wanted, answer), answer.status))).pipe(
        limited(wanted)
      )

    const container = (id: string, rest = "") => `/containers/${part(id)}${rest}`

    const statOf = (wanted: Call, answer: Answer) =>
      Effect.mapError(Schema.decodeUnknown(PathStat)(answer.headers["x-docker-container-path-stat"]), (error) =>
        lost(wanted)(new Error(`the answer is not understood: ${error.message}`))
      )

    return {
      address,
      version,
      info: read({ method: "GET", path: "/info" }, Info),
      image: (name: string) =>
        read({ method: "GET", path: `/images/${part(name)}/json` }, Schema.Struct({ Id: Schema.String })),

      /** Has no limit of its own. */
      create: (name: string, body: unknown) => {
        const wanted: Call = { method: "POST", path: `/containers/create${query({ name })}`, json: body }
        return Effect.scoped(Effect.flatMap(call(wanted), (answer) => decoded(wanted, Created, answer)))
      },
      start: (id: string) => act({ method: "POST", path: container(id, "/start") }),
      kill: (id: string, signal: string) =>
        act({ method: "POST", path: `${container(id, "/kill")}${query({ signal })}` }),
      /** Ends it, if it runs, and removes it with its anonymous volumes. */
      remove: (id: string) => act({ method: "DELETE", path: `${container(id)}${query({ force: "1", v: "1" })}` }),
      inspect: (idOrName: string) => read({ method: "GET", path: container(idOrName, "/json") }, Inspected),
      /** In any state, with all of these labels. */
      list: (labels: Readonly<Record<string, string>>) =>
        read(
          {
            method: "GET",
            path: `/containers/json${query({
              all: "1",
              filters: JSON.stringify({ label: Object.entries(labels).map(([name, value]) => `${name}=${value}`) })
            })}`
          },
          Listed
        ),
      /** Answers with the exit code when the container does not run any more. Has no limit of its own. */
      wait: (id: string) => {
        const wanted: Call = { method: "POST", path: `${container(id, "/wait")}${query({ condition: "not-running" })}` }
        return Effect.scoped(Effect.flatMap(call(wanted), (answer) => decoded(wanted, Waited, answer)))
      },
      /** The last lines that it printed, both streams in order. */
      logs: (id: string, lines: number) => {
        const wanted: Call = {
          method: "GET",
          path: `${container(id, "/logs")}${query({ stdout: "1", stderr: "1", tail: String(lines) })}`
        }
        return Stream.unwrapScoped(Effect.map(call(wanted), (answer) => Frames.decode(bytesOf(wanted, answer)))).pipe(
          Stream.runCollect,
          Effect.map((frames) =>
            Buffer.concat(Chunk.toReadonlyArray(frames).map(({ bytes }) => bytes)).toString("utf8")
          ),
          limited(wanted)
        )
      },

      execCreate: (id: string, options: ExecOptions) =>
        read({ method: "POST", path: container(id, "/exec"), json: { ...options, Tty: false } }, Created),
      /**
       * Starts it and takes the connection over until the scope closes. `input` is written, and then its end is, when
       * the exec was made to read.
       */
      execStart: (execId: string, input: string | undefined) => {
        const wanted: Call = {
          method: "POST",
          path: `/exec/${part(execId)}/start`,
          json: { Detach: false, Tty: false },
          upgrade: true
        }
        return Effect.map(call(wanted), (answer) => {
          if (input !== undefined && answer.socket !== undefined) {
            answer.socket.end(input)
          }
          return Frames.decode(bytesOf(wanted, answer))
        })
      },
      execInspect: (execId: string) => read({ method: "GET", path: `/exec/${part(execId)}/json` }, ExecInspected),

      /** What is at a path; a link is told of and not followed. */
      stat: (id: string, path: string) => {
        const wanted: Call = { method: "HEAD", path: `${container(id, "/archive")}${query({ path })}` }
        return Effect.scoped(
          Effect.flatMap(call(wanted), (answer) => Effect.zipLeft(statOf(wanted, answer), textOf(wanted, answer)))
        ).pipe(limited(wanted))
      },
      /** What is at a path, as a tar archive, until the scope closes. */
      getArchive: (id: string, path: string) => {
        const wanted: Call = { method: "GET", path: `${container(id, "/archive")}${query({ path })}` }
        return Effect.flatMap(call(wanted), (answer) =>
          Effect.map(statOf(wanted, answer), (stat) => ({ stat, bytes: bytesOf(wanted, answer) }))
        )
      },
      /** Unpacks an archive of this many bytes in a folder. Has no limit of its own. */
      putArchive: (id: string, folder: string, size: number, open: () => Readable) => {
        const wanted: Call = {
          method: "PUT",
          path: `${container(id, "/archive")}${query({ path: folder, noOverwriteDirNonDir: "1" })}`,
          body: { open, type: "application/x-tar", size }
        }
        return Effect.asVoid(Effect.scoped(Effect.flatMap(call(wanted), (answer) => textOf(wanted, answer))))
      },

      network: (name: string) => read({ method: "GET", path: `/networks/${part(name)}` }, Network),
      createNetwork: (body: unknown) =>
        read({ method: "POST", path: "/networks/create", json: body }, Schema.Struct({ Id: Schema.String }))
    }
  })

export interface Engine extends Effect.Effect.Success<ReturnType<typeof make>> {}
