/**
 * What an E2B service needs to be of use, asked without changing anything on it.
 */
import { createHash } from "node:crypto"
import { readFile, stat } from "node:fs/promises"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import type { Check } from "../SandboxProvider.js"
import * as E2BEndpoint from "./e2bEndpoint.js"
import * as E2BErrors from "./e2bErrors.js"
import { type Answer, request } from "./e2bHttp.js"
import type { Settings } from "./e2bOptions.js"

const passed = (subject: string, found: string): Check => ({ subject, ok: true, found, remedy: "", packages: [] })

const failed = (subject: string, found: string, remedy: string): Check => ({
  subject,
  ok: false,
  found,
  remedy,
  packages: []
})

/** No service has a sandbox, a template or a route of this name. */
const bogus = "deskhandpreflight0"

const explain = (thrown: unknown): string => {
  const { causeCode, message } = E2BErrors.of(thrown)
  return causeCode === undefined ? message : `${message} (${causeCode})`
}

const asked = (
  subject: string,
  remedy: string,
  ask: Effect.Effect<Answer, unknown>,
  judge: (answer: Answer) => Check
): Effect.Effect<Check> =>
  Effect.match(ask, { onFailure: (thrown) => failed(subject, explain(thrown), remedy), onSuccess: judge })

/** How far apart the clocks may be: nothing that lives for minutes is the worse for it. */
const skewLimit = 60_000

/**
 * Milliseconds that the service's clock is ahead of ours, negative when it is behind, at the least: its header counts
 * whole seconds, and it was written at some time while we waited.
 */
export const clockSkew = (date: string | null, asked: number, answered: number): number | undefined => {
  const told = date === null ? Number.NaN : Date.parse(date)
  return Number.isNaN(told)
    ? undefined
    : told > answered
      ? told - answered
      : told + 1000 < asked
        ? told + 1000 - asked
        : 0
}

const clock = (skew: number | undefined): Check => {
  if (skew === undefined) return passed("clock", "the service does not tell its time")
  const seconds = Math.round(Math.abs(skew) / 1000)
  const found =
    seconds === 0 ? "the service's and ours agree" : `the service's is ${seconds} s ${skew > 0 ? "ahead" : "behind"}`
  return Math.abs(skew) <= skewLimit
    ? passed("clock", found)
    : failed(
        "clock",
        found,
        "Set the clock that is wrong, as `timedatectl set-ntp true` does: sandboxes would end too early, or be thought to"
      )
}

const controlPlane = (settings: Settings): Effect.Effect<Answer & { readonly skew: number | undefined }, unknown> =>
  Effect.gen(function* () {
    const before = yield* Clock.currentTimeMillis
    const answer = yield* request(settings, "GET", "/v2/sandboxes?limit=1")
    return { ...answer, skew: clockSkew(answer.date, before, yield* Clock.currentTimeMillis) }
  })

const controlCheck = (settings: Settings, answer: Effect.Effect<Answer, unknown>) =>
  asked(
    "control plane",
    `Check that ${settings.apiUrl} is right (E2B_API_URL) and that the service runs`,
    answer,
    ({ status, text }) =>
      status === 200
        ? passed("control plane", settings.apiUrl)
        : status === 401 || status === 403
          ? failed(
              "control plane",
              `${settings.apiUrl} does not take the key (${status})`,
              "Set E2B_API_KEY to a key of this service"
            )
          : failed("control plane", `${settings.apiUrl} answers ${status}: ${text.slice(0, 200)}`, "Check E2B_API_URL")
  )

/** A body that no server can read: where the route is, it is refused, and nothing can come of it. */
const routeOf = (settings: Settings, path: string) =>
  Effect.map(
    request(settings, "POST", path, { body: "{" }),
    ({ status }) => status !== 404 && status !== 405 && status !== 501
  )

const createRoute = (settings: Settings): Effect.Effect<Check> =>
  Effect.all([routeOf(settings, "/v2/sandboxes"), routeOf(settings, "/sandboxes")]).pipe(
    Effect.match({
      onFailure: (thrown) => failed("create route", explain(thrown), "Check E2B_API_URL"),
      onSuccess: ([v2, v1]) =>
        v2
          ? passed("create route", "v2")
          : v1
            ? passed("create route", "v1 only; creates are sent to it without the SDK")
            : failed(
                "create route",
                "neither POST /v2/sandboxes nor POST /sandboxes is there",
                "Update the service: E2B, or AgentENV of September 2026 or later"
              )
    })
  )

const templates = (settings: Settings): Effect.Effect<ReadonlyArray<Check>> => {
  const { defaultTemplate, templates: map } = settings.options
  const names = new Set([...Object.values(map), ...(defaultTemplate === undefined ? [] : [defaultTemplate])])
  return Effect.forEach(
    names,
    (name) =>
      asked(
        `template ${name}`,
        "Check E2B_API_URL",
        request(settings, "GET", `/templates/aliases/${encodeURIComponent(name)}`),
        ({ status, text }) =>
          status === 200
            ? passed(`template ${name}`, "there")
            : status === 404 && !/no route|not allowed|page not found/i.test(text)
              ? failed(
                  `template ${name}`,
                  "the service has no template of this name",
                  `Build it, or correct the templates' map`
                )
              : passed(`template ${name}`, `the service does not tell (${status})`)
      ),
    { concurrency: 4 }
  )
}

