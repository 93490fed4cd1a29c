/** Files of the guest, read whole, as far as that is reasonable. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Guest } from "../../../desktop/Guest.js"

/** Undefined where the guest has no such file; a file that is larger than `limit` bytes is an error. */
export const read = (
  guest: Guest,
  path: string,
  limit: number
): Effect.Effect<Uint8Array | undefined, { readonly message: string }> =>
  Effect.gen(function* () {
    const parts: Array<Uint8Array> = []
    let size = 0
    yield* Stream.runForEach(guest.readFile(path), (part) => {
      parts.push(part)
      size += part.length
      return size > limit ? Effect.fail({ _tag: "TooLarge" as const }) : Effect.void
    })
    return new Uint8Array(Buffer.concat(parts))
  }).pipe(
    Effect.catchTag("GuestFileMissing", () => Effect.succeed(undefined)),
    Effect.mapError((error) =>
      error._tag === "TooLarge" ? { message: `${path} has more than ${limit} bytes` } : { message: error.message }
    )
  )

export const readText = (
  guest: Guest,
  path: string,
  limit: number
): Effect.Effect<string | undefined, { readonly message: string }> =>
  Effect.map(read(guest, path, limit), (bytes) => (bytes === undefined ? undefined : new TextDecoder().decode(bytes)))
