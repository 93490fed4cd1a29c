/** Makes an observation ready for the prompts that will show it. */
import * as Effect from "effect/Effect"
import type { ArtifactStore, BlobRef } from "../../artifact/ArtifactStore.js"
import { AgentError } from "../../rollout/Agent.js"
import type { Observation } from "../../rollout/Environment.js"
import * as AccessibilityTree from "../AccessibilityTree.js"
import type { Protocol, Shown, Size } from "../Protocol.js"
import * as SetOfMarks from "../SetOfMarks.js"
import { type Picture, pixels } from "./picture.js"

const failed = (what: string) => (cause: unknown) =>
  new AgentError({ reason: `${what}: ${cause instanceof Error ? cause.message : String(cause)}` })

const png = "image/png"

export const prepare = (
  store: ArtifactStore["Type"],
  protocol: Pick<Protocol, "name" | "observation" | "imageSize">,
  screen: Size,
  observation: Observation,
  step: number
): Effect.Effect<Shown, AgentError> =>
  Effect.gen(function* () {
    const { screenshot } = observation
    const size = protocol.imageSize?.(screen) ?? screen
    const resized = size.width !== screen.width || size.height !== screen.height
    const marked = protocol.observation === "som"
    const nodes = protocol.observation === "screenshot" ? [] : yield* nodesOf(store, protocol.name, observation)
    // The first look shows whether the contract tells the truth about the screen; later ones cost a read only where they must.
    if (step > 0 && !resized && !marked) return treeOf(screenshot, nodes, protocol.observation)
    const bytes = yield* Effect.mapError(store.get(screenshot), failed("the screenshot could not be read"))
    const found = yield* measured(bytes)
    if (found.width !== screen.width || found.height !== screen.height) {
      return yield* new AgentError({
        reason: `the screenshot has ${found.width} by ${found.height} pixels, and the screen is said to have ${screen.width} by ${screen.height}`
      })
    }
    if (!marked) {
      const image = resized ? yield* stored(store, yield* fitted(bytes, size)) : screenshot
      return treeOf(image, nodes, protocol.observation)
    }
    const picture = yield* Effect.tryPromise({
      try: () => pixels(bytes),
      catch: failed("the screenshot could not be read")
    })
    const marks = SetOfMarks.marks(nodes, picture)
    const drawn = yield* drawing(bytes, picture, marks, size)
    return {
      image: yield* stored(store, drawn),
      tree: SetOfMarks.table(marks),
      marks: marks.map(SetOfMarks.centre)
    }
  })

const treeOf = (
  image: BlobRef,
  nodes: ReadonlyArray<AccessibilityTree.Node>,
  observation: Protocol["observation"]
): Shown => (observation === "screenshot" ? { image } : { image, tree: AccessibilityTree.table(nodes) })

const nodesOf = (store: ArtifactStore["Type"], agent: string, { accessibilityTree }: Observation) =>
  Effect.gen(function* () {
    if (accessibilityTree === undefined) {
      return yield* new AgentError({
        reason: `the agent ${agent} wants the accessibility tree, and the environment gave none`
      })
    }
    const bytes = yield* Effect.mapError(
      store.get(accessibilityTree),
      failed("the accessibility tree could not be read")
    )
    return yield* Effect.mapError(
      AccessibilityTree.parse(Buffer.from(bytes).toString("utf8")),
      failed("the accessibility tree could not be read")
    )
  })

/** Loaded when the first picture comes: an agent that sends screenshots as they are never wants it. */
const load = async (bytes: Uint8Array) => (await import("sharp")).default(bytes)

const measured = (bytes: Uint8Array) =>
  Effect.tryPromise({ try: async () => (await load(bytes)).metadata(), catch: failed("the screenshot is no picture") })

const fitted = (bytes: Uint8Array, { height, width }: Size) =>
  Effect.tryPromise({
    try: async () => (await load(bytes)).resize(width, height, { fit: "fill", kernel: "lanczos3" }).png().toBuffer(),
    catch: failed("the screenshot could not be made smaller")
  })

const drawing = (bytes: Uint8Array, picture: Picture, marks: ReadonlyArray<SetOfMarks.Mark>, size: Size) =>
  Effect.gen(function* () {
    const drawn = yield* Effect.tryPromise({
      try: async () =>
        (await load(bytes))
          .composite([{ input: Buffer.from(SetOfMarks.svg(picture, marks)) }])
          .png()
          .toBuffer(),
      catch: failed("the marks could not be drawn")
    })
    return size.width === picture.width && size.height === picture.height ? drawn : yield* fitted(drawn, size)
  })

const stored = (store: ArtifactStore["Type"], bytes: Uint8Array) =>
  Effect.mapError(store.put(bytes, png), failed("the picture could not be stored"))
