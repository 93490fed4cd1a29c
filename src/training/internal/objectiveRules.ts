/** Which settings go together, in any step and in one of segments. */
import type { Objective, ObjectiveSurroundings } from "../Objective.js"
import { ObjectiveError } from "../StepError.js"

const wrong = (field: string, found: unknown, why: string, remedy: string): ObjectiveError =>
  new ObjectiveError({ field, found: found === undefined ? "absent" : String(found), why, remedy })

/** Each: the field, its value, whether it is right, what is wrong if not. */
type Rule = readonly [right: boolean, field: string, found: unknown, why: string, remedy: string]

const firstBroken = (rules: ReadonlyArray<Rule>): ObjectiveError | undefined => {
  const broken = rules.find(([right]) => !right)
  if (broken === undefined) return undefined
  const [, field, found, why, remedy] = broken
  return wrong(field, found, why, remedy)
}

/** Numbers are finite and in their order. A comparison with NaN is false, so each rule is put the way that is right. */
const numbers = ({
  advantageClip,
  aggregation,
  gate,
  importance,
  kl,
  loss,
  maxSequenceError,
  positiveNll,
  shaping,
  tokenMask
}: Objective): ReadonlyArray<Rule> => {
  const rules: Array<Rule> = []
  const finite = (field: string, value: number) =>
    rules.push([Number.isFinite(value), field, value, "it is no number", "Give a finite one"])
  const interval = (field: string, low: number, high: number, strictly = false) => {
    finite(`${field}.low`, low)
    finite(`${field}.high`, high)
    rules.push([
      strictly ? low < high : low <= high,
      field,
      `${low}..${high}`,
      "its ends are the wrong way round",
      "Give the lower first"
    ])
  }
  if (loss.name === "ppo" || loss.name === "cispo" || loss.name === "gspo") {
    const { clipHigh, clipLow } = loss
    rules.push(
      [clipLow >= 0 && clipLow <= 1, "loss.clipLow", clipLow, "a ratio is clipped at 1 - clipLow", "Give 0 to 1"],
      [
        clipHigh >= 0 && clipHigh < Number.POSITIVE_INFINITY,
        "loss.clipHigh",
        clipHigh,
        "a ratio is clipped at 1 + clipHigh",
        "Give a finite number from 0 up"
      ]
    )
  }
  if (loss.name === "ppo" && loss.dualClip !== undefined) {
    const right = loss.dualClip > 1 && Number.isFinite(loss.dualClip)
    rules.push([right, "loss.dualClip", loss.dualClip, "it bounds ratios above 1", "Give a finite number above 1"])
  }
  const truncation = importance?.truncation
  if (truncation?.name === "tis" || truncation?.name === "icepop")
    interval("importance.truncation", truncation.min ?? 0, truncation.max)
  if (gate !== undefined) {
    interval("gate", gate.min, gate.max)
    const ratio = gate.statistic === "ratio"
    rules.push([
      ratio ? gate.min > 0 : gate.min <= 0,
      "gate.min",
      gate.min,
      ratio ? "a ratio is above 0" : `${gate.statistic} of rows that are no different is 0 and must pass`,
      ratio ? "Set it above 0, 0.99 for example" : "Set it to 0"
    ])
  }
  if (tokenMask !== undefined)
    rules.push([
      tokenMask.threshold >= 0 && Number.isFinite(tokenMask.threshold),
      "tokenMask.threshold",
      tokenMask.threshold,
      "a divergence is 0 or more",
      "Give a finite number from 0 up"
    ])
  if (kl !== undefined) finite("kl.coefficient", kl.coefficient)
  if (positiveNll !== undefined) {
    finite("positiveNll.coefficient", positiveNll.coefficient)
    finite("positiveNll.minReward", positiveNll.minReward)
  }
  if (advantageClip !== undefined) interval("advantageClip", ...advantageClip)
  if (maxSequenceError !== undefined) finite("maxSequenceError", maxSequenceError)
  if (aggregation.name === "seq-mean-token-sum" && aggregation.constant !== undefined)
    rules.push([
      aggregation.constant > 0 && Number.isFinite(aggregation.constant),
      "aggregation.constant",
      aggregation.constant,
      "sums are divided by it",
      "Give a finite number above 0"
    ])
  if (shaping?.clip !== undefined) interval("shaping.clip", ...shaping.clip)
  if (shaping?.stopProperly !== undefined) finite("shaping.stopProperly", shaping.stopProperly)
  if (shaping?.scaling !== undefined) {
    interval("shaping.scaling.source", ...shaping.scaling.source, true)
    interval("shaping.scaling.target", ...shaping.scaling.target)
  }
  if (shaping?.overlong !== undefined) {
    finite("shaping.overlong.penalty", shaping.overlong.penalty)
    finite("shaping.overlong.maxResponseLength", shaping.overlong.maxResponseLength)
    rules.push([
      shaping.overlong.bufferLength > 0 && Number.isFinite(shaping.overlong.bufferLength),
      "shaping.overlong.bufferLength",
      shaping.overlong.bufferLength,
      "the penalty is spread over it",
      "Give a finite number above 0"
    ])
  }
  return rules
}

