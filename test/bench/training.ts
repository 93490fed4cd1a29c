/**
 * What a step's objective costs, from rewards to the gradient of every log-probability, against a bare loop over the same arrays that
 * does the same arithmetic and nothing else: 272 owners of 49,152 tokens, all of which train. Then how long packing 10,000 rows takes.
 *
 *     node --import tsx test/bench/training.ts
 *
 * Times are of the processor, not of the clock, so that other work on the machine does not count; the best of several rounds.
 */
import * as Either from "effect/Either"
import { probabilityFloor } from "../../src/training/Divergence.js"
import { flashGate } from "../../src/training/Gate.js"
import { evaluate, type Objective, type StepInputs, type Workspace, workspace } from "../../src/training/Objective.js"
import { pack } from "../../src/training/Packing.js"
import { mulberry32 } from "../../src/training/Random.js"

const groups = 17
const slots = 16
const rowPlaces = 49_152
const owners = groups * slots
const places = owners * rowPlaces
const rounds = 5

const seconds = (work: () => void): number => {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < rounds; round++) {
    const before = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(before)
    best = Math.min(best, (user + system) / 1e6)
  }
  return best
}

// -----------------------------------------------------------------------------
// The step
// -----------------------------------------------------------------------------

const random = mulberry32(1)
const generation = new Float64Array(places)
const previous = new Float64Array(places)
const current = new Float64Array(places)
for (let place = 0; place < places; place++) {
  // Most tokens are all but certain, and some are not: the square of a log-probability's exponential draw.
  const drawn = Math.log(1 - random()) ** 2 * -0.3
  generation[place] = drawn
  previous[place] = Math.min(drawn + (random() - 0.5) * 0.02, 0)
  current[place] = Math.min(drawn + (random() - 0.5) * 0.1, 0)
}
const mask = new Uint8Array(places).fill(1)
const offsets = Int32Array.from({ length: owners + 1 }, (_, row) => row * rowPlaces)
const group = Int32Array.from({ length: owners }, (_, owner) => Math.floor(owner / slots))
const reward = Float64Array.from({ length: owners }, () => (random() < 0.4 ? 1 : 0))
const groupIds = Array.from({ length: groups }, (_, index) => `osworld:${index}:repeat:0`)
const ids = Array.from(group, (index, owner) => `${groupIds[index]}_g${owner % slots}`)

const step: StepInputs = {
  owners: { ids, groupIds, group, reward, valid: new Uint8Array(owners).fill(1) },
  rows: { ids: ids.map((id) => `${id}_s0`), owner: Int32Array.from({ length: owners }, (_, row) => row), group },
  batch: { offsets, mask, sampleMask: new Uint8Array(owners).fill(1), generation, previous, current }
}

const flash: Objective = {
  advantage: { name: "reinforce_baseline", population: "all_owners" },
  loss: { name: "on_policy" },
  importance: { truncation: { name: "seq-mask-tis" }, level: "token" },
  gate: flashGate,
  aggregation: { name: "prompt-mean-token-mean" }
}

const standard: Objective = {
  advantage: { name: "grpo", leaveOneOut: true, normalize: true, population: "valid_owners" },
  loss: { name: "ppo", clipLow: 0.2, clipHigh: 0.28 },
  importance: { truncation: { name: "tis", max: 2 }, level: "token" },
  aggregation: { name: "token-mean" }
}

// -----------------------------------------------------------------------------
// The bare loops
// -----------------------------------------------------------------------------

const ceiling = 1 - probabilityFloor
const logFloor = Math.log(probabilityFloor)
const logCeiling = Math.log(ceiling)
const restOfFloor = Math.log1p(-probabilityFloor)
const restOfCeiling = Math.log1p(-ceiling)
const bareGradient = new Float64Array(places)

const groupMeans = (): Float64Array => {
  const means = new Float64Array(groups)
  for (let owner = 0; owner < owners; owner++) {
    const index = group[owner] ?? 0
    means[index] = (means[index] ?? 0) + (reward[owner] ?? 0) / slots
  }
  return means
}

