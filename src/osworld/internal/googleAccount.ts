/** The Google account that a few tasks need: whoever runs them brings their own. */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"

/** What the Drive API wants: a client that was registered with Google, and the account's consent to it. */
export interface Api {
  readonly clientId: string
  readonly clientSecret: Redacted.Redacted
  readonly refreshToken: Redacted.Redacted
  /** Without a slash at the end. */
  readonly apiUrl: string
  readonly tokenUrl: string
}

/** What a person types to log in, and the page that wants it. */
export interface Person {
  readonly email: string
  readonly password: Redacted.Redacted
  readonly url: string
}

export class NoAccount {
  readonly _tag = "NoAccount"
  constructor(readonly variables: ReadonlyArray<string>) {}
  get message() {
    return `the task needs a Google account: set ${this.variables.join(", ")}`
  }
}

const variable = (name: string) => `DESKHAND_GOOGLE_${name}`

const text = (name: string) => Config.nonEmptyString(variable(name))

const secret = (name: string) => Config.redacted(Config.nonEmptyString(variable(name)))

const url = (name: string, usual: string) =>
  Config.map(Config.withDefault(text(name), usual), (value) => value.replace(/\/+$/, ""))

const orNone = <A>(config: Config.Config<A>, names: ReadonlyArray<string>): Effect.Effect<A, NoAccount> =>
  Effect.mapError(config, () => new NoAccount(names.map(variable)))

export const api: Effect.Effect<Api, NoAccount> = orNone(
  Config.all({
    clientId: text("CLIENT_ID"),
    clientSecret: secret("CLIENT_SECRET"),
    refreshToken: secret("REFRESH_TOKEN"),
    apiUrl: url("API_URL", "https://www.googleapis.com"),
    tokenUrl: url("TOKEN_URL", "https://oauth2.googleapis.com/token")
  }),
  ["CLIENT_ID", "CLIENT_SECRET", "REFRESH_TOKEN"]
)

export const person: Effect.Effect<Person, NoAccount> = orNone(
  Config.all({
    email: text("EMAIL"),
    password: secret("PASSWORD"),
    url: url("DRIVE_URL", "https://drive.google.com/drive/my-drive")
  }),
  ["EMAIL", "PASSWORD"]
)
