/**
 * The one place that keeps secrets out of what is written: logs, errors, manifests, rows.
 *
 * A value is masked when its name says that it is a secret (a token, a key, a password, a credential, an authorization, a
 * cookie; any case, dashes or underscores), and wherever it stands when the caller knows the secret itself. Redacting
 * twice is the same as once.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { JsonObject } from "./Convert.js"
import { isSecretName, isSecretParameter } from "./internal/secretNames.js"

export {
  /**
   * Whether what has this name (a key, a header, a variable) is a secret.
   *
   * @since 0.1.0
   * @category predicates
   */
  isSecretName
}

/**
 * What stands where a secret was.
 *
 * @since 0.1.0
 * @category constants
 */
export const mark = "<redacted>"

/**
 * Secrets that a caller knows. They are found in any text, also as a percent-encoded, JSON-escaped or base64 one; those
 * shorter than 4 characters are not, since they stand in texts by chance.
 *
 * @since 0.1.0
 * @category models
 */
export type Secrets = ReadonlyArray<string | Redacted.Redacted>

// -----------------------------------------------------------------------------
// Texts
// -----------------------------------------------------------------------------

const shortest = 4

/** Objects nested deeper than this become the mark: they are nobody's config, and following them ends the stack. */
const deepest = 500

const percentEncoded = Option.liftThrowable(encodeURIComponent)

/** The ways in which a secret may be written. */
const forms = (secrets: Secrets): ReadonlyArray<string> => {
  const written = secrets
    .map((secret) => (Redacted.isRedacted(secret) ? Redacted.value(secret) : secret))
    .filter((secret) => secret.length >= shortest)
    .flatMap((secret) => [
      secret,
      JSON.stringify(secret).slice(1, -1),
      Buffer.from(secret).toString("base64"),
      Buffer.from(secret).toString("base64url"),
      ...Option.toArray(percentEncoded(secret))
    ])
  // The longest first: a secret that begins as another one does is masked whole.
  return Array.from(new Set(written))
    .filter((form) => !mark.includes(form))
    .sort((a, b) => b.length - a.length)
}

type Step = (text: string) => string

const same: Step = (text) => text

