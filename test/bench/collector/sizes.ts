/** What a simulated step is, for all processes of the collector's bench. */

/** A screenshot, in bytes. */
export const screenshotBytes = 300_000

/** A whole step: the model's part of it, then the desktop's. */
export const stepMilliseconds = 10_000

export const modelMilliseconds = 9_000

/** Steps of an episode. */
export const steps = 15

/** Episodes start evenly over so long, so that they don't walk in step. */
export const rampMilliseconds = 10_000

/** What a driver says about its run, as a line of JSON on its standard output. */
export interface Measured {
  /** Steps that were measured: those after the ramp. */
  readonly steps: number
  /** Milliseconds of a step beyond what is simulated. */
  readonly median: number
  readonly p90: number
  /** Milliseconds of both cores that a step took of the driver. */
  readonly cpu: number
  /** Resident memory in MB, at the end of each minute. */
  readonly memory: ReadonlyArray<number>
}

/** Measures a driver from the end of the ramp on. */
export const measure = (minutes: number) => {
  // It ends with whoever started it.
  process.on("disconnect", () => process.exit(1))
  const overheads: Array<number> = []
  const memory: Array<number> = []
  let cpu = process.cpuUsage()
  let measuring = false
  setTimeout(() => {
    measuring = true
    cpu = process.cpuUsage()
  }, 1.5 * rampMilliseconds).unref()
  const timer = setInterval(() => void memory.push(process.memoryUsage.rss() / 1e6), 60_000)
  return {
    /** A step ended that took so long. */
    step: (milliseconds: number) => {
      if (measuring) overheads.push(milliseconds - stepMilliseconds)
    },
    after: new Promise<Measured>((resolve) => {
      setTimeout(
        () => {
          clearInterval(timer)
          const { system, user } = process.cpuUsage(cpu)
          if (memory.length < minutes) memory.push(process.memoryUsage.rss() / 1e6)
          overheads.sort((a, b) => a - b)
          const at = (part: number) => overheads[Math.floor(part * overheads.length)] ?? Number.NaN
          resolve({
            steps: overheads.length,
            median: at(0.5),
            p90: at(0.9),
            cpu: (user + system) / 1000 / overheads.length,
            memory
          })
        },
        minutes * 60_000 + 100
      )
    })
  }
}
