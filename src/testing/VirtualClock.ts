/**
 * A clock that goes on by itself, as fast as the program lets it: hours of a run in the seconds that its work takes.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Scheduler from "effect/Scheduler"

interface Sleeper {
  /** Milliseconds. */
  readonly at: number
  readonly order: number
  /** Absent once it is awake, or waits no more; it would keep a whole program in memory until its moment. */
  resume: ((effect: Effect.Effect<void>) => void) | undefined
}

const before = (a: Sleeper, b: Sleeper) => a.at < b.at || (a.at === b.at && a.order < b.order)

/** A binary heap: who wakes first is at the top. */
class Sleepers {
  private readonly heap: Array<Sleeper> = []

  get first(): Sleeper | undefined {
    return this.heap[0]
  }

  add(sleeper: Sleeper): void {
    let at = this.heap.push(sleeper) - 1
    while (at > 0) {
      const up = (at - 1) >> 1
      const parent = this.heap[up]
      if (parent === undefined || before(parent, sleeper)) break
      this.heap[at] = parent
      at = up
    }
    this.heap[at] = sleeper
  }

  removeFirst(): void {
    const last = this.heap.pop()
    if (last === undefined || this.heap.length === 0) return
    let at = 0
    for (;;) {
      const left = this.heap[2 * at + 1]
      const right = this.heap[2 * at + 2]
      const child = right !== undefined && left !== undefined && before(right, left) ? right : left
      if (child === undefined || before(last, child)) break
      this.heap[at] = child
      at = child === left ? 2 * at + 1 : 2 * at + 2
    }
    this.heap[at] = last
  }
}

/**
 * Whether a file is being read or written: its answer is work of the program that is still to come. `Timeout`s and
 * sockets that only wait are none.
 */
const filesBusy = (): boolean => process.getActiveResourcesInfo().some((resource) => resource.startsWith("FSReq"))

/**
 * Runs a program in virtual time, from 0: whenever nothing is left to do but to wait, whoever waits for the earliest moment
 * is woken at that moment. Files are real, and no time passes while they are read and written; sockets and processes
 * are not waited for.
 *
 * @since 0.1.0
 * @category running
 */
export const run = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    let now = 0
    let order = 0
    let tasks = 0
    let pumping = false
    const sleepers = new Sleepers()
    const inner = new Scheduler.MixedScheduler(2048)
    const scheduler: Scheduler.Scheduler = {
      shouldYield: (fiber) => inner.shouldYield(fiber),
      scheduleTask: (task, priority, fiber) => {
        tasks += 1
        inner.scheduleTask(
          () => {
            tasks -= 1
            task()
          },
          priority,
          fiber
        )
      }
    }
    const pump = () => {
      while (sleepers.first !== undefined && sleepers.first.resume === undefined) sleepers.removeFirst()
      const { first } = sleepers
      if (first?.resume === undefined) {
        pumping = false
        return
      }
      if (tasks === 0 && !filesBusy()) {
        now = first.at
        sleepers.removeFirst()
        const { resume } = first
        first.resume = undefined
        resume(Effect.void)
      }
      setImmediate(pump)
    }
    const millis = () => Math.floor(now)
    const nanos = () => BigInt(Math.round(now * 1_000_000))
    const clock: Clock.Clock = {
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: millis,
      unsafeCurrentTimeNanos: nanos,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanos: Effect.sync(nanos),
      sleep: (duration) =>
        Effect.async((resume) => {
          const sleeper: Sleeper = { at: now + Duration.toMillis(duration), order: order++, resume }
          sleepers.add(sleeper)
          if (!pumping) {
            pumping = true
            setImmediate(pump)
          }
          return Effect.sync(() => {
            sleeper.resume = undefined
          })
        })
    }
    return program.pipe(Effect.withClock(clock), Effect.withScheduler(scheduler))
  })
