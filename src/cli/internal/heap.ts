import { setFlagsFromString } from "node:v8"

/** By how many per cent of what is alive the heap grows until the next large collection. */
const growingPercent = 60

/**
 * Keeps the heap near what is alive, and whole. Node lets it grow to twice that and more before it collects, and leaves
 * holes that get more with each collection: an episode keeps a little of each step among much that it does not keep. With
 * 2,048 episodes this takes a third of the memory away, and some CPU, for a pause of 0.2 s every half minute.
 *
 * Both are read at each collection, so they hold whenever they are set; a Node that knows no such flag says so on standard
 * error and goes on.
 */
export const boundHeap = (): void => {
  setFlagsFromString(`--heap-growing-percent=${growingPercent}`)
  setFlagsFromString("--compact-on-every-full-gc")
}