const withoutForms = (all: ReadonlyArray<string>): Step => {
  if (all.length === 0) return same
  const any = new RegExp(all.map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|"), "g")
  return (text) => text.replace(any, mark)
}

/** Repeats a step until it changes nothing, so that doing all of it again changes nothing either. */
const settled =
  (step: Step): Step =>
  (text) => {
    let now = text
    for (let round = 0; round < 8; round += 1) {
      const next = step(now)
      if (next === now) return now
      now = next
    }
    return mark
  }

const withoutParameters = (query: string): string =>
  query
    .split(/([&;])/)
    .map((pair) => {
      const [name = "", ...value] = pair.split("=")
      const isSecret = value.join("=") !== "" && isSecretParameter(Option.getOrElse(decoded(name), () => name))
      return isSecret ? `${name}=redacted` : pair
    })
    .join("")

const decoded = Option.liftThrowable(decodeURIComponent)

const hierarchical = /^([A-Za-z][A-Za-z0-9+.-]{0,30}:)?[\\/]{2}/

const bareUrl: Step = (url) => {
  const start = hierarchical.exec(url)?.[0].length
  if (start === undefined) {
    // `user:password@host`, an address to whoever wrote it.
    return /^(?!data:|mailto:)[^\s/?#@:]*:[^\s/?#]*@/i.test(url)
      ? url.slice(url.lastIndexOf("@") + 1)
      : parametersOf(url)
  }
  const rest = url.slice(start)
  const authority = rest.split(/[\\/?#]/, 1)[0] ?? ""
  const at = authority.lastIndexOf("@")
  // A password with a slash in it, not encoded: no address, but a secret all the same.
  const broken = at < 0 && !URL.canParse(url) && /^[^\s/?#:]*:[^\s]*@/.test(rest) ? rest.lastIndexOf("@") : at
  return url.slice(0, start) + parametersOf(rest.slice(broken + 1))
}

const parametersOf: Step = (address) => {
  const begin = address.search(/[?#]/)
  return begin < 0 ? address : address.slice(0, begin) + address.slice(begin).replace(/[^?#]+/g, withoutParameters)
}

const isUrl = (text: string): boolean => hierarchical.test(text) && !/\s/.test(text)

/** A text under a name that is no secret: an address loses its credentials, other texts stay. */
const leaf = (secrets: Secrets): Step => {
  const literal = withoutForms(forms(secrets))
  const step = settled((text) => literal(isUrl(text) ? bareUrl(text) : text))
  return (text) => (text === "" || (literal === same && !isUrl(text)) ? text : step(text))
}

/**
 * An address without user name and password, and with `redacted` for each parameter of its query or fragment that is a
 * secret by its name; the rest stays as it is written. Takes anything, also what is no address.
 *
 * @since 0.1.0
 * @category redaction
 */
export const redactUrl = (url: string, secrets: Secrets = []): string => {
  const literal = withoutForms(forms(secrets))
  return settled((text) => literal(bareUrl(text)))(url)
}

// Each begins where a word begins and its name is bounded, so that a long run of letters is read once.
const urlsIn = /(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}:\/\/[^\s"'<>`]+/g
const headersIn =
  /(?<![A-Za-z0-9_-])((?:proxy-)?authorization|(?:set-)?cookie)((?:\\?["'])?\s*[:=]\s*(?:\\?["'])?)[^"'\\\r\n]+/gi
const bearersIn = /\b(Bearer)(\s+)(?=\S*\d|\S{20})[A-Za-z0-9._~+/=-]+/gi
const valuesIn =
  /(?<![A-Za-z0-9_.])([A-Za-z][A-Za-z0-9_.-]{0,80})((?:\\?["'])?\s*[:=]\s*)("[^"\r\n]*"?|'[^'\r\n]*'?|\\"[^"\r\n]*"?|(?:[^\s"'\\&]|\\(?!["']))*[^\s"'\\&,;(){}[\]])/g
const flagsIn = /(?<![A-Za-z0-9_-])(--?)([A-Za-z][A-Za-z0-9_-]{0,80})(\s+)(?!-)("[^"\r\n]*"?|'[^'\r\n]*'?|[^\s"']+)/g
const knownIn =
  /(?<![A-Za-z0-9_-])(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})/g

/** The quotes stay, so that a text which was JSON still is. */
const quoted = (value: string): string => {
  const quote = /^\\?["']/.exec(value)?.[0] ?? ""
  const closed = quote !== "" && value.length > quote.length && value.endsWith(quote)
  return `${quote}${mark}${closed ? quote : ""}`
}

const isEmpty = (value: string): boolean => /^(?:\\?["']{0,2}|null|true|false|undefined|none)$/i.test(value)

const prose: Step = (text) =>
  text
    .replace(urlsIn, bareUrl)
    .replace(headersIn, `$1$2${mark}`)
    .replace(bearersIn, `$1$2${mark}`)
    .replace(valuesIn, (whole: string, name: string, between: string, value: string) =>
      name.toLowerCase() !== "key" && !value.startsWith(mark) && !isEmpty(value) && isSecretName(name)
        ? `${name}${between}${quoted(value)}`
        : whole
    )
    .replace(flagsIn, (whole: string, dashes: string, name: string, between: string, value: string) =>
      !value.startsWith(mark) && isSecretName(name) ? `${dashes}${name}${between}${quoted(value)}` : whole
    )
    .replace(knownIn, mark)

/**
 * A text for people: an error, a line of a log, a command line. Known secrets go, and so do credentials in addresses,
 * `Authorization` and `Cookie` lines, bearer tokens, `name=value`, `name: value` and `--name value` whose name is of a
 * secret, and keys in the published shapes of well-known services.
 *
 * @since 0.1.0
 * @category redaction
 */
export const redactText = (text: string, secrets: Secrets = []): string => {
  const literal = withoutForms(forms(secrets))
  return settled((now) => literal(prose(now)))(text)
}

// -----------------------------------------------------------------------------
// Headers and environments
// -----------------------------------------------------------------------------

const redactNamed = (
  values: Readonly<Record<string, string | undefined>>,
  secrets: Secrets
): Readonly<Record<string, string>> => {
  const text = leaf(secrets)
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => {
      if (value === undefined) return []
      const shown = text(name)
      return [[shown, value !== "" && (isSecretName(name) || isSecretName(shown)) ? mark : text(value)]]
    })
  )
}

/**
 * Headers for a log: credentials by name, addresses without theirs.
 *
 * @since 0.1.0
 * @category redaction
 */
export const redactHeaders = (
  headers: Readonly<Record<string, string | undefined>>,
  secrets: Secrets = []
): Readonly<Record<string, string>> => redactNamed(headers, secrets)

/**
 * An environment for a log or a manifest: secrets by name, addresses (a proxy's, a database's) without credentials.
 *
 * @since 0.1.0
 * @category redaction
 */
export const redactEnv = (
  env: Readonly<Record<string, string | undefined>>,
  secrets: Secrets = []
): Readonly<Record<string, string>> => redactNamed(env, secrets)

// -----------------------------------------------------------------------------
// JSON
// -----------------------------------------------------------------------------

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const logProbability = (value: JsonObject): boolean =>
  typeof value["logprob"] === "number" || typeof value["prob"] === "number"

/** A tool's parameter may be called `password`: its schema is no secret. */
const schemaWords = new Set(
  `$ref additionalProperties allOf anyOf deprecated description format items maxItems maxLength maximum minItems minLength
  minimum nullable oneOf pattern properties readOnly required title type writeOnly`.split(/\s+/)
)

const isSchema = (value: unknown): boolean => isObject(value) && Object.keys(value).every((key) => schemaWords.has(key))

/** Whether the value at `key` of `owner`, itself under `above`, is a secret by its names. */
const isSecretEntry = (owner: JsonObject, key: string, shown: string, above: string | undefined): boolean => {
  const value = owner[key]
  if (value === null || value === "" || typeof value === "boolean" || value === undefined) return false
  // `{ name: "API_KEY", value: ... }`, and `key` where it is said so.
  if (key === "value" && [owner["name"], owner["key"]].some((name) => typeof name === "string" && isSecretName(name))) {
    return true
  }
  if (key === "key" && (Object.hasOwn(owner, "value") || typeof value !== "string")) return false
  // A token of a model, beside how likely it was.
  if (key === "token" && (logProbability(owner) || (isObject(value) && logProbability(value)))) return false
  return (isSecretName(key) || isSecretName(shown)) && !(above === "properties" && isSchema(value))
}

/**
 * JSON without its secrets: what stands under a secret's name becomes `<redacted>`, whatever it is, except `null`,
 * booleans and empty texts; texts that are addresses lose their credentials; known secrets go from every text, key and
 * number. Tokens of a model (beside a `logprob`) and schemas of a tool's parameters are no secrets. What is nested deeper
 * than 500 levels becomes `<redacted>`. Never throws; the value itself is not changed.
 *
 * @since 0.1.0
 * @category redaction
 */
export function redactJson(value: JsonObject, secrets?: Secrets): JsonObject
export function redactJson(value: unknown, secrets?: Secrets): unknown
export function redactJson(value: unknown, secrets: Secrets = []): unknown {
  const text = leaf(secrets)
  const numbers = forms(secrets).filter((form) => /^[-+.\deE]+$/.test(form))
  const walk = (now: unknown, above: string | undefined, depth: number): unknown => {
    if (typeof now === "string") return text(now)
    if (typeof now === "number") {
      return numbers.length > 0 && numbers.some((form) => String(now).includes(form)) ? mark : now
    }
    if (Array.isArray(now)) return depth > deepest ? mark : now.map((item) => walk(item, undefined, depth + 1))
    if (!isObject(now)) return now
    if (depth > deepest) return mark
    return Object.fromEntries(
      Object.keys(now).map((key) => {
        const shown = text(key)
        return [shown, isSecretEntry(now, key, shown, above) ? mark : walk(now[key], key, depth + 1)]
      })
    )
  }
  return walk(value, undefined, 0)
}
