import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import { baseUrlProblem, resolve } from "../../src/sandbox/internal/openSandboxEndpoint.js"
import {
  type ApiFailure,
  ofCreate,
  ofTransport,
  retryAfter,
  unavailable
} from "../../src/sandbox/internal/openSandboxErrors.js"
import { exitCode, output, payload, quote, script } from "../../src/sandbox/internal/openSandboxExec.js"
import { fromMetadata, toMetadata } from "../../src/sandbox/internal/openSandboxLabels.js"
import { createRequest } from "../../src/sandbox/internal/openSandboxOptions.js"
import { Resources, SandboxSpec } from "../../src/sandbox/SandboxSpec.js"

const resolved = (endpoint: string, baseUrl = "http://box.example:8080/v1", protocol?: "http" | "https") =>
  Either.map(resolve({ baseUrl, protocol, endpoint, headers: { "X-A": "1" } }), ({ url }) => url)

describe("where a port is", () => {
  it("keeps paths, takes the configured scheme, and brackets IPv6", () => {
    assert.deepStrictEqual(resolved("h.example:8000/proxy/80/"), Either.right("http://h.example:8000/proxy/80"))
    assert.deepStrictEqual(resolved("h.example/x", undefined, "https"), Either.right("https://h.example/x"))
    assert.deepStrictEqual(resolved("h.example", "https://box.example/v1"), Either.right("https://h.example"))
    assert.deepStrictEqual(resolved("http://h.example:1/x", "https://b/v1"), Either.right("http://h.example:1/x"))
    assert.deepStrictEqual(resolved("[fd00::1]:90/x"), Either.right("http://[fd00::1]:90/x"))
    assert.deepStrictEqual(resolved("fd00::1/x"), Either.right("http://[fd00::1]/x"))
  })

  it("takes the service's host for wildcards and for the service's loopback", () => {
    for (const host of ["0.0.0.0", "[::]", "*", "localhost", "127.0.0.1", "[::1]", "[0:0::0]", ""]) {
      assert.deepStrictEqual(resolved(`${host}:81/p`), Either.right("http://box.example:81/p"), host)
    }
    assert.deepStrictEqual(resolved("0.0.0.0:81", "http://[::1]:1/v1"), Either.right("http://[::1]:81"))
    assert.deepStrictEqual(resolved("127.0.0.1:81", "http://localhost:1/v1"), Either.right("http://127.0.0.1:81"))
  })

  it("refuses what cannot be an endpoint", () => {
    for (const said of ["", "  ", "/proxy/80", "ftp://h/", "http://u:p@h/", "h/x?sig=1", "h:99999", "a b"]) {
      assert.isTrue(Either.isLeft(resolved(said)), said)
    }
  })

  const host = FastCheck.oneof(
    FastCheck.ipV4(),
    FastCheck.ipV6().map((address) => `[${address}]`),
    FastCheck.domain(),
    FastCheck.constantFrom("0.0.0.0", "[::]", "*", "localhost", "", "0", "[::ffff:0.0.0.0]")
  )

  it.prop(
    "is absolute, never a wildcard, and never loopback when the service is elsewhere",
    {
      host,
      port: FastCheck.option(FastCheck.integer({ min: 1, max: 65535 }), { nil: undefined }),
      path: FastCheck.constantFrom("", "/", "/a", "/a/b/"),
      scheme: FastCheck.constantFrom("", "http://", "https://"),
      base: FastCheck.constantFrom("http://box.example:8080/v1", "https://[2001:db8::1]/v1", "https://10.1.2.3/api/v1")
    },
    ({ base, host, path, port, scheme }) => {
      const place = `${scheme}${host}${port === undefined ? "" : `:${port}`}${path}`
      const answer = resolved(place, base)
      if (Either.isRight(answer)) {
        const url = new URL(answer.right)
        assert.match(answer.right, /^https?:\/\/[^/]+/)
        assert.notInclude(["0.0.0.0", "[::]", "*", "", "[::ffff:0:0]"], url.hostname)
        assert.notMatch(url.hostname, /^(?:localhost|127\..*|\[::1\])$/)
        assert.isFalse(answer.right.endsWith("/"))
        assert.isTrue(!url.hostname.includes(":") || url.hostname.startsWith("["))
      } else {
        assert.isTrue(host === "" || !URL.canParse(`http://${host}/`) || scheme !== "" || path === "", place)
      }
    }
  )

  it("knows an address that is of no use as the service's", () => {
    for (const url of ["", "box.example", "ftp://h/", "http://0.0.0.0:1/v1", "http://[::]/v1", "http://u:p@h/v1"]) {
      assert.isString(baseUrlProblem(url), url)
    }
    assert.isUndefined(baseUrlProblem("http://127.0.0.1:8080/v1"))
  })
})