/** What makes no sense in any step. */
export const checkConsistent = (objective: Objective): ObjectiveError | undefined => {
  const { aggregation, gate, importance, loss } = objective
  const masked = importance?.truncation.name === "seq-mask-tis"
  return firstBroken([
    ...numbers(objective),
    [
      loss.name !== "cispo" || aggregation.name === "token-mean" || aggregation.name === "prompt-mean-token-mean",
      "aggregation.name",
      aggregation.name,
      "cispo is a loss of tokens",
      "Set it to token-mean"
    ],
    [
      loss.name !== "cispo" || importance?.level !== "sequence",
      "importance.level",
      importance?.level,
      "cispo is a loss of tokens",
      "Set it to token"
    ],
    [
      loss.name !== "gspo" || aggregation.name === "seq-mean-token-mean",
      "aggregation.name",
      aggregation.name,
      "gspo is a loss of rows",
      "Set it to seq-mean-token-mean"
    ],
    [
      gate === undefined || masked,
      "importance.truncation.name",
      importance?.truncation.name,
      "a gate is the masking half of seq-mask-tis",
      "Set it to seq-mask-tis, or leave the gate out"
    ],
    [
      gate !== undefined || !masked,
      "gate",
      undefined,
      "seq-mask-tis masks rows by the gate's statistic",
      "Give a gate, or set importance.truncation to none"
    ],
    [
      !masked || importance?.level === "token",
      "importance.level",
      importance?.level,
      "seq-mask-tis leaves the weights of tokens as they are",
      "Set it to token"
    ]
  ])
}

/** What all three families leave out. */
const leftOut = (
  { advantageClip, aggregation, importance, loss, maxSequenceError, positiveNll, shaping, tokenMask }: Objective,
  { dynamicSampling, klInReward }: ObjectiveSurroundings
): ReadonlyArray<Rule> => {
  const absent = (field: string, value: unknown, why: string): Rule => [
    value === undefined,
    field,
    "set",
    why,
    "Leave it out"
  ]
  const splits = "it would depend on where an episode is split into segments"
  const token = "Set it to token-mean or prompt-mean-token-mean"
  return [
    [loss.name !== "gspo", "loss.name", loss.name, splits, "Set it to ppo or on_policy"],
    [
      aggregation.name !== "seq-mean-token-mean" && aggregation.name !== "seq-mean-token-sum",
      "aggregation.name",
      aggregation.name,
      splits,
      token
    ],
    [importance?.level !== "sequence", "importance.level", importance?.level, splits, "Set it to token"],
    absent("maxSequenceError", maxSequenceError, splits),
    absent("positiveNll", positiveNll, "no family with segments has it"),
    absent("advantageClip", advantageClip, "advantages are made of the complete population and stay as they are"),
    absent("tokenMask", tokenMask, "no family with segments has it"),
    absent("shaping.scaling", shaping?.scaling, "rewards of segmented owners are not scaled"),
    absent("shaping.overlong", shaping?.overlong, "rewards of segmented owners are not shaped"),
    absent("shaping.stopProperly", shaping?.stopProperly, "rewards of segmented owners are not shaped"),
    [
      shaping?.clip === undefined || (shaping.clip[0] === 0 && shaping.clip[1] === 1),
      "shaping.clip",
      shaping?.clip?.join(".."),
      "the one change to rewards that segmented owners allow is a clip to 0..1",
      "Set it to 0..1, or leave it out"
    ],
    [
      dynamicSampling !== true,
      "dynamicSampling",
      dynamicSampling,
      "it would drop owners by their rewards",
      "Set it to false"
    ],
    [
      klInReward !== true,
      "klInReward",
      klInReward,
      "an owner has one reward, and not one for each token",
      "Set it to false"
    ]
  ]
}

const exactly = (field: string, found: unknown, wanted: string, family: string): Rule => [
  found === wanted,
  field,
  found,
  `the ${family} family has ${wanted}`,
  `Set it to ${wanted}`
]

/** The table of families. */
export const checkForSegments = (
  objective: Objective,
  surroundings: ObjectiveSurroundings
): ObjectiveError | undefined => {
  const common = firstBroken(leftOut(objective, surroundings))
  if (common !== undefined) return common
  const { advantage, aggregation, gate, importance, loss } = objective
  if (advantage.name === "grpo")
    return firstBroken([
      [gate === undefined, "gate", gate?.statistic, "the standard family (grpo) has none", "Leave it out"],
      exactly("loss.name", loss.name, "ppo", "standard"),
      exactly("aggregation.name", aggregation.name, "token-mean", "standard")
    ])
  if (advantage.name !== "reinforce_baseline" && advantage.name !== "dr_grpo")
    return wrong(
      "advantage.name",
      advantage.name,
      "owners with segments are trained with grpo, dr_grpo or reinforce_baseline",
      "Set it to one of these"
    )
  const population: Rule = [
    advantage.population === "all_owners",
    "advantage.population",
    advantage.population,
    "the baseline is over the complete population, failed owners too",
    "Set it to all_owners"
  ]
  if (gate === undefined || gate.statistic === "tv")
    return wrong(
      "gate.statistic",
      gate?.statistic,
      `${advantage.name} goes with a gate`,
      "Set it to binary_kl (0..0.01), or to ratio (0.99..1.01) with reinforce_baseline"
    )
  const truncation = importance?.truncation.name
  if (gate.statistic === "ratio")
    return firstBroken([
      exactly("advantage.name", advantage.name, "reinforce_baseline", "molt (gate ratio)"),
      population,
      exactly("importance.truncation.name", truncation, "seq-mask-tis", "molt"),
      exactly("loss.name", loss.name, "on_policy", "molt"),
      exactly("aggregation.name", aggregation.name, "token-mean", "molt")
    ])
  return firstBroken([
    population,
    exactly("importance.truncation.name", truncation, "seq-mask-tis", "flash"),
    [
      gate.max > 0,
      "gate.max",
      gate.max,
      "a gate that rejects every difference trains nothing",
      "Set it above 0, 0.01 for example"
    ],
    exactly("loss.name", loss.name, "on_policy", "flash (gate binary_kl)"),
    exactly("aggregation.name", aggregation.name, "prompt-mean-token-mean", "flash")
  ])
}
