import { setFlagsFromString } from "node:v8"

/** By how many per cent of what is alive the heap grows until the next large collection. */
const growingPercent = 60

/**
 * Keeps the heap near what is alive. Node lets it grow to twice that and more before it collects, and what thousands of
 * episodes leave behind at each step would stay as long: a third of the memory, for a tenth of the CPU. Read at each
 * collection, so it holds whenever it is set; a Node that knows no such flag says so on standard error and goes on.
 */
export const boundHeap = (): void => setFlagsFromString(`--heap-growing-percent=${growingPercent}`)
