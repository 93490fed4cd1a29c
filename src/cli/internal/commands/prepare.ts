/** `deskhand prepare`: what it takes, and what carries it out. */

import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { positive } from "../arguments.js"
import { later } from "../later.js"

export const prepare = Command.make(
  "prepare",
  {
    source: Args.text({ name: "source" }).pipe(
      Args.withDescription("A checkout of OSWorld, a folder of its task files, or an archive (zip, tar, tar.gz)")
    ),
    out: Options.text("out").pipe(
      Options.withDefault("benchmark"),
      Options.withDescription("The folder that is written; benchmark unless given")
    ),
    assets: Options.text("assets").pipe(
      Options.optional,
      Options.withDescription("Where assets are kept; the cache that runs use unless given")
    ),
    skipAssets: Options.boolean("skip-assets").pipe(Options.withDescription("Fetch no assets")),
    offline: Options.boolean("offline").pipe(
      Options.withDescription("Download nothing: say whether all that tasks need is in the cache")
    ),
    concurrency: positive("concurrency").pipe(
      Options.withDefault(4),
      Options.withDescription("Downloads at a time; 4 unless given")
    ),
    shards: positive("shards").pipe(
      Options.optional,
      Options.withDescription("Also write so many shares of each part, row by row in turn")
    ),
    agent: Options.text("agent-ref").pipe(
      Options.optional,
      Options.withDescription("The name of the agent that rows carry as agent_ref; they have none unless given")
    ),
    vm: Options.text("vm").pipe(
      Options.optional,
      Options.withDescription("OSWorld's disk image (qcow2), to be identified by its content")
    ),
    expectedVmSha256: Options.text("expected-vm-sha256").pipe(
      Options.optional,
      Options.withDescription("What the disk image has to be")
    ),
    force: Options.boolean("force").pipe(
      Options.withDescription("Write over what --out holds although tasks or assets have changed")
    )
  },
  later(
    () => import("../../Prepare.js"),
    ({ prepare }, options) => prepare(options)
  )
).pipe(Command.withDescription("Pin OSWorld's tasks by content, write them as rows, and fetch what they need"))
