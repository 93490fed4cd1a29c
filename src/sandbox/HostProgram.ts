/**
 * Programs on this host: what one leaves behind bears its label, so that others can tell whether it still runs.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Owner from "./internal/owner.js"
import * as Proc from "./internal/proc.js"

export {
  /**
   * Something that this host says of its processes could not be read, so nothing is known of them.
   *
   * @since 0.1.0
   * @category errors
   */
  ProcUnreadable
} from "./internal/proc.js"

/**
 * This program's label: 63 letters, digits and dots at most. It is told apart from a later program that got the same
 * process number, from one of another boot, and from one in another container. Fails when this host's `/proc` is there
 * and cannot be read.
 *
 * @since 0.1.0
 * @category operations
 */
export const label: Effect.Effect<string, Proc.ProcUnreadable, FileSystem.FileSystem> = Effect.map(
  Proc.self,
  Owner.ownerLabel
)

/**
 * Whether the program with this label runs. `dead` also for a label that no program of ours has; `unknown` for one in
 * another container, where nobody here can tell. Fails when what this host says of its processes cannot be read: then the
 * program may well run.
 *
 * @since 0.1.0
 * @category operations
 */
export const look: (
  label: string
) => Effect.Effect<"alive" | "dead" | "unknown", Proc.ProcUnreadable, FileSystem.FileSystem> = Proc.labelled
