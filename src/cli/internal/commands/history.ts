/** `deskhand history`: what it takes, and what carries it out. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { textForms } from "../../../history/BuiltIn.js"
import { defaultSizes } from "../../../history/Economics.js"
import { positive } from "../arguments.js"
import { later } from "../later.js"

const tokens = (name: string, unlessGiven: number, what: string) =>
  positive(name).pipe(
    Options.withDefault(unlessGiven),
    Options.withDescription(`Tokens of ${what}; ${unlessGiven} unless given`)
  )

export const history = Command.make(
  "history",
  {
    policies: Options.text("policy").pipe(
      Options.atLeast(1),
      Options.withDescription(`A history policy; give it several times to compare. ${textForms}`)
    ),
    turns: positive("turns").pipe(
      Options.withDefault(100),
      Options.withDescription("Turns of the episode; 100 unless given")
    ),
    image: tokens("image-tokens", defaultSizes.image, "a screenshot"),
    text: tokens("text-tokens", defaultSizes.text, "the text of a turn"),
    system: tokens("system-tokens", defaultSizes.system, "what comes before the first turn"),
    summary: tokens("summary-tokens", defaultSizes.summary, "a summary"),
    svg: Options.text("svg").pipe(Options.optional, Options.withDescription("Also draw it, into this file"))
  },
  later(
    () => import("../../History.js"),
    (History, { policies, svg, turns, ...sizes }) => History.history({ policies, turns, sizes, svg })
  )
).pipe(
  Command.withDescription("Compare what history policies cost: images, tokens, and what a prefix cache has of them")
)
