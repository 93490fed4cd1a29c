import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FC from "effect/FastCheck"
import * as Schema from "effect/Schema"
import * as MediaMask from "../../src/training/MediaMask.js"
import { left, right, vector } from "./dataFixture.js"

const numbers = Schema.Array(Schema.Number)
const spans = Schema.Array(Schema.Struct({ offset: Schema.Number, length: Schema.Number, token_id: Schema.Number }))

const { inputs, outputs } = vector(
  "media.masks",
  Schema.Struct({
    rows: Schema.Array(numbers),
    media_counts: numbers,
    media_token_id: Schema.Number,
    all_have_media_counts: numbers,
    spans_good: spans,
    spans_bad_token: spans,
    spans_overlap: spans
  }),
  Schema.Struct({
    mask: Schema.Array(Schema.Array(Schema.Boolean)),
    mask_when_all_have_media: Schema.Null,
    good: Schema.Boolean,
    bad_token: Schema.Boolean,
    overlap: Schema.Boolean,
    in_retained_prefix: Schema.Boolean
  })
)

const ids = new Set([inputs.media_token_id])

describe("media masks, from training-vectors.json media.masks", () => {
  it("rows without pictures have no picture's token", () => {
    const masks = right(MediaMask.mediaTokenValidity(inputs.rows, inputs.media_counts, ids))
    assert.deepStrictEqual(
      masks?.map((mask) => Array.from(mask, (value) => value === 1)),
      outputs.mask.map((row) => [...row])
    )
    assert.isUndefined(right(MediaMask.mediaTokenValidity(inputs.rows, inputs.all_have_media_counts, ids)))
    assert.strictEqual(left(MediaMask.mediaTokenValidity(inputs.rows, [1], ids)).reason, "length")
  })

  it("spans are in order, apart, in the new part, and of their token", () => {
    const row = inputs.rows[0] ?? []
    const check = (given: typeof inputs.spans_good, retained = 0) =>
      MediaMask.checkSpans(
        row,
        given.map(({ length, offset, token_id }) => ({ offset, length, tokenId: token_id })),
        retained
      )
    assert.strictEqual(Either.isRight(check(inputs.spans_good)), outputs.good)
    assert.strictEqual(Either.isRight(check(inputs.spans_bad_token)), outputs.bad_token)
    assert.strictEqual(Either.isRight(check(inputs.spans_overlap)), outputs.overlap)
    assert.strictEqual(Either.isRight(check(inputs.spans_good, 2)), outputs.in_retained_prefix)
    assert.strictEqual(left(check(inputs.spans_bad_token)).reason, "token")
    assert.strictEqual(left(check(inputs.spans_overlap)).reason, "order")
    assert.strictEqual(left(check(inputs.spans_good, 2)).reason, "retained")
    assert.strictEqual(left(check([{ offset: 3, length: 2, token_id: 2 }])).reason, "span")
  })
})

describe("a call's geometry", () => {
  const image = { id: "x", offset: 3, length: 2, tokenId: 99, height: 28, width: 56, maxPixels: 1000 }
  const good: MediaMask.CallGeometry = {
    promptTokenIds: [1, 2, 3, 99, 99, 4],
    images: [image],
    retained: 3,
    retainedDigest: MediaMask.prefixDigest([1, 2, 3]),
    shown: [{ height: 28, width: 56, maxPixels: 1000 }]
  }

  it("fits what was shown, or says what does not", () => {
    assert.isTrue(Either.isRight(MediaMask.checkGeometry(good)))
    const reason = (more: Partial<MediaMask.CallGeometry>) => left(MediaMask.checkGeometry({ ...good, ...more })).reason
    assert.deepStrictEqual(
      [
        reason({ retainedDigest: MediaMask.prefixDigest([1, 2]) }),
        reason({ shown: [] }),
        reason({ shown: [{ height: 28, width: 57, maxPixels: 1000 }] }),
        reason({ shown: [{ height: 28, width: 56, maxPixels: 999 }] }),
        reason({ images: [{ ...image, frames: 2 }] }),
        reason({ images: [{ ...image, height: 0 }] }),
        reason({ retained: 7 })
      ],
      ["digest", "count", "size", "size", "frames", "size", "retained"]
    )
  })

  it("the digest is the SHA-256 of four bytes a token, the lowest first", () => {
    // printf '\x01\0\0\0\x02\0\0\0' | sha256sum
    assert.strictEqual(
      MediaMask.prefixDigest([1, 2]),
      "34fb5c825de7ca4aea6e712f19d439c1da0c92c37b423936c5f618545ca4fa1f"
    )
  })
})

describe("a picture's token that the policy generated", () => {
  it("is text: only the processor's spans are pictures", () => {
    const tokens = [1, 99, 99, 2, 99]
    const own = [{ offset: 1, length: 2, tokenId: 99 }]
    assert.deepStrictEqual(Array.from(MediaMask.owned(5, own)), [0, 1, 1, 0, 0])
    assert.deepStrictEqual(Array.from(MediaMask.exactValidity(tokens, own, ids) ?? []), [1, 1, 1, 1, 0])
    assert.isUndefined(MediaMask.exactValidity([1, 99, 99, 2], own, ids))
  })

  it.prop(
    "validity is false exactly for a picture's token outside all spans",
    { tokens: FC.array(FC.constantFrom(1, 99), { minLength: 1, maxLength: 20 }), start: FC.nat({ max: 19 }) },
    ({ start, tokens }) => {
      const offset = start % tokens.length
      const run = tokens.slice(offset).findIndex((token) => token !== 99)
      const length = run < 0 ? tokens.length - offset : run
      const own = length === 0 ? [] : [{ offset, length, tokenId: 99 }]
      assert.isTrue(Either.isRight(MediaMask.checkSpans(tokens, own)))
      const mask = MediaMask.exactValidity(tokens, own, ids) ?? new Uint8Array(tokens.length).fill(1)
      for (const [at, token] of tokens.entries()) {
        assert.strictEqual(mask[at] === 0, token === 99 && !(at >= offset && at < offset + length))
      }
    }
  )
})
