/** ZIP archives are what their directories say, or are refused. */
import { crc32, deflateRawSync } from "node:zlib"
import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { strToU8, zipSync } from "fflate"
import { limits, unzip } from "../../../src/osworld/evaluator/internal/zip.js"
import { rightOf } from "./support.js"

const all = () => true
const text = "hello world ".repeat(1000)
const contents: Record<string, Uint8Array> = {
  "a.xml": strToU8(text),
  "empty.xml": new Uint8Array(0),
  "é/b.xml": strToU8("<b/>"),
  "stored.xml": strToU8("stored")
}
const archive = (): Uint8Array => zipSync({ ...contents, "stored.xml": [strToU8("stored"), { level: 0 }] })

const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Where the directory has the entry of that number. */
const entry = (bytes: Uint8Array, number: number): number => {
  const view = viewOf(bytes)
  let found = -1
  for (let at = 0; at + 4 <= bytes.length; at++) {
    if (view.getUint32(at, true) === 0x02014b50 && ++found === number) return at
  }
  throw new Error("no such entry")
}

const refusal = (bytes: Uint8Array, allowed = limits) =>
  Either.match(unzip(bytes, all, allowed), { onLeft: ({ kind, reason }) => `${kind}: ${reason}`, onRight: () => "" })

/** A 32-bit field of the directory's first entry, or of another one, has another value. */
const lie = (field: number, value: number, number = 0): string => {
  const bytes = archive()
  viewOf(bytes).setUint32(entry(bytes, number) + field, value, true)
  return refusal(bytes)
}

