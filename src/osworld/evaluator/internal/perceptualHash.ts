/** The perceptual hash of a picture: which of its 64 lowest frequencies are stronger than the median one. */
import { lightness, type Raster } from "./raster.js"
import { lanczos, resizePlane } from "./resample.js"

/** The side of the square that is transformed, four times that of the hash. */
export const side = 32
const low = 8

/** cos(pi (2n + 1) k / 2N): the rows of the type II cosine transform that the hash keeps. */
const cosines = Array.from({ length: low }, (_, k) =>
  Float64Array.from({ length: side }, (_, n) => Math.cos((Math.PI * (2 * n + 1) * k) / (2 * side)))
)

/** The hash of a picture that is `side` pixels wide and high already: 64 bits, rows of frequencies from the lowest. */
export const ofSquare = (pixels: Uint8Array): ReadonlyArray<boolean> => {
  const frequencies: Array<number> = []
  const across = cosines.map((cosine) =>
    Float64Array.from({ length: side }, (_, y) => {
      let sum = 0
      for (let x = 0; x < side; x++) sum += (pixels[y * side + x] ?? 0) * (cosine[x] ?? 0)
      return 2 * sum
    })
  )
  for (const cosine of cosines) {
    for (const column of across) {
      let sum = 0
      for (let y = 0; y < side; y++) sum += (column[y] ?? 0) * (cosine[y] ?? 0)
      // Of a flat picture only noise would be left, and the hash would be that of the noise.
      frequencies.push(Math.round(2e6 * sum) / 1e6)
    }
  }
  const sorted = frequencies.toSorted((a, b) => a - b)
  const half = sorted.length / 2
  const median = ((sorted[half - 1] ?? 0) + (sorted[half] ?? 0)) / 2
  return frequencies.map((frequency) => frequency > median)
}

/** In how many bits two hashes differ. */
export const distance = (a: ReadonlyArray<boolean>, b: ReadonlyArray<boolean>): number =>
  a.reduce((count, bit, index) => count + (bit === b[index] ? 0 : 1), 0)

export const ofRaster = (raster: Raster): ReadonlyArray<boolean> =>
  ofSquare(resizePlane(lightness(raster), raster, { width: side, height: side }, lanczos))
