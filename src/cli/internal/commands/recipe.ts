/** `deskhand recipe`: what it takes, and what carries it out. */

import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Recipe from "../../Recipe.js"

export const recipe = Command.make(
  "recipe",
  {
    name: Args.text({ name: "name" }).pipe(Args.optional, Args.withDescription("Which one; all in short unless given")),
    format: Options.choice("format", Recipe.formats).pipe(
      Options.withDefault("table" as const),
      Options.withDescription("table, json or yaml; table unless given")
    )
  },
  Recipe.recipe
).pipe(Command.withDescription("Show what training recipes are made of"))
