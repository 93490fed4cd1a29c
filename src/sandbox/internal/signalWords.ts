/** Signals as services written in Go name them: `signal: killed`. */

const numbers: Readonly<Record<string, number>> = {
  hangup: 1,
  interrupt: 2,
  quit: 3,
  "illegal instruction": 4,
  aborted: 6,
  "floating point exception": 8,
  killed: 9,
  "segmentation fault": 11,
  "broken pipe": 13,
  "alarm clock": 14,
  terminated: 15
}

/** The exit code that a shell gives for it: 128 and its POSIX number. */
export const exitCodeOf = (words: string): number | undefined => {
  const number = Object.hasOwn(numbers, words) ? numbers[words] : undefined
  return number === undefined ? undefined : 128 + number
}
