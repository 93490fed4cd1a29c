/**
 * Which call an address stands for, and whose.
 */
import * as Either from "effect/Either"
import { type Dialect, Refusal } from "./refusal.js"

/** Whose call it is: what the path says before `/v1`. */
export interface Correlation {
  /** Absent when the path has no prefix. */
  readonly rolloutId?: string
  /** Whether the reply's tokens are kept for training. */
  readonly training: boolean
}

export type Route =
  | { readonly _tag: "Health" }
  /** A model is asked; `path` is what follows the upstream's base address. */
  | {
      readonly _tag: "Call"
      readonly dialect: Dialect
      readonly correlation: Correlation
      readonly path: string
      readonly query: string
    }
  /** Nothing is generated: passed on to an upstream that speaks `dialect`, or to any where that is absent. */
  | {
      readonly _tag: "Plain"
      readonly dialect?: Dialect
      readonly correlation: Correlation
      readonly path: string
      readonly query: string
    }

const prefix = /^\/ng-rollout\/([^/]*)(\/training-token-capture(?=\/|$))?/

/** Ids become names of files. The length leaves room for what is put behind them. */
const safeId = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/

const calls: Readonly<Record<string, Dialect>> = {
  "/v1/chat/completions": "chat",
  "/v1/responses": "responses",
  "/v1/messages": "messages"
}

const known = `${Object.keys(calls).join(", ")} and /v1/models, each also under /ng-rollout/<id>/ and /ng-rollout/<id>/training-token-capture/`

/** The dialect in whose words an error for this address is told, whether it is a good address or not. */
export const dialectOf = (target: string): Dialect => (target.includes("/v1/messages") ? "messages" : "chat")

/** Reads a request line. A refusal names what is wrong with it. */
export const parse = (method: string, target: string): Either.Either<Route, Refusal> => {
  const mark = target.indexOf("?")
  const whole = mark < 0 ? target : target.slice(0, mark)
  const query = mark < 0 ? "" : target.slice(mark)
  const [matched = "", rolloutId, training] = prefix.exec(whole) ?? []
  if (rolloutId !== undefined && !safeId.test(rolloutId)) {
    return refuse(
      400,
      "invalid_rollout_id",
      `the rollout id ${JSON.stringify(rolloutId)} is none: letters, digits, dots, dashes and underscores, a letter or digit first, at most 200`
    )
  }
  // Such a path would leave the upstream's base address.
  if (/(^|\/)(\.|%2e){1,2}(\/|$)|\\|%5c/i.test(whole)) {
    return refuse(404, "unknown_route", `the path ${whole} is not plain`)
  }
  const correlation: Correlation =
    rolloutId === undefined ? { training: false } : { rolloutId, training: training !== undefined }
  const rest = whole.slice(matched.length)
  const path = rest.slice("/v1".length)
  const dialect = calls[rest]
  const wrongMethod = (allowed: string) =>
    refuse(405, "method_not_allowed", `${method} ${rest} is not served; ${allowed} is`)
  if (dialect !== undefined) {
    return method === "POST"
      ? Either.right({ _tag: "Call", dialect, correlation, path, query })
      : wrongMethod(`POST ${rest}`)
  }
  if (rest === "" || rest === "/") {
    return method === "GET" || method === "HEAD" ? Either.right({ _tag: "Health" }) : wrongMethod("GET /")
  }
  if (/^\/v1\/models(\/|$)/.test(rest)) {
    return method === "GET" ? Either.right({ _tag: "Plain", correlation, path, query }) : wrongMethod(`GET ${rest}`)
  }
  if (rest === "/v1/messages/count_tokens") {
    return method === "POST"
      ? Either.right({ _tag: "Plain", dialect: "messages", correlation, path, query })
      : wrongMethod(`POST ${rest}`)
  }
  return refuse(404, "unknown_route", `this gateway has no ${method} ${rest}. It has ${known}`)
}

const refuse = (status: number, code: Refusal["code"], detail: string): Either.Either<never, Refusal> =>
  Either.left(new Refusal({ status, code, detail }))
