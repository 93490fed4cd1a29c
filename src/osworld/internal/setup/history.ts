/** The step that gives Chrome a past. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Placeholders from "../../Placeholders.js"
import * as BrowseHistory from "../browseHistory.js"
import * as ChromeFacts from "../chromeFacts.js"
import { broken, idempotent, type Perform, StepFailed } from "./step.js"

/**
 * Puts a history in the place of the one that is there. A Chrome that runs has the old one open and would write it back,
 * so that the step has to come before Chrome's launch.
 */
export const update: Perform<"update_browse_history"> = ({ history }, context) =>
  Effect.gen(function* () {
    const { guest } = context
    const facts = yield* Effect.mapError(ChromeFacts.get(guest), broken)
    if (facts.processes.length > 0) {
      return yield* Effect.fail(
        new StepFailed("task", "Chrome runs already and would not take the history: the step belongs before its launch")
      )
    }
    const profile = ChromeFacts.profile(facts) ?? { folder: `${facts.home}/.config/google-chrome`, name: "Default" }
    const path = `${profile.folder}/${profile.name}/History`
    const now = yield* Clock.currentTimeMillis
    const bytes = yield* BrowseHistory.make(
      history.map(({ title, url, visitTimeFromNow }) => ({
        url: Placeholders.fill(url, context.placeholders),
        title: Placeholders.fill(title, context.placeholders),
        at: now - visitTimeFromNow * 1000
      }))
    )
    // What an older database left beside it belongs to that one.
    yield* idempotent(
      guest.execute({ command: ["rm", "-f", "--", ...["journal", "wal", "shm"].map((end) => `${path}-${end}`)] })
    )
    yield* idempotent(guest.writeFile(path, Stream.make(bytes), { length: bytes.length }))
  })
