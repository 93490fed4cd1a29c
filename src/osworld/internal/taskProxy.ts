/** The proxy through which tasks that ask for one reach the network: who it is, and what is written of it. */
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Arr from "effect/Array"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

/** Where the desktop's own end of it listens; OSWorld's port. */
export const port = 18888

/** What Chrome is told. */
export const address = `http://127.0.0.1:${port}`

const fileVariable = "DESKHAND_TASK_PROXY_FILE"
const directVariable = "DESKHAND_DIRECT_PROXY_TASKS"

const control = /[\u0000-\u0020\u007f"]/

/** tinyproxy ends a user's name at a colon and a password at an at sign, and has no way to write either. */
const User = Schema.String.pipe(
  Schema.filter((text) => (control.test(text) || text.includes(":") ? "no blanks, quotes or colons" : undefined))
)

const Password = Schema.String.pipe(
  Schema.filter((text) => (control.test(text) || text.includes("@") ? "no blanks, quotes or at signs" : undefined))
)

const Entry = Schema.Struct({
  host: Schema.String.pipe(Schema.pattern(/^[A-Za-z0-9._:[\]%-]+$/)),
  port: Schema.Int.pipe(Schema.between(1, 65535)),
  protocol: Schema.optionalWith(Schema.Literal("http"), { default: () => "http" as const }),
  username: Schema.optionalWith(Schema.Redacted(User), { exact: true, nullable: true }),
  password: Schema.optionalWith(Schema.Redacted(Password), { exact: true, nullable: true })
}).pipe(
  Schema.filter(({ password, username }) =>
    (username === undefined) === (password === undefined) ? undefined : "username and password come together"
  )
)

/** A proxy outside the desktop. */
export type Upstream = typeof Entry.Type

/** The file's content: a list that is not empty. */
export const Entries = Schema.NonEmptyArray(Entry)

/** `proxy_required_but_disabled` and `proxy_configuration_error` are the field's words. */
export class ProxyRefused {
  readonly _tag = "ProxyRefused"
  constructor(
    readonly kind: "proxy_required_but_disabled" | "proxy_configuration_error",
    readonly detail: string
  ) {}
  get message() {
    return `${this.kind}: ${this.detail}`
  }
}

const fileName = Config.option(Config.nonEmptyString(fileVariable))

/** Whether a proxy is configured, right or wrong. */
export const isConfigured: Effect.Effect<boolean> = Effect.match(fileName, {
  onFailure: () => true,
  onSuccess: Option.isSome
})

const wrong = (detail: string) => new ProxyRefused("proxy_configuration_error", detail)

/** Where in the file it is wrong. What stands there may be a password, and is not repeated. */
const places = (error: ParseResult.ParseError): string =>
  ParseResult.ArrayFormatter.formatErrorSync(error)
    .map(({ path }) => (path.length === 0 ? "the list" : path.map(String).join(".")))
    .join(", ")

export const parse = (text: string): Either.Either<Arr.NonEmptyReadonlyArray<Upstream>, ProxyRefused> =>
  Either.flatMap(
    Either.try({
      try: (): unknown => JSON.parse(text),
      catch: () => wrong(`${fileVariable} names a file that is no JSON`)
    }),
    (json) =>
      Either.mapLeft(Schema.decodeUnknownEither(Entries)(json), (error) =>
        wrong(
          `the file of ${fileVariable} has to be a list of {host, port, username, password}; wrong: ${places(error)}`
        )
      )
  )

/**
 * The proxies for tasks that ask for one. None where none is configured and such tasks may go out directly, which they may
 * unless DESKHAND_DIRECT_PROXY_TASKS says false.
 */
export const load: Effect.Effect<
  Option.Option<Arr.NonEmptyReadonlyArray<Upstream>>,
  ProxyRefused,
  FileSystem.FileSystem
> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const file = yield* Effect.mapError(fileName, () => wrong(`${fileVariable} has to be the path of a file`))
  if (Option.isNone(file)) {
    const direct = yield* Effect.mapError(Config.withDefault(Config.boolean(directVariable), true), () =>
      wrong(`${directVariable} has to be true or false`)
    )
    return direct
      ? Option.none()
      : yield* Effect.fail(
          new ProxyRefused(
            "proxy_required_but_disabled",
            `the task wants a proxy: name a file of them in ${fileVariable}`
          )
        )
  }
  const text = yield* Effect.mapError(fs.readFileString(file.value), () =>
    wrong(`the file ${file.value} of ${fileVariable} cannot be read`)
  )
  return Option.some(yield* parse(text))
})

/** What tinyproxy reads: it serves the desktop alone, and hands everything on. It is a secret where the upstream has one. */
export const tinyproxyConfig = ({
  host,
  password,
  port: upstream,
  protocol,
  username
}: Upstream): Redacted.Redacted => {
  const who =
    username === undefined || password === undefined ? "" : `${Redacted.value(username)}:${Redacted.value(password)}@`
  return Redacted.make(
    [
      `Port ${port}`,
      "Listen 127.0.0.1",
      "Allow 127.0.0.1",
      "Timeout 600",
      "MaxClients 200",
      "DisableViaHeader Yes",
      "LogLevel Critical",
      `Upstream ${protocol} ${who}${host}:${upstream}`,
      ""
    ].join("\n")
  )
}
