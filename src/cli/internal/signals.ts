/** What a signal means, given what was done about those before it. */

/** How far a program is on its way out. `draining`: what runs may still end, nothing new starts. */
export type Phase = "running" | "draining" | "stopping"

export type Act = "drain" | "interrupt" | "leave" | "nothing"

export interface Heard {
  /** Whether the program can drain at this moment. */
  readonly drains: boolean
  /** Milliseconds since the signal before; infinite for the first. */
  readonly since: number
}

/** Wrappers such as npm and tsx pass on a signal that the terminal has sent to everybody already. */
export const echoMilliseconds = 1000

/** What to do about one more signal. Each goes one phase further, and the last leaves at once. */
export const next = (phase: Phase, { drains, since }: Heard): readonly [Phase, Act] => {
  if (phase === "running") return drains ? ["draining", "drain"] : ["stopping", "interrupt"]
  if (since <= echoMilliseconds) return [phase, "nothing"]
  return phase === "draining" ? ["stopping", "interrupt"] : ["stopping", "leave"]
}

export const numbers = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const

export type Signal = keyof typeof numbers

/**
 * The exit status: what the program says, but when a signal kept it from its end, 128 and the signal's number, as shells
 * have it.
 */
export const statusOf = (status: number, signal: Signal | undefined): number =>
  signal === undefined || status === 0 ? status : 128 + numbers[signal]
