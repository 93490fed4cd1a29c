/**
 * Packs rows into bins of a fixed number of tokens, and lays a bin's rows end to end.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { concatenative, firstFit, modifiedFirstFitDecreasing } from "./internal/packers.js"

/**
 * - `concatenative`: in order; a new bin where a row does not fit
 * - `first_fit_decreasing`: the longest first, each into the first bin that has room; of rows of the same length the later
 *   one comes first
 * - `first_fit_shuffle`: in random order, each into the first bin that has room
 * - `modified_first_fit_decreasing`: rows by their share of a bin, after Johnson and Garey, "A 71/60 theorem for bin
 *   packing", 1985; what is left over goes to the bin that is filled the least
 *
 * @since 0.1.0
 * @category models
 */
export const Packer = Schema.Literal(
  "concatenative",
  "first_fit_decreasing",
  "first_fit_shuffle",
  "modified_first_fit_decreasing"
)

/**
 * @since 0.1.0
 * @category models
 */
export type Packer = typeof Packer.Type

/**
 * How to pack.
 *
 * @since 0.1.0
 * @category models
 */
export interface PackOptions {
  readonly packer: Packer
  /** Tokens of a bin. */
  readonly capacity: number
  /** At least so many bins; 0 when absent. */
  readonly minBins?: number
  /** A multiple of so many bins: one each for every replica; 1 when absent. */
  readonly binMultiple?: number
  /** Numbers from 0 up to, and not including, 1, for `first_fit_shuffle`, which cannot do without. */
  readonly random?: () => number
}

/**
 * Rows that cannot be packed.
 *
 * @since 0.1.0
 * @category errors
 */
export class PackingError extends Schema.TaggedError<PackingError>("deskhand/training/PackingError")("PackingError", {
  reason: Schema.Literal("options", "length", "capacity", "too_few"),
  detail: Schema.String,
  /** Index of the row. */
  row: Schema.optionalWith(Schema.Number, { exact: true })
}) {
  override get message() {
    return `${this.row === undefined ? "packing" : `row ${this.row}`}: ${this.detail}`
  }
}

const refuse = (reason: PackingError["reason"], detail: string, row?: number) =>
  Either.left(new PackingError({ reason, detail, ...(row === undefined ? {} : { row }) }))

const isCount = (value: number, least: number): boolean => Number.isSafeInteger(value) && value >= least

const checkLengths = (lengths: ReadonlyArray<number>, capacity: number): Either.Either<void, PackingError> => {
  if (!isCount(capacity, 1)) return refuse("options", `a bin of ${capacity} tokens is none`)
  for (const [row, length] of lengths.entries()) {
    if (!isCount(length, 1)) return refuse("length", `${length} is no number of tokens`, row)
    if (length > capacity) return refuse("capacity", `it has ${length} tokens, and a bin holds ${capacity}`, row)
  }
  return Either.right(undefined)
}

/** Fisher and Yates. */
const shuffled = (count: number, random: () => number): Int32Array => {
  const order = Int32Array.from({ length: count }, (_, index) => index)
  for (let at = count - 1; at > 0; at--) {
    const other = Math.min(at, Math.floor(random() * (at + 1)))
    const held = order[at] ?? 0
    order[at] = order[other] ?? 0
    order[other] = held
  }
  return order
}

const packed = (
  lengths: ReadonlyArray<number>,
  { capacity, packer, random }: PackOptions
): Either.Either<Array<Array<number>>, PackingError> => {
  switch (packer) {
    case "concatenative":
      return Either.right(concatenative(lengths, capacity))
    case "first_fit_decreasing": {
      const order = Int32Array.from(lengths.keys()).sort((a, b) => (lengths[b] ?? 0) - (lengths[a] ?? 0) || b - a)
      return Either.right(firstFit(lengths, order, capacity))
    }
    case "first_fit_shuffle":
      return random === undefined
        ? refuse("options", "first_fit_shuffle needs random numbers")
        : Either.right(firstFit(lengths, shuffled(lengths.length, random), capacity))
    case "modified_first_fit_decreasing":
      return Either.right(modifiedFirstFitDecreasing(lengths, capacity))
  }
}

/**
 * More bins, each of one row, the last of the bins that hold the most rows; of bins that hold as many, the later one gives
 * first. A bin gives until one row is left.
 */
const spread = (
  bins: Array<Array<number>>,
  rows: number,
  minBins: number,
  multiple: number
): Either.Either<Array<Array<number>>, PackingError> => {
  const wanted = Math.ceil(Math.max(bins.length, minBins) / multiple) * multiple
  if (wanted === bins.length) return Either.right(bins)
  if (rows < wanted) return refuse("too_few", `${wanted} bins are asked for, and there are ${rows} rows`)
  const order = bins
    .map((bin, index) => ({ bin, index }))
    .sort((a, b) => b.bin.length - a.bin.length || b.index - a.index)
  let giver = 0
  while (bins.length < wanted) {
    const from = order[giver]?.bin
    if (from === undefined) break
    const row = from.length > 1 ? from.pop() : undefined
    if (row === undefined) giver++
    else bins.push([row])
  }
  return Either.right(bins)
}

