/**
 * What is written down about a local sandbox before anything of it exists.
 */
import * as Schema from "effect/Schema"
import type { Selector } from "../SandboxProvider.js"
import { Metadata } from "../SandboxSpec.js"
import { Owner } from "./owner.js"

/** The intent, kept as `sandbox.json` in the sandbox's folder. */
export class SandboxRecord extends Schema.Class<SandboxRecord>("deskhand/sandbox/internal/SandboxRecord")({
  id: Schema.String,
  metadata: Metadata,
  /** Milliseconds since 1970. */
  createdAt: Schema.Number,
  owner: Owner,
  /** After this moment, in milliseconds since 1970, nobody answers for it. */
  expiresAt: Schema.optionalWith(Schema.Number, { exact: true }),
  /** What a borrower's commands run with. */
  env: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.String }), { default: () => ({}) }),
  ports: Schema.optionalWith(Schema.Array(Schema.Int), { default: () => [] }),
  workdir: Schema.optionalWith(Schema.String, { exact: true })
}) {}

export const RecordJson = Schema.parseJson(SandboxRecord)

export const recordFile = "sandbox.json"

/** What `recordFile` is renamed to when its owner gave up removing the sandbox: a rename works on a full disk. */
export const orphanedFile = "orphaned.json"

const idPattern = /^sb-[0-9a-f]{12}$/

/** Only folders with such names are ever removed, whatever else lies in the state folder. */
export const isSandboxId = (name: string) => idPattern.test(name)

export const sandboxId = (random: Uint8Array) => `sb-${Buffer.from(random.subarray(0, 6)).toString("hex")}`

/** Whether the metadata has every entry of the selector. */
export const matches = (selector: Selector, metadata: Readonly<Record<string, string>>) =>
  Object.entries(selector).every(([name, value]) => Object.hasOwn(metadata, name) && metadata[name] === value)

/** `sun_path` has 108 bytes, the last of which is NUL. */
export const longestSocketPath = 107

const longestSuffix = "/sb-000000000000/ports/65535.sock".length

/** Why no socket could be opened below this state folder; undefined when it can. */
export const socketPathProblem = (stateDir: string): string | undefined => {
  const bytes = Buffer.byteLength(stateDir)
  return bytes + longestSuffix <= longestSocketPath
    ? undefined
    : `the path of the state folder has ${bytes} bytes, and sockets below it need it to have at most ${
        longestSocketPath - longestSuffix
      }: ${stateDir}`
}

export const socketPathRemedy =
  "Name a folder with a short path, such as /var/tmp/deskhand, in DESKHAND_STATE_DIR or in the stateDir option"