/** Where the route is, a sandbox that is not there is missed; where it is not, it answers as any other missing route. */
const fork = (settings: Settings): Effect.Effect<Check> => {
  const post = (route: string) =>
    request(settings, "POST", `/sandboxes/${bogus}/${route}`, { body: JSON.stringify({ count: 1, timeout: 15 }) })
  return Effect.all([post("fork"), post("no-such-route")]).pipe(
    Effect.match({
      onFailure: (thrown) => failed("fork", explain(thrown), "Check E2B_API_URL"),
      onSuccess: ([there, missing]) => {
        const plain = ({ status, text }: Answer) => `${status} ${text.replaceAll(/fork|no-such-route/g, "")}`
        const forks = (there.status === 404 || there.status === 400) && plain(there) !== plain(missing)
        if (forks) return passed("fork", "the service has the route")
        const found = `the service does not fork (${there.status})`
        // Only groups want it; a run of single rollouts goes well without.
        return settings.options.fork === true
          ? failed("fork", found, "Use a service that forks, or leave `fork` out")
          : passed("fork", found)
      }
    })
  )
}

const addresses = (settings: Settings): Effect.Effect<ReadonlyArray<Check>> => {
  const { endpoint, options } = settings
  if (options.endpointMode === "hostname") {
    const resolved = E2BEndpoint.resolve(endpoint, { id: bogus }, 8080)
    return Effect.succeed([
      Either.match(resolved, {
        onLeft: (reason) =>
          passed("endpoints", `only by the domain that the service gives with a sandbox; without one: ${reason}`),
        onRight: (found) => passed("endpoints", found._tag === "Tcp" ? found.url : found.socketPath)
      })
    ])
  }
  const gateway = E2BEndpoint.resolve(endpoint, { id: bogus }, E2BEndpoint.envdPort)
  if (Either.isLeft(gateway)) return Effect.succeed([failed("gateway", gateway.left, "Set E2B_SANDBOX_URL")])
  if (gateway.right._tag === "Unix") return Effect.succeed([])
  const { headers, url } = gateway.right
  return Effect.map(
    asked(
      "gateway",
      `Check that ${url} is right (E2B_SANDBOX_URL) and that the gateway runs`,
      request(settings, "GET", "/health", { base: url, headers }),
      ({ status }) =>
        // It knows no such sandbox and says so; a success would come from something that routes nothing.
        status >= 400
          ? passed("gateway", `${url} (${status} for a sandbox that is not there)`)
          : failed(
              "gateway",
              `${url} answers ${status} for a sandbox that is not there`,
              "This address does not route to sandboxes: check E2B_SANDBOX_URL"
            )
    ),
    (check) => [check]
  )
}

const certificate = (path: string, sha256: string): Effect.Effect<Check> => {
  const subject = "certificate authority"
  return Effect.tryPromise(async () => ({ bytes: await readFile(path), mode: (await stat(path)).mode & 0o777 })).pipe(
    Effect.match({
      onFailure: (error) => failed(subject, `${path} cannot be read: ${explain(error.error)}`, "Check the file's path"),
      onSuccess: ({ bytes, mode }) => {
        const digest = createHash("sha256").update(bytes).digest("hex")
        if (digest !== sha256.toLowerCase()) {
          return failed(subject, `${path} has the digest ${digest}`, `It has to be ${sha256}: get the file again`)
        }
        if ((mode & 0o022) !== 0) {
          return failed(subject, `others may write ${path} (mode ${mode.toString(8)})`, `chmod 0400 ${path}`)
        }
        // Node reads it once, when it starts, and there is no other way to tell the SDK.
        return process.env["NODE_EXTRA_CA_CERTS"] === path
          ? passed(subject, `${path}, ${digest.slice(0, 12)}`)
          : failed(subject, "Node was started without it", `Start with NODE_EXTRA_CA_CERTS=${path}`)
      }
    })
  )
}

const surroundings = (settings: Settings): ReadonlyArray<Check> => {
  const found: Array<Check> = []
  if (process.env["NODE_TLS_REJECT_UNAUTHORIZED"] === "0") {
    found.push(
      failed("TLS", "certificates are not checked", "Unset NODE_TLS_REJECT_UNAUTHORIZED; pin a caFile instead")
    )
  }
  const keyless = settings.apiUrl.startsWith("http://") && !/^http:\/\/(127\.|localhost|\[::1\])/.test(settings.apiUrl)
  if (keyless && settings.options.apiKey !== undefined) {
    found.push(failed("TLS", `the key goes to ${settings.apiUrl} in the clear`, "Use https, or a tunnel to loopback"))
  }
  return found
}

export const preflight = (settings: Settings): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.gen(function* () {
    const { caFile, fork: forks } = settings.options
    const here = surroundings(settings)
    const pinned = caFile === undefined ? [] : [yield* certificate(caFile.path, caFile.sha256)]
    const answer = yield* Effect.exit(controlPlane(settings))
    const control = yield* controlCheck(settings, answer)
    const times = Exit.isSuccess(answer) ? [clock(answer.value.skew)] : []
    // The rest would only say the same again.
    if (!control.ok) return [...here, ...pinned, control, ...times]
    const [route, known, places, forked] = yield* Effect.all(
      [
        createRoute(settings),
        templates(settings),
        addresses(settings),
        forks === false ? Effect.succeed([]) : Effect.map(fork(settings), (check) => [check])
      ],
      { concurrency: 4 }
    )
    return [...here, ...pinned, control, ...times, route, ...known, ...places, ...forked]
  })