/**
 * Bins of indices into `lengths`: every row is in one bin, no bin holds more than its capacity, and none is empty. Takes
 * `O(n log n)` time.
 *
 * Fails for a length that is no whole number above 0, one that no bin holds, and when there are fewer rows than bins asked
 * for.
 *
 * @since 0.1.0
 * @category operations
 */
export const pack = (
  lengths: ReadonlyArray<number>,
  options: PackOptions
): Either.Either<ReadonlyArray<ReadonlyArray<number>>, PackingError> =>
  Either.gen(function* () {
    const { binMultiple = 1, capacity, minBins = 0 } = options
    if (!isCount(minBins, 0)) return yield* refuse("options", `${minBins} is no number of bins`)
    if (!isCount(binMultiple, 1)) return yield* refuse("options", `bins cannot be a multiple of ${binMultiple}`)
    yield* checkLengths(lengths, capacity)
    const bins = yield* packed(lengths, options)
    return yield* spread(bins, lengths.length, minBins, binMultiple)
  })

// -----------------------------------------------------------------------------
// Layout
// -----------------------------------------------------------------------------

/**
 * Where a bin's rows lie. Both lists begin with 0 and have one more entry than there are rows.
 *
 * @since 0.1.0
 * @category models
 */
export interface PackedLayout {
  /** `[rows]`: tokens of each row with its padding. */
  readonly padded: Int32Array
  /** Ends of the rows, without padding between them. */
  readonly cuSeqlens: Int32Array
  /** Ends of the rows as they lie. */
  readonly cuSeqlensPadded: Int32Array
  /** Tokens of the bin. */
  readonly total: number
}

/**
 * What each row's length must be a multiple of: context parallelism gives every replica two pieces of a row, and tensor
 * parallelism cuts each of them again.
 *
 * @since 0.1.0
 * @category layout
 */
export const rowMultiple = (contextParallel: number, tensorParallel: number): number =>
  contextParallel * 2 * tensorParallel

/**
 * Rows one after the other, each filled up to a multiple of `rowMultiple`, and the last of them so far that the whole is a
 * multiple of `totalMultiple`.
 *
 * @since 0.1.0
 * @category layout
 */
export const layout = (
  lengths: ReadonlyArray<number>,
  options: { readonly rowMultiple: number; readonly totalMultiple?: number }
): Either.Either<PackedLayout, PackingError> => {
  const { rowMultiple, totalMultiple = 1 } = options
  if (!isCount(rowMultiple, 1) || !isCount(totalMultiple, 1)) {
    return refuse("options", `lengths cannot be multiples of ${rowMultiple} and ${totalMultiple}`)
  }
  const count = lengths.length
  const padded = new Int32Array(count)
  const cuSeqlens = new Int32Array(count + 1)
  const cuSeqlensPadded = new Int32Array(count + 1)
  let total = 0
  for (const [row, length] of lengths.entries()) {
    if (!isCount(length, 1)) return refuse("length", `${length} is no number of tokens`, row)
    padded[row] = Math.ceil(length / rowMultiple) * rowMultiple
    total += padded[row] ?? 0
    cuSeqlens[row + 1] = (cuSeqlens[row] ?? 0) + length
    cuSeqlensPadded[row + 1] = total
  }
  const missing = Math.ceil(total / totalMultiple) * totalMultiple - total
  if (count > 0) {
    padded[count - 1] = (padded[count - 1] ?? 0) + missing
    cuSeqlensPadded[count] = total + missing
  }
  return Either.right({ padded, cuSeqlens, cuSeqlensPadded, total: total + missing })
}

/**
 * One value for each token of the bin, `[total]`, from the values of its rows: masks of pictures, for instance. Where rows
 * are padded it is 0.
 *
 * Fails when a row has more values than places.
 *
 * @since 0.1.0
 * @category layout
 */
export const lay = (
  rows: ReadonlyArray<ArrayLike<number>>,
  { cuSeqlensPadded, padded, total }: PackedLayout
): Either.Either<Int32Array, PackingError> => {
  if (rows.length !== padded.length) {
    return refuse("options", `${rows.length} rows don't fit a layout of ${padded.length}`)
  }
  const values = new Int32Array(total)
  for (const [row, given] of rows.entries()) {
    const places = padded[row] ?? 0
    if (given.length > places) return refuse("length", `${given.length} values have ${places} places`, row)
    values.set(given, cuSeqlensPadded[row])
  }
  return Either.right(values)
}
