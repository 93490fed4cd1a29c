/** Ids and digests of an exact trace, made as the published ones are. */
import { createHash } from "node:crypto"
import type { Sampling } from "../../../model/Sampling.js"
import { canonical } from "./json.js"

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex")

/** The id of a picture as a part of a prompt: of the part itself, with the picture in it. */
export const mediaId = (part: {
  readonly type: "input_image"
  readonly image_url: string
  readonly detail?: string
}): string => `media-${sha256(canonical(part)).slice(0, 24)}`

/** The SHA-256 of the canonical JSON of a value whose numbers are integers. */
export const digest = (value: unknown): string => sha256(canonical(value))

/** A float as Python's `repr` prints it: the hashed texts were written by it. */
export const pythonFloat = (value: number): string => {
  if (Number.isInteger(value) && Math.abs(value) < 1e16) return `${Object.is(value, -0) ? "-0" : value}.0`
  const size = Math.abs(value)
  if (size >= 1e-4 && size < 1e16) return String(value)
  const [digits = "", exponent = "0"] = value.toExponential().split("e")
  const sign = exponent.startsWith("-") ? "-" : "+"
  return `${digits}e${sign}${exponent.replace(/^[+-]/, "").padStart(2, "0")}`
}

const float = (value: number | undefined): string => (value === undefined ? "null" : pythonFloat(value))

/** The id of the values that a model sampled with, as they were asked for; a value that was not is null. */
export const samplingContractId = ({ maxTokens, temperature, topP }: Sampling): string => {
  const parts = `[{"max_output_tokens":${maxTokens ?? null},"temperature":${float(temperature)},"top_p":${float(topP)}}]`
  return `sampling-contract-${sha256(parts).slice(0, 24)}`
}
