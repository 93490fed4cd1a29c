/**
 * What can be made to go wrong with a server's answers.
 */
import * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { problem, type Reply } from "./e2bWire.js"

/**
 * What a fault is for. `exec` is the start of a command, `health` the question to a sandbox's envd whether it is there,
 * `template` the one to the control plane whether there is such a template.
 */
export type Operation =
  | "create"
  | "connect"
  | "kill"
  | "info"
  | "list"
  | "timeout"
  | "pause"
  | "fork"
  | "template"
  | "health"
  | "exec"
  | "files"

export type Fault = Data.TaggedEnum<{
  /** It is done, and the connection is cut instead of an answer. */
  CommitThenLose: Record<never, never>
  /** It is done after this long, whether or not anybody still waits for it. */
  HangThenCommit: { readonly delay: Duration.DurationInput }
  /** 429, with the header when there is a number of seconds; nothing is done. */
  RateLimited: { readonly retryAfter: number | undefined }
  /** 503; nothing is done. */
  Busy: Record<never, never>
  /** 404 without a body, as gateways send it; nothing is done. */
  EmptyNotFound: Record<never, never>
  /** It is done, and the answer lacks `envdVersion`. */
  Malformed: Record<never, never>
  /** This status with a body of JSON; nothing is done. */
  Refused: { readonly status: number }
  /** Of a fork: this child, counted from 0, fails with this code and the others are there. */
  ChildFails: { readonly index: number; readonly code: number }
  /** Of a command: the connection is cut after the `start` event, and the command goes on. */
  CutAfterStart: Record<never, never>
  /** Of a command: the stream ends without the `end` event, and nobody knows the command any more. */
  NoEndEvent: Record<never, never>
}>

export const Fault = Data.taggedEnum<Fault>()

/** Faults wait in line for each operation; each is used once. */
export class Faults {
  private readonly lines = new Map<Operation, Array<Fault>>()

  add(operation: Operation, fault: Fault, times: number): void {
    const line = this.lines.get(operation) ?? []
    for (let i = 0; i < times; i++) line.push(fault)
    this.lines.set(operation, line)
  }

  take(operation: Operation): Fault | undefined {
    return this.lines.get(operation)?.shift()
  }

  clear(): void {
    this.lines.clear()
  }
}

/** The answer of a fault for which nothing is done. */
export const refusal = (fault: Fault | undefined): Reply | undefined => {
  switch (fault?._tag) {
    case "RateLimited":
      return {
        ...problem(429, "too many requests"),
        headers: fault.retryAfter === undefined ? {} : { "retry-after": String(fault.retryAfter) }
      }
    case "Busy":
      return problem(503, "busy")
    case "EmptyNotFound":
      return { status: 404 }
    case "Refused":
      return problem(fault.status, "refused")
    default:
      return undefined
  }
}

/** What a fault makes of an answer; what is done for those of commands and forks is `run`'s. */
export const met = (fault: Fault | undefined, run: Effect.Effect<Reply>): Effect.Effect<Reply> => {
  const refused = refusal(fault)
  if (refused !== undefined) return Effect.succeed(refused)
  switch (fault?._tag) {
    case "CommitThenLose":
      return Effect.map(run, (reply): Reply => ({ ...reply, lost: true }))
    case "HangThenCommit":
      return Effect.delay(run, fault.delay)
    case "Malformed":
      return Effect.map(run, (reply): Reply => {
        const body = reply.body
        if (typeof body !== "object" || body === null || Array.isArray(body)) return reply
        return { ...reply, body: Object.fromEntries(Object.entries(body).filter(([key]) => key !== "envdVersion")) }
      })
    default:
      return run
  }
}
