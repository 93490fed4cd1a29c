/** Resizing as Pillow does it, to the last bit: libvips shrinks in two steps and rounds elsewhere, which scores would show. */
import type { Raster } from "./raster.js"

export interface Filter {
  /** How far the kernel reaches, in pixels of the smaller picture. */
  readonly support: number
  readonly at: (x: number) => number
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI))

export const lanczos: Filter = { support: 3, at: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) }

/** Keys's cubic with a = -1/2. */
export const bicubic: Filter = {
  support: 2,
  at: (signed) => {
    const x = Math.abs(signed)
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0
  }
}

interface Tap {
  readonly first: number
  /** Fixed point: 22 bits behind the point. */
  readonly weights: Int32Array
}

const bits = 22

const tapsOf = (from: number, to: number, filter: Filter): ReadonlyArray<Tap> => {
  const scale = from / to
  const stretch = Math.max(scale, 1)
  const support = filter.support * stretch
  return Array.from({ length: to }, (_, index) => {
    const centre = (index + 0.5) * scale
    const first = Math.max(0, Math.trunc(centre - support + 0.5))
    const end = Math.min(from, Math.trunc(centre + support + 0.5))
    const exact = Array.from({ length: end - first }, (_, i) => filter.at((first + i - centre + 0.5) / stretch))
    const sum = exact.reduce((total, weight) => total + weight, 0)
    const fixed = exact.map((weight) => (sum === 0 ? weight : weight / sum) * (1 << bits))
    return { first, weights: Int32Array.from(fixed, (weight) => Math.trunc(weight < 0 ? weight - 0.5 : weight + 0.5)) }
  })
}

/** Lines of `from` samples become lines of as many as there are taps; `step` is what lies between samples of a line. */
const pass = (
  source: Uint8Array,
  target: Uint8Array,
  taps: ReadonlyArray<Tap>,
  lines: number,
  layout: {
    readonly sourceLine: number
    readonly targetLine: number
    readonly sourceStep: number
    readonly targetStep: number
  }
): void => {
  for (const [index, { first, weights }] of taps.entries()) {
    for (let line = 0; line < lines; line++) {
      let sum = 1 << (bits - 1)
      let at = line * layout.sourceLine + first * layout.sourceStep
      for (let i = 0; i < weights.length; i++, at += layout.sourceStep) sum += (source[at] ?? 0) * (weights[i] ?? 0)
      target[line * layout.targetLine + index * layout.targetStep] = Math.max(0, Math.min(255, sum >> bits))
    }
  }
}

export interface Size {
  readonly width: number
  readonly height: number
}

/** One channel in another size. */
export const resizePlane = (plane: Uint8Array, from: Size, to: Size, filter: Filter): Uint8Array => {
  let wide = plane
  if (to.width !== from.width) {
    wide = new Uint8Array(to.width * from.height)
    const layout = { sourceLine: from.width, targetLine: to.width, sourceStep: 1, targetStep: 1 }
    pass(plane, wide, tapsOf(from.width, to.width, filter), from.height, layout)
  }
  if (to.height === from.height) return wide
  const resized = new Uint8Array(to.width * to.height)
  const layout = { sourceLine: 1, targetLine: 1, sourceStep: to.width, targetStep: to.width }
  pass(wide, resized, tapsOf(from.height, to.height, filter), to.width, layout)
  return resized
}

const premultiply = (colour: Uint8Array, alpha: Uint8Array): Uint8Array =>
  colour.map((sample, i) => {
    const product = sample * (alpha[i] ?? 0) + 128
    return ((product >> 8) + product) >> 8
  })

const unmultiply = (colour: Uint8Array, alpha: Uint8Array): Uint8Array =>
  colour.map((sample, i) => {
    const opacity = alpha[i] ?? 0
    return opacity === 0 || opacity === 255 ? sample : Math.min(255, Math.trunc((255 * sample) / opacity))
  })

/** A picture in another size. What is transparent lends no colour to its neighbours. */
export const resize = (raster: Raster, to: Size, filter: Filter): Raster => {
  if (raster.width === to.width && raster.height === to.height) return raster
  const { alpha } = raster
  const plane = (samples: Uint8Array) => resizePlane(samples, raster, to, filter)
  const small = alpha === undefined ? undefined : plane(alpha)
  const colour = (samples: Uint8Array) =>
    alpha === undefined || small === undefined ? plane(samples) : unmultiply(plane(premultiply(samples, alpha)), small)
  const [red, green, blue] = raster.colours
  return { ...to, colours: [colour(red), colour(green), colour(blue)], alpha: small, palette: raster.palette }
}
