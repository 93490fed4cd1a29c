import { assert, describe, it } from "@effect/vitest"
import * as E2B from "e2b"
import * as E2BErrors from "../../../src/sandbox/internal/e2bErrors.js"

const withStatus = (status: number) => {
  const error = new E2B.SandboxError(`${status}: said`)
  error.statusCode = status
  return error
}

const fetchFailed = (code: string) => new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) })

const kind = (classified: E2BErrors.Classified) =>
  classified._tag === "Unavailable" ? classified.kind : classified._tag

const create = (thrown: unknown) => kind(E2BErrors.ofCreate(E2BErrors.of(thrown)))
const control = (thrown: unknown) => kind(E2BErrors.ofControl(E2BErrors.of(thrown)))
const data = (thrown: unknown) => kind(E2BErrors.ofData(E2BErrors.of(thrown)))

describe("e2bErrors", () => {
  // What the SDK throws for what: observed with 2.51.0 on the wire.
  it("of a create", () => {
    for (const status of [400, 404, 405]) assert.strictEqual(create(withStatus(status)), "Rejected")
    for (const status of [409, 500, 502, 504, 507]) assert.strictEqual(create(withStatus(status)), "Ambiguous")
    assert.strictEqual(create(new E2B.AuthenticationError("no")), "unauthorised")
    assert.strictEqual(create(withStatus(403)), "unauthorised")
    assert.strictEqual(create(new E2B.RateLimitError("slow")), "rate_limited")
    assert.strictEqual(create(new E2B.ServiceBusyError("busy")), "Ambiguous")
    assert.strictEqual(create(new DOMException("late", "TimeoutError")), "Ambiguous")
    assert.strictEqual(create(new DOMException("left", "AbortError")), "Ambiguous")
    assert.strictEqual(create(fetchFailed("UND_ERR_SOCKET")), "Ambiguous")
    assert.strictEqual(create(fetchFailed("ECONNRESET")), "Ambiguous")
    assert.strictEqual(create(fetchFailed("ECONNREFUSED")), "unreachable")
    assert.strictEqual(create(fetchFailed("SELF_SIGNED_CERT_IN_CHAIN")), "unreachable")
    assert.strictEqual(create(new TypeError("Cannot read properties of undefined")), "Ambiguous")
    assert.strictEqual(create(new E2B.TemplateError("old")), "Ambiguous")
    // 2.46 sets no statusCode.
    assert.strictEqual(create(new E2B.SandboxError("400: bad")), "Rejected")
  })

  it("of the control plane", () => {
    assert.strictEqual(control(new E2B.SandboxNotFoundError("x")), "NotFound")
    assert.strictEqual(control(withStatus(404)), "NotFound")
    assert.strictEqual(control(new E2B.SandboxError("404: Not Found")), "NotFound")
    assert.strictEqual(control(withStatus(500)), "failing")
    assert.strictEqual(control(new E2B.ServiceBusyError("busy")), "failing")
    assert.strictEqual(control(new DOMException("late", "TimeoutError")), "TimedOut")
    assert.strictEqual(control(fetchFailed("ECONNRESET")), "unreachable")
    assert.strictEqual(control(new E2B.AuthenticationError("no")), "unauthorised")
  })

  it("of the data plane, where a missing sandbox is no proof", () => {
    assert.strictEqual(data(new E2B.SandboxNotFoundError("502")), "unreachable")
    assert.strictEqual(data(new E2B.FileNotFoundError("x")), "NotFound")
    assert.strictEqual(data(new E2B.NotFoundError("no such process")), "NotFound")
    assert.strictEqual(
      data(new E2B.TimeoutError("terminated: The sandbox was killed or reached its end of life")),
      "Gone"
    )
    assert.strictEqual(data(new E2B.TimeoutError("[deadline_exceeded]")), "TimedOut")
    assert.strictEqual(data(new E2B.SandboxError("2: [unknown] fetch failed")), "Ambiguous")
    assert.strictEqual(data(new E2B.SandboxError("Process exited without a result")), "Ambiguous")
    assert.strictEqual(data("a string"), "Ambiguous")
  })

  it("an exit that was not seen has no number", () => {
    assert.strictEqual(E2BErrors.exitCode(0, undefined), 0)
    assert.strictEqual(E2BErrors.exitCode(7, "exit status 7"), 7)
    assert.strictEqual(E2BErrors.exitCode(-1, "signal: killed"), 137)
    assert.strictEqual(E2BErrors.exitCode(-1, "signal: segmentation fault (core dumped)"), 139)
    assert.strictEqual(E2BErrors.exitCode(0, "signal: terminated"), 143)
    assert.isUndefined(E2BErrors.exitCode(-1, "signal: something new"))
    assert.isUndefined(E2BErrors.exitCode(-1, undefined))
    assert.isUndefined(E2BErrors.exitCode(0, "the runtime failed"))
  })
})
