/** Colour differences as eyes see them. */

/** Red, green and blue, 0 to 255. */
export type Rgb = readonly [number, number, number]

/** L*, a*, b*. */
export type Lab = readonly [number, number, number]

/** `RRGGBB`, with or without `#`. */
export const fromHex = (hex: string): Rgb | undefined => {
  const [, red, green, blue] = /^#?([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(hex) ?? []
  return red === undefined || green === undefined || blue === undefined
    ? undefined
    : [Number.parseInt(red, 16), Number.parseInt(green, 16), Number.parseInt(blue, 16)]
}

/** sRGB (IEC 61966-2-1) to CIE L*a*b* under D65 for the 2 degree observer. */
export const toLab = ([red, green, blue]: Rgb): Lab => {
  const linear = (channel: number) => {
    const c = channel / 255
    return c > 0.04045 ? ((c + 0.055) / 1.055) ** 2.4 : c / 12.92
  }
  const [r, g, b] = [linear(red), linear(green), linear(blue)]
  const f = (t: number) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116)
  const x = f((0.412453 * r + 0.35758 * g + 0.180423 * b) / 0.95047)
  const y = f(0.212671 * r + 0.71516 * g + 0.072169 * b)
  const z = f((0.019334 * r + 0.119193 * g + 0.950227 * b) / 1.08883)
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)]
}

const degrees = Math.PI / 180
const hueOf = (b: number, a: number) => (a === 0 && b === 0 ? 0 : (Math.atan2(b, a) / degrees + 360) % 360)

/** CIEDE2000 with all weights 1: CIE 142-2001, in the form of Sharma, Wu and Dalal (2005), whose numbers these are. */
export const ciede2000 = ([l1, a1, b1]: Lab, [l2, a2, b2]: Lab): number => {
  const chroma7 = ((Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2) ** 7
  const g = 0.5 * (1 - Math.sqrt(chroma7 / (chroma7 + 25 ** 7)))
  const [p1, p2] = [(1 + g) * a1, (1 + g) * a2]
  const [c1, c2] = [Math.hypot(p1, b1), Math.hypot(p2, b2)]
  const [h1, h2] = [hueOf(b1, p1), hueOf(b2, p2)]

  const grey = c1 * c2 === 0
  const apart = h2 - h1
  const dh = grey ? 0 : apart > 180 ? apart - 360 : apart < -180 ? apart + 360 : apart
  const dH = 2 * Math.sqrt(c1 * c2) * Math.sin((dh / 2) * degrees)
  const sum = h1 + h2
  const h = grey ? sum : Math.abs(apart) <= 180 ? sum / 2 : sum < 360 ? (sum + 360) / 2 : (sum - 360) / 2

  const l = (l1 + l2) / 2
  const c = (c1 + c2) / 2
  const t =
    1 -
    0.17 * Math.cos((h - 30) * degrees) +
    0.24 * Math.cos(2 * h * degrees) +
    0.32 * Math.cos((3 * h + 6) * degrees) -
    0.2 * Math.cos((4 * h - 63) * degrees)
  const sl = 1 + (0.015 * (l - 50) ** 2) / Math.sqrt(20 + (l - 50) ** 2)
  const sc = 1 + 0.045 * c
  const sh = 1 + 0.015 * c * t
  const rc = 2 * Math.sqrt(c ** 7 / (c ** 7 + 25 ** 7))
  const rt = -Math.sin(60 * Math.exp(-(((h - 275) / 25) ** 2)) * degrees) * rc
  const [x, y, z] = [(l2 - l1) / sl, (c2 - c1) / sc, dH / sh]
  return Math.sqrt(x * x + y * y + z * z + rt * y * z)
}
