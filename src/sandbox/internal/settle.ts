/**
 * When it is believed that nothing is there, and how long that may take.
 */
import * as Duration from "effect/Duration"

export interface Settle {
  /** Consecutive listings without it; 3 unless given. */
  readonly looks?: number
  /** Between two looks; 2 seconds unless given. `looks` times this is longer than a create goes on unseen. */
  readonly spacing?: Duration.DurationInput
  /** How long an unclear create is followed; 3 minutes unless given. */
  readonly limit?: Duration.DurationInput
  /** How long one removal may take before it is left to `sweep`; 30 seconds unless given. */
  readonly removal?: Duration.DurationInput
  /** How long closing the provider waits for the reaper; 1 minute unless given. */
  readonly close?: Duration.DurationInput
}

export interface Settled {
  readonly looks: number
  readonly spacing: Duration.Duration
  readonly limit: Duration.Duration
  readonly removal: Duration.Duration
  readonly close: Duration.Duration
}

export const settled = (settle: Settle = {}): Settled => ({
  looks: settle.looks ?? 3,
  spacing: Duration.decode(settle.spacing ?? "2 seconds"),
  limit: Duration.decode(settle.limit ?? "3 minutes"),
  removal: Duration.decode(settle.removal ?? "30 seconds"),
  close: Duration.decode(settle.close ?? "1 minute")
})
