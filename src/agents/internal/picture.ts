/** A picture as its pixels. */

/** Three bytes a pixel, row by row. */
export interface Picture {
  readonly width: number
  readonly height: number
  readonly rgb: Uint8Array
}

export const pixels = async (bytes: Uint8Array): Promise<Picture> => {
  // Loaded when the first picture comes: an agent that sends screenshots as they are never wants it.
  const { default: sharp } = await import("sharp")
  const { data, info } = await sharp(bytes)
    .removeAlpha()
    .toColourspace("srgb")
    .raw()
    .toBuffer({ resolveWithObject: true })
  return { width: info.width, height: info.height, rgb: data }
}

/** Whether all pixels of a box, as far as it lies in the picture, are the same; so is a box outside of it. */
export const isPlain = (
  { height, rgb, width }: Picture,
  box: { readonly x: number; readonly y: number; readonly width: number; readonly height: number }
): boolean => {
  const left = Math.max(0, box.x)
  const top = Math.max(0, box.y)
  const right = Math.min(width, box.x + box.width)
  const bottom = Math.min(height, box.y + box.height)
  const first = (top * width + left) * 3
  for (let y = top; y < bottom; y++) {
    for (let at = (y * width + left) * 3; at < (y * width + right) * 3; at += 3) {
      if (rgb[at] !== rgb[first] || rgb[at + 1] !== rgb[first + 1] || rgb[at + 2] !== rgb[first + 2]) return false
    }
  }
  return true
}
