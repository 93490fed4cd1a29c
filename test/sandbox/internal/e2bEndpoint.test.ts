import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import {
  type EndpointConfig,
  type EndpointTarget,
  isVendorHost,
  resolve,
  vendorDomains
} from "../../../src/sandbox/internal/e2bEndpoint.js"
import { dataPlane } from "../../../src/sandbox/internal/e2bOptions.js"

const host = FC.constantFrom(
  "0.0.0.0",
  "[::]",
  "::",
  "*",
  "127.0.0.1",
  "[::1]",
  "[2001:db8::7]",
  "agentenv.example",
  "sandbox.example",
  "e2b.app",
  "api.e2b.app",
  "api.e2b.dev"
)

const url = FC.tuple(
  FC.constantFrom("http", "https"),
  host,
  FC.constantFrom("", ":8000"),
  FC.constantFrom("", "/", "/gw/a")
).map(([scheme, name, port, path]) => `${scheme}://${name}${port}${path}`)

const optional = <A>(arbitrary: FC.Arbitrary<A>) => FC.option(arbitrary, { nil: undefined })

const present = <A extends object>(entries: A): { [K in keyof A]: Exclude<A[K], undefined> } =>
  Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined)) as never

const config: FC.Arbitrary<EndpointConfig> = FC.record({
  mode: FC.constantFrom("gateway" as const, "hostname" as const),
  apiUrl: optional(url),
  gatewayUrl: optional(FC.oneof(url, FC.constant("https://gw.example/s/{id}/{port}"), FC.constant("gw.example"))),
  domain: optional(FC.constantFrom("0.0.0.0", "*", "[::]:9", "own.example", "own.example:8443", "e2b.app", "")),
  hostnameTemplate: optional(FC.constantFrom("{id}.{port}.{domain}", "p{port}.{id}.fixed.example")),
  scheme: optional(FC.constantFrom("http" as const, "https" as const))
}).map((entries) => present(entries) as EndpointConfig)

const target: FC.Arbitrary<EndpointTarget> = FC.record({
  id: FC.oneof(FC.uuid(), FC.stringMatching(/^[a-z0-9]{1,20}$/), FC.string({ maxLength: 8 })),
  domain: optional(FC.constantFrom("told.example", "0.0.0.0", "e2b.app", "[::]", "127.0.0.1:3000")),
  trafficToken: optional(FC.stringMatching(/^[a-f0-9]{8}$/))
}).map((entries) => present(entries) as EndpointTarget)

const port = FC.integer({ min: 1, max: 65_535 })

const custom = ({ apiUrl }: EndpointConfig) => apiUrl !== undefined && !/e2b\.(app|dev)(:\d+)?(\/|$)/.test(apiUrl)

describe("e2bEndpoint", () => {
  it("is absolute, never a wildcard, and holds no credentials", () => {
    FC.assert(
      FC.property(config, target, port, (given, sandbox, number) => {
        const found = resolve(given, sandbox, number)
        if (Either.isLeft(found)) return found.left !== ""
        if (found.right._tag !== "Tcp") return false
        const parsed = new URL(found.right.url)
        return (
          /^https?:$/.test(parsed.protocol) &&
          !["0.0.0.0", "[::]", "*", ""].includes(parsed.hostname) &&
          !parsed.hostname.includes("*") &&
          parsed.username === "" &&
          !found.right.url.endsWith("/") &&
          Object.values(found.right.headers).every((value) => /^[\x21-\x7e]+$/.test(value))
        )
      }),
      { numRuns: 2000 }
    )
  })

  it("is never the vendor's when the service is another, unless the gateway is set to it", () => {
    FC.assert(
      FC.property(config, target, port, (given, sandbox, number) => {
        FC.pre(custom(given))
        FC.pre(given.gatewayUrl === undefined || !given.gatewayUrl.includes("e2b."))
        const found = resolve(given, sandbox, number)
        const plane = new URL(dataPlane(given, sandbox)).hostname
        return (
          !isVendorHost(plane) &&
          (Either.isLeft(found) || (found.right._tag === "Tcp" && !isVendorHost(new URL(found.right.url).hostname)))
        )
      }),
      { numRuns: 2000 }
    )
  })

  it("a gateway is told the sandbox and the port in headers", () => {
    FC.assert(
      FC.property(target, port, (sandbox, number) => {
        const found = resolve({ mode: "gateway", apiUrl: "http://h:1", gatewayUrl: "http://h:1/gw/" }, sandbox, number)
        if (Either.isLeft(found)) return !/^[\x21-\x7e]+$/.test(sandbox.id)
        return (
          found.right._tag === "Tcp" &&
          found.right.url === "http://h:1/gw" &&
          found.right.headers["e2b-sandbox-id"] === sandbox.id &&
          found.right.headers["e2b-sandbox-port"] === String(number) &&
          found.right.headers["e2b-traffic-access-token"] === sandbox.trafficToken
        )
      }),
      { numRuns: 500 }
    )
  })

  it("an id with dashes has no host name of the form {port}-{id}", () => {
    FC.assert(
      FC.property(FC.uuid(), port, (id, number) => {
        const plain = resolve({ mode: "hostname", domain: "d.example" }, { id }, number)
        const own = resolve(
          { mode: "hostname", domain: "d.example", hostnameTemplate: "{port}.{id}.{domain}" },
          { id },
          number
        )
        return (
          Either.isLeft(plain) &&
          Either.isRight(own) &&
          own.right._tag === "Tcp" &&
          own.right.url === `https://${number}.${id}.d.example`
        )
      })
    )
  })

  const at = (given: EndpointConfig, sandbox: EndpointTarget = { id: "abc" }) =>
    Either.map(resolve(given, sandbox, 5000), (found) => (found._tag === "Tcp" ? found.url : ""))

  it("examples", () => {
    // The vendor's own form, by its SDK's getHost.
    assert.deepStrictEqual(at({ mode: "hostname" }), Either.right("https://5000-abc.e2b.app"))
    assert.deepStrictEqual(at({ mode: "hostname", domain: "x.dev" }), Either.right("https://5000-abc.x.dev"))
    assert.deepStrictEqual(
      at({ mode: "hostname", domain: "x.dev" }, { id: "abc", domain: "told.dev" }),
      Either.right("https://5000-abc.told.dev")
    )
    assert.isTrue(Either.isLeft(at({ mode: "hostname", apiUrl: "http://h:8000" })))
    assert.isTrue(Either.isLeft(at({ mode: "gateway" })))
    assert.deepStrictEqual(
      at({ mode: "gateway", apiUrl: "http://10.0.0.7:8000", gatewayUrl: "http://0.0.0.0:8080/p" }),
      Either.right("http://10.0.0.7:8080/p")
    )
    assert.deepStrictEqual(
      at({ mode: "gateway", apiUrl: "http://[2001:db8::7]:8000", gatewayUrl: "http://[::]:8080" }),
      Either.right("http://[2001:db8::7]:8080")
    )
    assert.deepStrictEqual(
      at({ mode: "gateway", apiUrl: "http://h:8000", gatewayUrl: "http://*:8080" }),
      Either.right("http://h:8080")
    )
    assert.isTrue(Either.isLeft(at({ mode: "gateway", apiUrl: "http://0.0.0.0:1", gatewayUrl: "http://0.0.0.0:2" })))
    assert.deepStrictEqual(
      at({ mode: "gateway", gatewayUrl: "https://gw.example/s/{id}/{port}/" }),
      Either.right("https://gw.example/s/abc/5000")
    )
    assert.isTrue(vendorDomains.every(isVendorHost))
    assert.isFalse(isVendorHost("note2b.app"))
  })
})
