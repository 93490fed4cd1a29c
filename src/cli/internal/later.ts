/** Commands whose own modules are loaded when they are the ones that run: a run has no memory for the others. */
import * as Effect from "effect/Effect"

export const later =
  <Module, Given, A, E, R>(
    load: () => Promise<Module>,
    carryOut: (module: Module, given: Given) => Effect.Effect<A, E, R>
  ) =>
  (given: Given): Effect.Effect<A, E, R> =>
    Effect.flatMap(Effect.promise(load), (module) => carryOut(module, given))
