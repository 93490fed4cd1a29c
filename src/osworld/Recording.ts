/**
 * What a person may look at of a rollout, beside its evidence: a film of the screen, the commands that setup and
 * evaluation sent, and the files that were judged.
 *
 * None of it decides anything. What cannot be recorded is told, and the rollout goes on.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { ArtifactStore } from "../artifact/ArtifactStore.js"
import { writeWhole } from "../artifact/WholeFile.js"
import type { Guest } from "../desktop/Guest.js"
import type { RolloutIdentity } from "../identity/Identity.js"
import { Evaluation } from "../rollout/Evaluation.js"
import { fileStem } from "../rollout/Evidence.js"
import * as Commands from "./internal/recording/commands.js"
import * as Film from "./internal/recording/film.js"
import * as Judged from "./internal/recording/judged.js"

/**
 * The recording of one rollout.
 *
 * @since 0.1.0
 * @category models
 */
export interface RolloutRecording {
  /** The guest as setup and evaluation have it: what they tell it to do is put on record. */
  readonly guest: Guest
  /** Starts the film, if there is to be one; it ends with the scope, while the guest still lives. */
  readonly film: Effect.Effect<void, never, Scope.Scope>
  /** Commands are the evaluation's from here on, and when it ends the files that it was about are kept. */
  readonly evaluating: <E, R>(evaluation: Effect.Effect<Evaluation, E, R>) => Effect.Effect<Evaluation, E, R>
}

/**
 * Who films desktops, as a service; without it nothing is filmed.
 *
 * @since 0.1.0
 * @category context
 */
export class Recording extends Context.Tag("deskhand/osworld/Recording")<
  Recording,
  {
    readonly open: (
      identity: RolloutIdentity,
      desktop: {
        readonly guest: Guest
        /** The rollout's own folder on this host. */
        readonly cache: string
        /** Texts that are not put on record. */
        readonly secrets: ReadonlyArray<string>
      }
    ) => Effect.Effect<RolloutRecording, never, Scope.Scope>
  }
>() {}

/**
 * No recording.
 *
 * @since 0.1.0
 * @category constructors
 */
export const none = (guest: Guest): RolloutRecording => ({
  guest,
  film: Effect.void,
  evaluating: (evaluation) => evaluation
})

/**
 * Into a run's folder, each file named after its rollout:
 *
 * - `vm-exec/<rollout>.jsonl`: a line for each thing that setup and evaluation told the guest to do, with its exit code,
 *   how long it took and the ends of what it printed;
 * - `evaluated/<rollout>.json`: the files that getters brought, by hash, each a blob of the run; those under judgement
 *   are in the evaluation's details too;
 * - `recordings/<rollout>.mp4`, with `film`; where it could not be had, `recordings/<rollout>.failed.txt` says why.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: {
  readonly out: string
  readonly film: boolean
}): Layer.Layer<Recording, never, FileSystem.FileSystem | Path.Path | ArtifactStore> =>
  Layer.effect(
    Recording,
    Effect.gen(function* () {
      const path = yield* Path.Path
      // These and no more: what is opened belongs to the rollout's scope and not to the one of this layer.
      const services = Context.pick(
        FileSystem.FileSystem,
        Path.Path,
        ArtifactStore
      )(yield* Effect.context<FileSystem.FileSystem | Path.Path | ArtifactStore>())
      return Recording.of({
        open: (identity, { cache, guest, secrets }) =>
          Effect.gen(function* () {
            const stem = fileStem(identity)
            const told = (what: string) => (error: { readonly message: string }) =>
              Effect.logWarning(`${stem}: ${what}: ${error.message}`)
            const commands = yield* Commands.open(path.join(options.out, "vm-exec", `${stem}.jsonl`), secrets, told)
            const keep = Judged.keep(cache).pipe(
              Effect.tap((files) =>
                writeWhole(
                  path.join(options.out, "evaluated", `${stem}.json`),
                  `${JSON.stringify({ schema_version: 1, task_id: identity.taskId, rollout_id: identity.rolloutId, files }, null, 2)}\n`
                )
              ),
              Effect.catchAll((error) => Effect.as(told("the files that were judged could not be kept")(error), [])),
              Effect.provide(services)
            )
            return {
              guest: commands.watch(guest),
              film: options.film
                ? Effect.provide(Film.film(guest, path.join(options.out, "recordings"), stem, told), services)
                : Effect.void,
              evaluating: (evaluation) =>
                Effect.uninterruptibleMask((restore) =>
                  Effect.gen(function* () {
                    commands.evaluating()
                    const exit = yield* Effect.exit(restore(evaluation))
                    const files = yield* keep
                    const { details, score } = yield* exit
                    return new Evaluation({ score, details: [...details, ...Judged.lines(files)] })
                  })
                )
            } satisfies RolloutRecording
          }).pipe(Effect.provide(services))
      })
    })
  )