describe("labels", () => {
  it("sends what fits as it is", () => {
    const labels = {
      "deskhand.managed": "1",
      "deskhand.attempt": "dh-0123456789abcdef01234567",
      "deskhand.meta.run": "a"
    }
    assert.deepStrictEqual(toMetadata(labels), Either.right(labels))
  })

  it.prop(
    "come back as they were, and are labels by Kubernetes' rules on the way",
    {
      labels: FastCheck.dictionary(
        FastCheck.string({ maxLength: 20 }).map((key) => `deskhand.meta.${key}`),
        FastCheck.oneof(FastCheck.string({ unit: "binary", maxLength: 200 }), FastCheck.constant("dhv.x.0"))
      )
    },
    ({ labels }) => {
      const sent = toMetadata(labels)
      if (Either.isLeft(sent)) {
        return
      }
      for (const [key, value] of Object.entries(sent.right)) {
        assert.match(key, /^[A-Za-z0-9][A-Za-z0-9._-]{0,61}[A-Za-z0-9]$/)
        assert.match(value, /^(?:|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)$/)
      }
      const back = fromMetadata(sent.right)
      for (const [key, value] of Object.entries(labels)) {
        // A lone half of a surrogate pair is no text, and becomes U+FFFD.
        if (value === Buffer.from(value).toString() && key === Buffer.from(key).toString()) {
          assert.strictEqual(back[key], value)
        }
      }
    }
  )

  it("says which key is too long", () => {
    assert.deepStrictEqual(toMetadata({ ["k".repeat(80)]: "v" }), Either.left("k".repeat(80)))
  })
})

describe("what a failed create means", () => {
  const status = (code: number): ApiFailure => ({
    _tag: "Status",
    status: code,
    code: "",
    message: "",
    retryAfter: undefined
  })

  it("says that nothing exists only where that is known", () => {
    const tag = (failure: ApiFailure) => ofCreate("dh-1", failure)._tag
    assert.strictEqual(tag({ _tag: "NotSent", reason: "" }), "ProviderUnavailable")
    assert.strictEqual(tag({ _tag: "Lost", reason: "" }), "SandboxCreateAmbiguous")
    assert.strictEqual(tag({ _tag: "Malformed", status: 202, reason: "" }), "SandboxCreateAmbiguous")
    for (const code of [401, 403, 425, 429]) {
      assert.strictEqual(tag(status(code)), "ProviderUnavailable", String(code))
    }
    for (const code of [301, 302, 307, 400, 404, 405, 409, 413, 422]) {
      assert.strictEqual(tag(status(code)), "SandboxCreateRejected", String(code))
    }
    for (const code of [408, 500, 502, 503, 504]) {
      assert.strictEqual(tag(status(code)), "SandboxCreateAmbiguous", String(code))
    }
  })

  it("tells a request that was never sent from one that was lost", () => {
    const withCode = (code: string, cause?: unknown) => Object.assign(new Error("x", { cause }), { code })
    assert.strictEqual(ofTransport(withCode("ECONNREFUSED"))._tag, "NotSent")
    assert.strictEqual(ofTransport(new Error("fetch failed", { cause: withCode("ENOTFOUND") }))._tag, "NotSent")
    assert.strictEqual(
      ofTransport(new AggregateError([withCode("ECONNREFUSED"), withCode("ENETUNREACH")]))._tag,
      "NotSent"
    )
    assert.strictEqual(ofTransport(withCode("ECONNRESET"))._tag, "Lost")
    assert.strictEqual(ofTransport(withCode("UND_ERR_SOCKET", withCode("ECONNREFUSED")))._tag, "Lost")
    assert.strictEqual(ofTransport(new Error("who knows"))._tag, "Lost")
    assert.strictEqual(ofTransport(undefined)._tag, "Lost")
  })

  it("reads Retry-After in both forms", () => {
    assert.strictEqual(retryAfter("3", 0), 3000)
    assert.strictEqual(retryAfter("Thu, 01 Jan 1970 00:00:10 GMT", 4000), 6000)
    assert.strictEqual(retryAfter("soon", 0), undefined)
    assert.strictEqual(retryAfter(undefined, 0), undefined)
    assert.strictEqual(
      unavailable("list", { _tag: "Status", status: 429, code: "", message: "", retryAfter: 5 }).retryAfter,
      5
    )
  })
})

