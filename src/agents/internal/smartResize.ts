/** The size that Qwen's vision models give every picture before they look at it. */
import type { Size } from "../Protocol.js"
import { roundHalfEven } from "./projection.js"

/** `factor` is the side of the squares that a model sees, in pixels; the limits are pixels of a whole picture. */
export interface Resizing {
  readonly factor: number
  readonly minPixels: number
  readonly maxPixels: number
}

/**
 * Both sides become multiples of the factor, the area falls within the limits, and the shape stays as near as that
 * allows: the published `smart_resize`, which refuses shapes of more than 200 to 1; here they come out like any other.
 */
export const smartResize = ({ height, width }: Size, { factor, maxPixels, minPixels }: Resizing): Size => {
  const sides = (side: (pixels: number) => number): Size => ({
    width: Math.max(factor, side(width) * factor),
    height: Math.max(factor, side(height) * factor)
  })
  const nearest = sides((pixels) => roundHalfEven(pixels / factor))
  const area = nearest.width * nearest.height
  if (area > maxPixels) {
    const by = Math.sqrt((height * width) / maxPixels)
    return sides((pixels) => Math.floor(pixels / by / factor))
  }
  if (area < minPixels) {
    const by = Math.sqrt(minPixels / (height * width))
    return sides((pixels) => Math.ceil((pixels * by) / factor))
  }
  return nearest
}
