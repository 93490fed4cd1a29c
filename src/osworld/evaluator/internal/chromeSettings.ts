/** What Chrome's settings files say, as upstream's getters answer it. Keys that are not there mean Chrome's default. */
import * as Json from "./json.js"

/** The value at a path of keys; undefined where there is none. */
export const at = (json: unknown, ...path: ReadonlyArray<string>): unknown =>
  path.reduce<unknown>(
    (value, key) => (Json.isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined),
    json
  )

const textOr = (value: unknown, fallback: string): string => (typeof value === "string" ? value : fallback)

const yesNo = (condition: boolean): string => (condition ? "true" : "false")

export const searchEngine = (preferences: unknown): string =>
  textOr(at(preferences, "default_search_provider_data", "template_url_data", "short_name"), "Google")

export const profileName = (preferences: unknown): unknown => at(preferences, "profile", "name") ?? null

export const language = (localState: unknown): string => textOr(at(localState, "intl", "app_locale"), "en-US")

export const experiments = (localState: unknown): unknown => at(localState, "browser", "enabled_labs_experiments") ?? []

/** Chrome writes only the sizes that somebody changed. */
export const fontSizes = (preferences: unknown): Record<string, unknown> => {
  const changed = at(preferences, "webkit", "webprefs")
  return { default_fixed_font_size: 13, default_font_size: 16, ...(Json.isObject(changed) ? changed : {}) }
}

export const doNotTrack = (preferences: unknown): string => yesNo(at(preferences, "enable_do_not_track") === true)

export const enhancedSafeBrowsing = (preferences: unknown): string =>
  yesNo(at(preferences, "safebrowsing", "enhanced") === true)

export const safeBrowsing = (preferences: unknown): string =>
  yesNo(at(preferences, "safebrowsing", "enhanced") === true || at(preferences, "safebrowsing", "enabled") === true)

/** 5 is "open the New Tab page", which a Chrome that nobody asked does too. */
export const startsWithNewTab = (preferences: unknown): string =>
  yesNo(at(preferences, "session") === undefined || at(preferences, "session", "restore_on_startup") === 5)

/**
 * Whether what sites save goes when Chrome closes: 4 is "for this session". Upstream asks whether any such setting is
 * there, and a Chrome of today has one that nobody chose.
 */
export const deletesData = (preferences: unknown, { compat }: { readonly compat: boolean }): string => {
  const chosen = at(preferences, "profile", "default_content_setting_values") ?? null
  return yesNo(compat ? chosen !== null : at(chosen, "cookies") === 4)
}

const schemes: Record<string, string> = {
  "0": "system",
  "1": "light",
  "2": "dark",
  default: "system",
  device: "system"
}

/** What a setting of the colour scheme means, whichever way it is written. */
export const schemeOf = (value: unknown): string | undefined => {
  if (typeof value !== "number" && typeof value !== "string") return undefined
  const text = String(value).trim().toLowerCase()
  return ["system", "light", "dark"].includes(text) ? text : schemes[text]
}

/**
 * The colour scheme. Upstream takes every Chrome that does not follow GTK's theme for a light one, a dark one too, and
 * so do we where nothing else is said.
 */
export const colorScheme = (preferences: unknown, { compat }: { readonly compat: boolean }): string => {
  const theme = at(preferences, "browser", "theme")
  const chosen = schemeOf(at(theme, "color_scheme2") ?? at(theme, "color_scheme"))
  const system = at(preferences, "extensions", "theme", "system_theme")
  const classic = system === 0 || system === "0" || system === false
  if (classic && (compat || chosen === undefined)) return "light"
  return chosen ?? "system"
}

/** An installed extension: where it lies, and its name where Chrome wrote it down. */
export interface Extension {
  readonly path: string | undefined
  readonly name: string | undefined
}

/** Chrome keeps them in one of two files, whichever it is for. */
export const extensions = (...files: ReadonlyArray<unknown>): ReadonlyArray<Extension> => {
  const byId = new Map<string, Extension>()
  for (const file of files) {
    const settings = at(file, "extensions", "settings")
    if (!Json.isObject(settings)) continue
    for (const [id, one] of Object.entries(settings)) {
      const path = at(one, "path")
      const name = at(one, "manifest", "name")
      const known = byId.get(id)
      byId.set(id, {
        path: typeof path === "string" ? path : known?.path,
        name: typeof name === "string" ? name : known?.name
      })
    }
  }
  return [...byId.values()]
}

const messagePattern = /^__MSG_(\w+)__$/

/** The key of the message that an extension's name stands for; undefined where it is its name. */
export const messageKey = (name: string): string | undefined => messagePattern.exec(name)?.[1]

/** A message of an extension's own language; keys are in any case. */
export const message = (messages: unknown, key: string): string | undefined => {
  if (!Json.isObject(messages)) return undefined
  const found = Object.keys(messages).find((each) => each.toLowerCase() === key.toLowerCase())
  const text = found === undefined ? undefined : at(messages, found, "message")
  return typeof text === "string" ? text : undefined
}
