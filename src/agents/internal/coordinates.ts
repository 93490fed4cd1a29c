/** Points that models name in a space of their own, as pixels of the screen. */
import type { Size } from "../Protocol.js"

/** Pixels of the screen, from its upper left corner. */
export interface Point {
  readonly x: number
  readonly y: number
}

const along = (value: number, extent: number, pixels: number): number | undefined =>
  // One past the end is how some models count the last one.
  value >= 0 && value <= extent + 1 ? Math.min(pixels - 1, Math.floor((value * pixels) / extent)) : undefined

/**
 * The pixel under a point of a space whose far corner is `space`: 1000 by 1000 for thousandths, the size of the picture
 * for its pixels. `undefined` for a point outside of the space: no pixel is meant by it.
 */
export const toScreen = (x: number, y: number, space: Size, screen: Size): Point | undefined => {
  const left = along(x, space.width, screen.width)
  const top = along(y, space.height, screen.height)
  return left === undefined || top === undefined ? undefined : { x: left, y: top }
}