describe("zip", () => {
  it("unpacks what is wanted, in the archive's order", () => {
    assert.deepStrictEqual(Array.from(rightOf(unzip(archive(), all))), Object.entries(contents))
    assert.deepStrictEqual(Array.from(rightOf(unzip(archive(), (name) => name === "é/b.xml")).keys()), ["é/b.xml"])
    assert.strictEqual(rightOf(unzip(zipSync({}), all)).size, 0)
  })

  it("unpacks thousands of members, and more than one call's worth", () => {
    const many = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`${i}.xml`, strToU8(`<n>${i}</n>`)]))
    const large = { "1st.bin": new Uint8Array(5_000_000).fill(1), "2nd.bin": new Uint8Array(6_000_000).fill(2) }
    const found = rightOf(unzip(zipSync({ ...large, ...many }), all))
    assert.strictEqual(found.size, 3002)
    for (const [name, content] of Object.entries({ ...large, ...many })) {
      assert.isTrue(Buffer.from(found.get(name) ?? []).equals(content), name)
    }
  })

  it("refuses members that are not what the directory says", () => {
    const [crc, packed, bytes, offset] = [16, 20, 24, 42]
    const none = "Unparsable: no ZIP archive: Error: "
    const lies = `${none}members hold more or less than the directory says`
    assert.strictEqual(lie(crc, 1), `${none}incorrect data check`)
    assert.strictEqual(lie(crc, 1, 3), `${none}incorrect data check`)
    assert.strictEqual(lie(bytes, 100), lies)
    assert.strictEqual(lie(bytes, 100, 3), lies)
    assert.match(lie(bytes, 0), /^Unparsable/)
    assert.match(lie(bytes, 13_000), /^Unparsable/)
    assert.match(lie(packed, 20), /^Unparsable/)
    assert.match(lie(packed, 0), /^Unparsable/)
    assert.match(lie(offset, 1), /^Unparsable: no ZIP archive: Error: invalid zip data/)
    assert.match(lie(offset, 900_000), /^Unparsable/)
    for (const broken of [new Uint8Array(0), new Uint8Array(22), archive().subarray(0, -30), archive().subarray(100)]) {
      assert.match(refusal(broken), /^Unparsable: no ZIP archive/)
    }
  })

  it("measures by the directory, before anything is unpacked", () => {
    const bomb = zipSync({ "bomb.bin": new Uint8Array(1_000_000) })
    const small = { entries: 2, entryBytes: 1000, totalBytes: 1500 }
    assert.strictEqual(refusal(bomb, small), "Undecidable: the archive unpacks to more than 1500 bytes")
    assert.strictEqual(refusal(archive(), small), "Undecidable: the archive unpacks to more than 1500 bytes")
    assert.strictEqual(refusal(archive(), { ...limits, entries: 2 }), "Undecidable: more than 2 archive members")
    // One that says it is small does not become large.
    viewOf(bomb).setUint32(entry(bomb, 0) + 24, 1000, true)
    assert.match(refusal(bomb, small), /^Unparsable: .* than the directory says/)
    assert.strictEqual(
      refusal(zipSync({ "../a.xml": strToU8("<a/>") })),
      'Unparsable: the archive member "../a.xml" leaves the archive'
    )
  })

  it("reads sizes and places of ZIP64", () => {
    // By hand, after APPNOTE.TXT 4.3.
    const content = Buffer.from(text)
    const packed = deflateRawSync(content)
    const name = Buffer.from("a.xml")
    const local = Buffer.alloc(30)
    local.writeUInt32LE(0x04034b50, 0)
    local.writeUInt16LE(8, 8)
    local.writeUInt16LE(name.length, 26)
    const extra = Buffer.alloc(28)
    extra.writeUInt16LE(1, 0)
    extra.writeUInt16LE(24, 2)
    extra.writeBigUInt64LE(BigInt(content.length), 4)
    extra.writeBigUInt64LE(BigInt(packed.length), 12)
    const central = Buffer.alloc(46)
    central.writeUInt32LE(0x02014b50, 0)
    central.writeUInt16LE(8, 10)
    central.writeUInt32LE(crc32(content), 16)
    central.writeUInt32LE(0xffffffff, 20)
    central.writeUInt32LE(0xffffffff, 24)
    central.writeUInt16LE(name.length, 28)
    central.writeUInt16LE(extra.length, 30)
    central.writeUInt32LE(0xffffffff, 42)
    const start = local.length + name.length + packed.length
    const directory = Buffer.concat([central, name, extra])
    const end64 = Buffer.alloc(56)
    end64.writeUInt32LE(0x06064b50, 0)
    end64.writeBigUInt64LE(44n, 4)
    end64.writeBigUInt64LE(1n, 24)
    end64.writeBigUInt64LE(1n, 32)
    end64.writeBigUInt64LE(BigInt(directory.length), 40)
    end64.writeBigUInt64LE(BigInt(start), 48)
    const locator = Buffer.alloc(20)
    locator.writeUInt32LE(0x07064b50, 0)
    locator.writeBigUInt64LE(BigInt(start + directory.length), 8)
    locator.writeUInt32LE(1, 16)
    const end = Buffer.alloc(22)
    end.writeUInt32LE(0x06054b50, 0)
    end.writeUInt16LE(0xffff, 8)
    end.writeUInt16LE(0xffff, 10)
    end.writeUInt32LE(0xffffffff, 12)
    end.writeUInt32LE(0xffffffff, 16)
    const bytes = Buffer.concat([local, name, packed, directory, end64, locator, end])
    assert.deepStrictEqual(Array.from(rightOf(unzip(bytes, all))), [["a.xml", new Uint8Array(content)]])
  })

  it("gives back what was zipped, or nothing, whatever bytes were changed", () => {
    const whole = archive()
    const known = new Set(Object.values(contents).map((content) => Buffer.from(content).toString("latin1")))
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.tuple(FastCheck.nat(whole.length - 1), FastCheck.nat(255)), {
          minLength: 1,
          maxLength: 4
        }),
        (changes) => {
          const bytes = Uint8Array.from(whole)
          for (const [at, value] of changes) bytes[at] = value
          for (const content of Either.getOrElse(unzip(bytes, all), () => new Map<string, Uint8Array>()).values()) {
            assert.isTrue(known.has(Buffer.from(content).toString("latin1")))
          }
        }
      ),
      { numRuns: 2000 }
    )
  })
})
