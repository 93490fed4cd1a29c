import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as YAML from "yaml"
import { text } from "../../src/cli/Recipe.js"
import { recipes } from "../../src/training/Recipe.js"

const shown = (name: string | undefined, format: "table" | "json" | "yaml"): string =>
  Either.getOrThrowWith(text({ name: Option.fromNullable(name), format }), (error) => error)

describe("deskhand recipe", () => {
  it("lists all of them", () => {
    const said = shown(undefined, "table")
    for (const name of recipes.keys()) assert.include(said, name)
    assert.include(said, "272")
  })

  it("shows one with what follows from it", () => {
    const said = shown("flash-b17n16-dr-grpo", "table")
    assert.include(said, "17 prompts x 16 owners = 272 owners")
    assert.include(said, "binary_kl 0..0.01")
    assert.include(said, "4 nodes x 8 GPUs: 8 train, 24 generate; TP1 CP8 EP8")
  })

  it("prints JSON and YAML of the same", () => {
    const json: unknown = JSON.parse(shown("molt-b8k8", "json"))
    const yaml: unknown = YAML.parse(shown("molt-b8k8", "yaml"))
    assert.deepStrictEqual(json, yaml)
    assert.nestedPropertyVal(json, "derived.owners", 64)
    assert.nestedPropertyVal(json, "gate.min", 0.99)
    const all: unknown = JSON.parse(shown(undefined, "json"))
    assert.lengthOf(Array.isArray(all) ? all : [], recipes.size)
  })

  it("names the nearest where there is none of the name", () => {
    const error = Either.getOrThrow(Either.flip(text({ name: Option.some("flash-b8n8-drgrpo"), format: "table" })))
    assert.include(error.message, "there is no recipe flash-b8n8-drgrpo. The nearest are flash-b8n8-dr-grpo, ")
  })
})