const bareFlash = (): number => {
  const means = groupMeans()
  const tokens = new Float64Array(owners)
  for (let row = 0; row < owners; row++) {
    const end = offsets[row + 1] ?? 0
    let count = 0
    for (let place = offsets[row] ?? 0; place < end; place++) count += mask[place] ?? 0
    tokens[row] = count
  }
  const promptTokens = new Float64Array(groups)
  let [total, sum] = [0, 0]
  for (let owner = 0; owner < owners; owner++) {
    const index = group[owner] ?? 0
    promptTokens[index] = (promptTokens[index] ?? 0) + (tokens[owner] ?? 0)
    total += tokens[owner] ?? 0
    sum += (tokens[owner] ?? 0) * ((reward[owner] ?? 0) - (means[index] ?? 0))
  }
  const mean = sum / total
  let squares = 0
  for (let owner = 0; owner < owners; owner++)
    squares += (tokens[owner] ?? 0) * ((reward[owner] ?? 0) - (means[group[owner] ?? 0] ?? 0) - mean) ** 2
  const deviation = Math.sqrt(Math.max(squares / total, 1e-8))

  let loss = 0
  for (let row = 0; row < owners; row++) {
    const index = group[row] ?? 0
    const from = offsets[row] ?? 0
    const end = offsets[row + 1] ?? 0
    let divergence = 0
    for (let place = from; place < end; place++) {
      if (mask[place] !== 1) continue
      const a = generation[place] ?? 0
      const b = current[place] ?? 0
      let p = probabilityFloor
      let logP = logFloor
      let restP = restOfFloor
      if (a >= logCeiling) {
        p = ceiling
        logP = logCeiling
        restP = restOfCeiling
      } else if (a > logFloor) {
        p = Math.exp(a)
        logP = a
        restP = Math.log1p(-p)
      }
      let logQ = logFloor
      let restQ = restOfFloor
      if (b >= logCeiling) {
        logQ = logCeiling
        restQ = restOfCeiling
      } else if (b > logFloor) {
        logQ = b
        restQ = Math.log1p(-Math.exp(b))
      }
      divergence += p * (logP - logQ) + (1 - p) * (restP - restQ)
    }
    if (divergence / (tokens[row] ?? 0) > 0.01) {
      bareGradient.fill(0, from, end)
      continue
    }
    const advantage = ((reward[row] ?? 0) - (means[index] ?? 0) - mean) / deviation
    const factor = -advantage / (groups * (promptTokens[index] ?? 0))
    for (let place = from; place < end; place++) {
      if (mask[place] !== 1) {
        bareGradient[place] = 0
        continue
      }
      const own = factor * Math.exp((current[place] ?? 0) - (generation[place] ?? 0))
      loss += own
      bareGradient[place] = own
    }
  }
  return loss
}

const bareStandard = (): number => {
  let total = 0
  for (let place = 0; place < places; place++) total += mask[place] ?? 0
  let loss = 0
  for (let row = 0; row < owners; row++) {
    const index = group[row] ?? 0
    const mine = reward[row] ?? 0
    let [sum, squares] = [0, 0]
    for (let other = index * slots; other < (index + 1) * slots; other++) {
      if (other === row) continue
      sum += reward[other] ?? 0
      squares += (reward[other] ?? 0) ** 2
    }
    const mean = sum / (slots - 1)
    const variance = ((squares / (slots - 1) - mean * mean) * (slots - 1)) / (slots - 2)
    const advantage = variance > 1e-15 ? (mine - mean) / (Math.sqrt(variance) + 1e-6) : mine - mean
    const end = offsets[row + 1] ?? 0
    for (let place = offsets[row] ?? 0; place < end; place++) {
      if (mask[place] !== 1) {
        bareGradient[place] = 0
        continue
      }
      const before = previous[place] ?? 0
      const weight = Math.min(Math.exp(before - (generation[place] ?? 0)), 2) / total
      const ratio = Math.exp((current[place] ?? 0) - before)
      const clipped = Math.min(Math.max(ratio, 0.8), 1.28)
      const [free, held] = [-advantage * ratio, -advantage * clipped]
      loss += weight * Math.max(free, held)
      bareGradient[place] = free >= held ? weight * free : 0
    }
  }
  return loss
}

// -----------------------------------------------------------------------------
// The table
// -----------------------------------------------------------------------------

const largestDifference = (ours: Float64Array): number => {
  let largest = 0
  for (let place = 0; place < places; place++)
    largest = Math.max(largest, Math.abs((ours[place] ?? 0) - (bareGradient[place] ?? 0)))
  return largest * places
}

console.log(`${owners} owners, ${rowPlaces.toLocaleString("en")} tokens each, ${places.toLocaleString("en")} in all`)
console.log(
  ["", "bare s", "ours s", "ratio", "ns a token", "loss differs", "gradient differs"]
    .map((cell, at) => (at === 0 ? cell.padEnd(10) : cell.padStart(18)))
    .join("")
)

const line = (name: string, objective: Objective, bare: () => number, space: Workspace) => {
  let [bareLoss, ourLoss] = [0, 0]
  const floor = seconds(() => {
    bareLoss = bare()
  })
  const ours = seconds(() => {
    ourLoss = Either.getOrThrow(evaluate(objective, step, space)).loss
  })
  const cells = [
    floor.toFixed(2),
    ours.toFixed(2),
    (ours / floor).toFixed(2),
    ((ours / places) * 1e9).toFixed(0),
    Math.abs(bareLoss - ourLoss).toExponential(1),
    // Times the number of tokens, since that is what each token's share was divided by.
    largestDifference(space.gradient).toExponential(1)
  ]
  console.log(name.padEnd(10) + cells.map((cell) => cell.padStart(18)).join(""))
}

const space = workspace(step.batch)
line("flash", flash, bareFlash, space)
line("standard", standard, bareStandard, space)

const lengths = Array.from({ length: 10_000 }, () => 1 + Math.floor(random() * rowPlaces))
for (const packer of ["concatenative", "first_fit_decreasing", "modified_first_fit_decreasing"] as const) {
  let bins = 0
  const taken = seconds(() => {
    bins = Either.getOrThrow(pack(lengths, { packer, capacity: rowPlaces })).length
  })
  console.log(`packing 10,000 rows, ${packer.padEnd(30)} ${(taken * 1000).toFixed(1).padStart(8)} ms, ${bins} bins`)
}

// The largest that the process ever was, in kilobytes; the bare loop's gradient is of this file alone.
const peak = process.resourceUsage().maxRSS / 1024
const ofFile = bareGradient.byteLength / 2 ** 20
console.log(
  `largest resident set ${peak.toFixed(0)} MB, ${(peak - ofFile).toFixed(0)} MB without the bare loop's gradient`
)
