/**
 * Mel-frequency cepstral coefficients as librosa computes them by default, then scaled so that each coefficient's greatest
 * magnitude over time is 1.
 */
import * as Effect from "effect/Effect"

/** Samples a second. */
export const sampleRate = 22_050
const frameLength = 2048
const hop = 512
const bands = 128
/** How many coefficients a frame has. */
export const coefficients = 20
const bins = frameLength / 2 + 1
/** Below the loudest, in decibels, all is equally quiet. */
const range = 80

/** Slaney's scale: linear to 1000 Hz, logarithmic above. */
const melOf = (hertz: number): number =>
  hertz < 1000 ? (hertz * 3) / 200 : 15 + Math.log(hertz / 1000) / (Math.log(6.4) / 27)
const hertzOf = (mel: number): number =>
  mel < 15 ? (mel * 200) / 3 : 1000 * Math.exp((Math.log(6.4) / 27) * (mel - 15))

interface Band {
  readonly first: number
  readonly weights: Float64Array
}

/** Overlapping triangles of equal area. */
const filters: ReadonlyArray<Band> = (() => {
  const top = melOf(sampleRate / 2)
  const edges = Array.from({ length: bands + 2 }, (_, i) => hertzOf((top * i) / (bands + 1)))
  return Array.from({ length: bands }, (_, band) => {
    const [low = 0, peak = 0, high = 0] = edges.slice(band, band + 3)
    const weightAt = (bin: number) => {
      const hertz = (bin * sampleRate) / frameLength
      return (Math.max(0, Math.min((hertz - low) / (peak - low), (high - hertz) / (high - peak))) * 2) / (high - low)
    }
    const first = Math.ceil((low * frameLength) / sampleRate)
    const last = Math.min(bins - 1, Math.floor((high * frameLength) / sampleRate))
    return {
      first,
      weights: Float64Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => weightAt(first + i))
    }
  })
})()

/** A whole period of Hann's window is one sample longer. */
const hann = Float64Array.from({ length: frameLength }, (_, n) => 0.5 - 0.5 * Math.cos((2 * Math.PI * n) / frameLength))

const cosines = Array.from({ length: coefficients }, (_, k) =>
  Float64Array.from(
    { length: bands },
    (_, n) => Math.sqrt((k === 0 ? 1 : 2) / bands) * Math.cos((Math.PI * (2 * n + 1) * k) / (2 * bands))
  )
)

const turns = Float64Array.from({ length: frameLength / 2 }, (_, k) => Math.cos((2 * Math.PI * k) / frameLength))
const sineTurns = Float64Array.from({ length: frameLength / 2 }, (_, k) => -Math.sin((2 * Math.PI * k) / frameLength))
const levels = Math.log2(frameLength)
const reversed = Uint32Array.from({ length: frameLength }, (_, i) => {
  let bits = 0
  for (let level = 0; level < levels; level++) bits |= ((i >> level) & 1) << (levels - 1 - level)
  return bits
})

/** The discrete Fourier transform, in place, of samples in the order of `reversed`. */
const transform = (real: Float64Array, imaginary: Float64Array): void => {
  for (let half = 1; half < frameLength; half *= 2) {
    const stride = frameLength / (2 * half)
    for (let start = 0; start < frameLength; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const c = turns[k * stride] ?? 0
        const s = sineTurns[k * stride] ?? 0
        const low = start + k
        const high = low + half
        const [lowReal, lowImaginary] = [real[low] ?? 0, imaginary[low] ?? 0]
        const [highReal, highImaginary] = [real[high] ?? 0, imaginary[high] ?? 0]
        const turnedReal = highReal * c - highImaginary * s
        const turnedImaginary = highReal * s + highImaginary * c
        real[low] = lowReal + turnedReal
        imaginary[low] = lowImaginary + turnedImaginary
        real[high] = lowReal - turnedReal
        imaginary[high] = lowImaginary - turnedImaginary
      }
    }
  }
}

/** Other rollouts get their turn after so many frames. */
const batch = 200

/** One row of `coefficients` numbers for each frame, one after the other. Samples are mono, in [-1, 1]. */
export const mfcc = (samples: Float32Array): Effect.Effect<Float64Array> =>
  Effect.gen(function* () {
    const frames = 1 + Math.floor(samples.length / hop)
    const loudness = new Float32Array(frames * bands)
    const real = new Float64Array(frameLength)
    const imaginary = new Float64Array(frameLength)
    const power = new Float64Array(bins)
    let loudest = Number.NEGATIVE_INFINITY
    for (let frame = 0; frame < frames; frame++) {
      if (frame % batch === batch - 1) yield* Effect.yieldNow()
      // The first frame's middle is the first sample; silence lies before it and after the last.
      const start = frame * hop - frameLength / 2
      for (let i = 0; i < frameLength; i++) {
        const from = reversed[i] ?? 0
        real[i] = (samples[start + from] ?? 0) * (hann[from] ?? 0)
        imaginary[i] = 0
      }
      transform(real, imaginary)
      for (let bin = 0; bin < bins; bin++) power[bin] = (real[bin] ?? 0) ** 2 + (imaginary[bin] ?? 0) ** 2
      for (const [band, { first, weights }] of filters.entries()) {
        let sum = 0
        for (let i = 0; i < weights.length; i++) sum += (power[first + i] ?? 0) * (weights[i] ?? 0)
        const decibels = 10 * Math.log10(Math.max(1e-10, sum))
        if (decibels > loudest) loudest = decibels
        loudness[frame * bands + band] = decibels
      }
    }
    const quietest = loudest - range
    const rows = new Float64Array(frames * coefficients)
    const greatest = new Float64Array(coefficients)
    for (let frame = 0; frame < frames; frame++) {
      if (frame % batch === batch - 1) yield* Effect.yieldNow()
      for (const [k, cosine] of cosines.entries()) {
        let sum = 0
        for (let band = 0; band < bands; band++) {
          sum += Math.max(quietest, loudness[frame * bands + band] ?? 0) * (cosine[band] ?? 0)
        }
        rows[frame * coefficients + k] = sum
        if (Math.abs(sum) > (greatest[k] ?? 0)) greatest[k] = Math.abs(sum)
      }
    }
    return rows.map((value, i) => {
      const scale = greatest[i % coefficients] ?? 0
      return scale < 1e-12 ? value : value / scale
    })
  })
