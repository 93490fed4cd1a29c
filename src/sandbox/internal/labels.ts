/**
 * The labels of a sandbox: how its metadata travels, and who owns it. Pure.
 */
import type { Selector } from "../SandboxProvider.js"
import { labels } from "./driver.js"

/** All labels of one create. */
export const encode = (options: {
  readonly attemptKey: string
  readonly deployment: string
  readonly owner: string
  readonly metadata: Readonly<Record<string, string>>
}): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(
    Object.entries(options.metadata).map(([key, value]) => [`${labels.metadataPrefix}${key}`, value])
  ),
  [labels.managed]: "1",
  [labels.attempt]: options.attemptKey,
  [labels.deployment]: options.deployment,
  [labels.owner]: options.owner
})

/** The metadata that the labels carry. */
export const metadata = (found: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(found).flatMap(([key, value]) =>
      key.startsWith(labels.metadataPrefix) ? [[key.slice(labels.metadataPrefix.length), value]] : []
    )
  )

/** What a sandbox of this deployment with this metadata is known by. */
export const selector = (deployment: string, wanted: Selector): Selector => ({
  ...Object.fromEntries(Object.entries(wanted).map(([key, value]) => [`${labels.metadataPrefix}${key}`, value])),
  [labels.managed]: "1",
  [labels.deployment]: deployment
})

/** Whether the labels have every entry of the selector. A service that filters loosely is not believed. */
export const match = (wanted: Selector, found: Readonly<Record<string, string>>): boolean =>
  Object.entries(wanted).every(([key, value]) => Object.hasOwn(found, key) && found[key] === value)
