import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Urls from "../../../src/osworld/internal/urls.js"

const urls = FastCheck.oneof(
  FastCheck.webUrl({ withFragments: true, withQueryParameters: true }),
  FastCheck.string(),
  FastCheck.constantFrom(
    "airbnb.com",
    "https://www.airbnb.co.uk/",
    "chrome://settings",
    "about:blank",
    "http://[::1]:80/"
  )
)

describe("addresses", () => {
  it("are the same whatever their public suffix, a lone www., the case of the host and an empty path", () => {
    const same: ReadonlyArray<readonly [string, string]> = [
      // Suffixes of the public suffix list: com, co.uk, com.sg, com.au.
      ["https://www.airbnb.com", "https://www.airbnb.co.uk/"],
      ["https://airbnb.com.sg/rooms", "https://www.airbnb.com.au/rooms"],
      ["HTTPS://Docs.Python.org/3/", "https://docs.python.org/3/"],
      ["example.com", "http://www.example.org/"],
      ["http://user:secret@example.com:8080/a", "http://example.com/a"],
      ["https://example.com/a?", "https://example.com/a"],
      ["http://localhost/x", "http://LOCALHOST:9000/x"],
      // What is private in the list is no suffix here: github.io is a site of its own.
      ["https://a.github.io", "https://a.github.com"],
      ["https://example.com./", "https://example.com"]
    ]
    for (const [a, b] of same) assert.isTrue(Urls.same(a, b), `${a} ${b}`)
  })

  it("differ by scheme, site, subdomain, path, query and fragment", () => {
    const different: ReadonlyArray<readonly [string, string]> = [
      ["http://example.com", "https://example.com"],
      ["https://example.com", "https://exemple.com"],
      ["https://example.com", "https://m.example.com"],
      ["https://www.m.example.com", "https://m.example.com"],
      ["https://example.com/a", "https://example.com/a/"],
      ["https://example.com/a", "https://example.com/A"],
      ["https://example.com/?a=1", "https://example.com/?a=2"],
      ["https://example.com/#a", "https://example.com/"],
      ["http://127.0.0.1/", "http://127.0.0.2/"],
      ["chrome://settings/", "chrome://history/"]
    ]
    for (const [a, b] of different) assert.isFalse(Urls.same(a, b), `${a} ${b}`)
  })

  it("an address is itself, and comparing knows no order", () => {
    FastCheck.assert(FastCheck.property(urls, urls, (a, b) => Urls.same(a, a) && Urls.same(a, b) === Urls.same(b, a)))
  })

  it("lists: each has its partner, whatever the order", () => {
    const strict = { anyPartner: false }
    FastCheck.assert(
      FastCheck.property(FastCheck.array(urls, { maxLength: 5 }), (list) =>
        Urls.sameLists(list, [...list].reverse(), strict)
      )
    )
    const [a, b] = ["https://a.com", "https://b.com"]
    assert.isFalse(Urls.sameLists([a], [a, b], strict))
    assert.isFalse(Urls.sameLists([a, b], [a, a], strict))
    assert.isFalse(Urls.sameLists([a, a], [a, b], strict))
    // Upstream asks only whether each expected address is somewhere.
    assert.isTrue(Urls.sameLists([a, a], [a, b], { anyPartner: true }))
    assert.isFalse(Urls.sameLists([a, b], [a, a], { anyPartner: true }))
  })

  it("queries: decoded, in order, without empty values", () => {
    const values = Urls.queryValues("https://x.com/p?q=drip+coffee&q=2&empty=&n=a%2Cb#q=3")
    assert.deepStrictEqual(
      [...values],
      [
        ["q", ["drip coffee", "2"]],
        ["n", ["a,b"]]
      ]
    )
    assert.strictEqual(Urls.withoutQuery("HTTPS://x.com/p?q=1#top"), "https://x.com/p#top")
    assert.strictEqual(Urls.withoutQuery("https://x.com/p?q=1#"), "https://x.com/p")
  })

  it("pages: what Chrome shows, and what is behind it", () => {
    assert.strictEqual(Urls.pageKey("https://x.com/caf%C3%A9%20a//"), "https://x.com/café a")
    assert.strictEqual(Urls.pageKey("https://x.com/100%/%C3%A9"), "https://x.com/100%/é")
    assert.strictEqual(Urls.shown("https://www.x.com/a/"), Urls.shown("x.com/a"))
    const ours = { literal: false }
    assert.strictEqual(Urls.fromAddressBar("x.com/a", "https://www.", ours), "https://www.x.com/a")
    assert.strictEqual(Urls.fromAddressBar("www.x.com/a", "https://www.", ours), "https://www.x.com/a")
    assert.strictEqual(Urls.fromAddressBar("chrome://settings/", "https://", ours), "chrome://settings/")
    assert.strictEqual(Urls.fromAddressBar("about:blank", "https://", ours), "about:blank")
    assert.strictEqual(Urls.fromAddressBar("localhost:8080/a", "http://", ours), "http://localhost:8080/a")
    assert.strictEqual(Urls.fromAddressBar("https://x.com", "https://", { literal: true }), "https://https://x.com")
  })
})
