/** What our programs tell V8, the engine that runs them, beyond its defaults. */
import { getHeapStatistics, setFlagsFromString } from "node:v8"

/** How much a function has run, in bytes of its bytecode, when V8 compiles it for speed: nearly four times its default. */
const interruptBudget = 250_000

/** By how many per cent of what is alive a large heap grows until the next large collection. */
const growingPercent = 60

const largeHeapBytes = 128 * 1024 * 1024
const watchMillis = 5_000

/**
 * - Functions are compiled for speed when they have run nearly four times as much as usual. A first evaluation makes
 *   some eighty warm at once, and on two cores the compiler then takes from the collector what the program waits for: the
 *   first deck of 1 MB takes a quarter less time so.
 * - Once the heap is large it stays near what is alive, and whole. Node lets it grow to twice that and more before it
 *   collects, and leaves holes that get more with each collection: an episode keeps a little of each step among much that
 *   it does not keep. With 2,048 episodes this takes a third of the memory away, and some CPU, for a pause of 0.2 s every
 *   half minute. A small heap would be collected over and over while it reads its first file.
 *
 * All of them are read whenever they matter, so they hold whenever they are set; a Node that knows no such flag says so on
 * standard error and goes on.
 */
export const tuneEngine = (): void => {
  setFlagsFromString(`--interrupt-budget=${interruptBudget}`)
  const watch = setInterval(() => {
    if (getHeapStatistics().total_heap_size < largeHeapBytes) return
    clearInterval(watch)
    setFlagsFromString(`--heap-growing-percent=${growingPercent}`)
    setFlagsFromString("--compact-on-every-full-gc")
  }, watchMillis)
  watch.unref()
}
