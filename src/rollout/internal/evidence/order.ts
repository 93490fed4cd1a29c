/** Which record may follow which: a head, steps with their calls and actions, an end, a verdict. */
import type { EvidenceRecord } from "../../EvidenceRecord.js"

export interface OrderFault {
  readonly kind: "out_of_order" | "gap"
  readonly detail: string
}

/** Where a file stands. */
export interface Order {
  readonly phase: "head" | "steps" | "ended" | "done"
  /** The step of the newest `Observed`; -1 before the first. */
  readonly step: number
  /** Calls of that step. */
  readonly calls: number
}

export const begin: Order = { phase: "head", step: -1, calls: 0 }

const ranks = { head: 0, steps: 1, ended: 2, done: 3 } as const

const phaseOf = (record: EvidenceRecord): "head" | "steps" | "ended" => {
  switch (record._tag) {
    case "Started":
      return "head"
    case "Observed":
    case "Called":
    case "Acted":
    case "Ended":
      return "steps"
    case "Evaluated":
    case "NotEvaluated":
      return "ended"
  }
}

const nextPhase = (record: EvidenceRecord): Order["phase"] =>
  record._tag === "Ended" ? "ended" : phaseOf(record) === "ended" ? "done" : "steps"

/** The next state, whatever was wrong: what follows is judged by what is there. */
export const follow = (
  order: Order,
  record: EvidenceRecord
): { readonly order: Order; readonly faults: ReadonlyArray<OrderFault> } => {
  const faults: Array<OrderFault> = []
  const outOfOrder = (detail: string) => faults.push({ kind: "out_of_order", detail })
  const wanted = phaseOf(record)
  if (wanted !== order.phase) {
    const early = ranks[wanted] > ranks[order.phase]
    if (order.phase === "head" && early) faults.push({ kind: "gap", detail: "the head, Started, is missing" })
    else if (early) faults.push({ kind: "gap", detail: `${record._tag} comes before Ended` })
    else outOfOrder(`${record._tag} comes too late`)
  }
  const moved: Order = { ...order, phase: nextPhase(record) }
  if (record._tag === "Observed") {
    const expected = order.step + 1
    if (record.step > expected) faults.push({ kind: "gap", detail: `step ${expected} was not observed` })
    if (record.step < expected) outOfOrder(`step ${record.step} is observed after step ${order.step}`)
    return { order: { ...moved, step: record.step, calls: 0 }, faults }
  }
  if (record._tag === "Acted" || record._tag === "Called") {
    if (record.step !== order.step) outOfOrder(`${record._tag} is of step ${record.step}, and step ${order.step} is on`)
  }
  if (record._tag === "Called") {
    const { parseAttempt, step } = record.call
    if (step !== record.step) outOfOrder(`the call says that it is of step ${step}`)
    if (parseAttempt > order.calls)
      faults.push({ kind: "gap", detail: `call ${order.calls} of step ${step} is missing` })
    if (parseAttempt < order.calls) outOfOrder(`call ${parseAttempt} of step ${step} comes again`)
    return { order: { ...moved, calls: parseAttempt + 1 }, faults }
  }
  return { order: moved, faults }
}
