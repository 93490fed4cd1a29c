/** Bodies that something happened to. */
import * as fc from "effect/FastCheck"
import type { JsonObject } from "../../../src/model/Convert.js"

const anything = fc.jsonValue({ maxDepth: 3 })

/** A body with one place in it changed. */
export const broken = (body: JsonObject): fc.Arbitrary<JsonObject> =>
  fc.tuple(fc.array(fc.nat(12), { maxLength: 5 }), anything).map(([steps, value]) => {
    const copy = structuredClone(body)
    let at: unknown = copy
    for (const [index, step] of steps.entries()) {
      if (typeof at !== "object" || at === null) break
      const keys = Object.keys(at)
      const key = keys[step % Math.max(1, keys.length)]
      if (key === undefined) break
      if (index === steps.length - 1) Reflect.set(at, key, value)
      at = Reflect.get(at, key)
    }
    return copy
  })
