import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { pixels } from "../../src/agents/internal/picture.js"
import { prepare } from "../../src/agents/internal/prepare.js"
import * as SetOfMarks from "../../src/agents/SetOfMarks.js"
import { ArtifactStore } from "../../src/artifact/ArtifactStore.js"
import type { AgentError } from "../../src/rollout/Agent.js"
import { Observation } from "../../src/rollout/Environment.js"
import { memory, picture } from "./support.js"

const ns = "https://accessibility.ubuntu.example.org/ns/"
const element = (name: string, x: number, y: number, width: number, height: number) =>
  `<label name="${name}" st:showing="true" st:visible="true" st:enabled="true" cp:screencoord="(${x}, ${y})" cp:size="(${width}, ${height})"/>`
const tree = (inside: string) =>
  `<desktop-frame xmlns:st="${ns}state" xmlns:cp="${ns}component">${inside}</desktop-frame>`

const screen = { width: 120, height: 90 }
const boxes = [
  { left: 12, top: 12, width: 6, height: 6 },
  { left: 60, top: 40, width: 30, height: 30 }
]

const colours = (rgb: Uint8Array, width: number) => (x: number, y: number) =>
  Array.from(rgb.slice((y * width + x) * 3, (y * width + x) * 3 + 3))

const shownOf = (
  protocol: { readonly observation: "som" | "a11y_tree" | "screenshot"; readonly imageSize?: () => typeof screen },
  step = 0
) =>
  Effect.gen(function* () {
    const store = memory()
    const png = yield* Effect.promise(() => picture(screen.width, screen.height, boxes))
    const xml = tree(
      [
        element("plain", 30, 0, 10, 10),
        element("first", 10, 10, 20, 20),
        element("over the edge", 100, 80, 30, 30),
        element("second", 58, 38, 40, 40)
      ].join("")
    )
    const observation = new Observation({
      screenshot: store.put(png, "image/png"),
      accessibilityTree: store.put(Buffer.from(xml), "text/xml"),
      milliseconds: 1
    })
    const shown = yield* Effect.flatMap(ArtifactStore, (blobs) =>
      prepare(blobs, { name: "test", ...protocol }, screen, observation, step)
    ).pipe(Effect.provide(store.layer))
    return { observation, shown, bytes: store.bytes(shown.image) }
  })

describe("SetOfMarks", () => {
  it.effect("marks what shows something and lies on the screen, and says where its middle is", () =>
    Effect.gen(function* () {
      const { bytes, shown } = yield* shownOf({ observation: "som" })
      assert.deepStrictEqual(shown.marks, [
        { x: 20, y: 20 },
        { x: 78, y: 58 }
      ])
      assert.strictEqual(shown.tree, 'index\ttag\tname\ttext\n1\tlabel\tfirst\t""\n2\tlabel\tsecond\t""')
      const drawn = yield* Effect.promise(() => pixels(bytes))
      const colour = colours(drawn.rgb, drawn.width)
      // The box's corner is red, its inside as it was, and the label at its lower left is black with white in it.
      assert.deepStrictEqual(colour(58, 38), [255, 0, 0])
      assert.deepStrictEqual(colour(70, 50), [255, 204, 0])
      assert.deepStrictEqual(colour(10, 29), [0, 0, 0])
      const label = Array.from({ length: 14 * 10 }, (_, at) => colour(10 + (at % 10), 16 + Math.floor(at / 10)).join())
      // A 1 of ours has eight dots of two by two pixels.
      assert.strictEqual(label.filter((pixel) => pixel === "255,255,255").length, 8 * 4)
    })
  )

  it.effect("is the same picture every time", () =>
    Effect.gen(function* () {
      const [one, two] = yield* Effect.all([shownOf({ observation: "som" }), shownOf({ observation: "som" })])
      assert.strictEqual(one.shown.image.sha256, two.shown.image.sha256)
      assert.notStrictEqual(one.shown.image.sha256, one.observation.screenshot.sha256)
    })
  )

  it("draws every number in its place on the picture", () => {
    const marks = Array.from({ length: 120 }, () => ({
      tag: "label",
      name: "a",
      text: "",
      class: "",
      description: "",
      x: 110,
      y: 85,
      width: 5,
      height: 5
    }))
    const drawn = SetOfMarks.svg(screen, marks)
    assert.strictEqual(drawn.split("<path").length - 1, 120)
    for (const [, x, width] of drawn.matchAll(/<rect x="(\d+)" y="\d+" width="(\d+)"[^>]*fill="#000"/g)) {
      assert.isAtMost(Number(x) + Number(width), screen.width)
    }
  })
})

describe("prepare", () => {
  it.effect("leaves a screenshot alone that is as it should be", () =>
    Effect.gen(function* () {
      const { observation, shown } = yield* shownOf({ observation: "screenshot" })
      assert.deepStrictEqual(shown, { image: observation.screenshot })
      const second = yield* shownOf({ observation: "screenshot" }, 1)
      assert.deepStrictEqual(second.shown, { image: observation.screenshot })
    })
  )

  it.effect("makes it the size that the model wants, marks and all", () =>
    Effect.gen(function* () {
      const size = { width: 56, height: 28 }
      for (const observation of ["screenshot", "som"] as const) {
        const { bytes, shown } = yield* shownOf({ observation, imageSize: () => size })
        const { height, width } = yield* Effect.promise(() => pixels(bytes))
        assert.deepStrictEqual({ width, height }, size)
        assert.strictEqual(shown.image.bytes, bytes.length)
      }
    })
  )

  it.effect("gives the tree as a table", () =>
    Effect.gen(function* () {
      const { shown } = yield* shownOf({ observation: "a11y_tree" })
      assert.deepStrictEqual(
        shown.tree
          ?.split("\n")
          .slice(1)
          .map((line) => line.split("\t")[1]),
        ["plain", "first", "over the edge", "second"]
      )
    })
  )

  it.effect("says what is no picture", () =>
    Effect.gen(function* () {
      const store = memory()
      const observation = new Observation({
        screenshot: store.put(Buffer.from("no picture"), "image/png"),
        milliseconds: 1
      })
      const failed: AgentError = yield* Effect.flatMap(ArtifactStore, (blobs) =>
        Effect.flip(prepare(blobs, { name: "test", observation: "screenshot" }, screen, observation, 0))
      ).pipe(Effect.provide(store.layer))
      assert.match(failed.reason, /the screenshot is no picture/)
    })
  )
})