describe("commands", () => {
  it("reads events with and without the field's name, and skips the rest", () => {
    assert.strictEqual(payload('{"type":"init"}'), '{"type":"init"}')
    assert.strictEqual(payload('data: {"type":"init"}'), '{"type":"init"}')
    for (const line of ["", ": ping", "event: stdout", "id: 1"]) {
      assert.isUndefined(payload(line))
    }
  })

  it("never makes a number of an exit that nobody saw", () => {
    assert.deepStrictEqual(exitCode(0, undefined), Option.some(0))
    assert.deepStrictEqual(exitCode("42", "exit status 42"), Option.some(42))
    assert.deepStrictEqual(exitCode(-1, "signal: killed"), Option.some(137))
    assert.deepStrictEqual(exitCode("-1", "signal: segmentation fault (core dumped)"), Option.some(139))
    for (const said of [null, undefined, "", "-1", -1, "context deadline exceeded", Number.NaN]) {
      assert.deepStrictEqual(exitCode(said, undefined), Option.none(), String(said))
    }
  })

  it("gives lines their ends back", () => {
    assert.strictEqual(["a", "\n", "b", "cMARK"].map((text) => output(text, "MARK")).join(""), "a\n\nb\nc")
    assert.strictEqual(["a", "MARK"].map((text) => output(text, "MARK")).join(""), "a\n")
  })

  it("quotes for the shell", () => {
    assert.strictEqual(quote("it's"), `'it'\\''s'`)
    assert.include(script(["echo", "$x"], { mark: "M", stdinPath: undefined }), "'echo' '$x'")
  })
})

describe("what is asked for", () => {
  const spec = (options: Partial<ConstructorParameters<typeof SandboxSpec>[0]>) =>
    SandboxSpec.make({ image: "debian:12", ...options })

  it("has what the service requires", () => {
    const request = Either.getOrThrow(
      createRequest(
        {},
        spec({ ttl: Duration.seconds(10), network: "none", resources: Resources.make({ cpu: 0.5 }) }),
        {}
      )
    )
    assert.deepStrictEqual(request, {
      timeout: 60,
      metadata: {},
      image: { uri: "debian:12" },
      resourceLimits: { cpu: "500m", memory: "2048Mi" },
      env: {},
      entrypoint: ["tail", "-f", "/dev/null"],
      networkPolicy: { defaultAction: "deny", egress: [] }
    })
  })

  it("is refused without an image, and with the host's network", () => {
    const { image: _, ...bare } = spec({})
    assert.isTrue(Either.isLeft(createRequest({}, SandboxSpec.make({ ...bare, network: "default" }), {})))
    assert.isTrue(Either.isLeft(createRequest({}, spec({ network: "host" }), {})))
  })
})
