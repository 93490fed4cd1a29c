/** Where an asset is asked for: its own address, mirrors before it, and who is shown the token. */
import * as Redacted from "effect/Redacted"

export interface SourceOptions {
  /** For Hugging Face alone, and for its endpoint. */
  readonly token?: Redacted.Redacted | undefined
  /** What stands for `https://huggingface.co`, as Hugging Face's own tools have it in `HF_ENDPOINT`. */
  readonly endpoint?: string | undefined
  /** Addresses that begin with `from` are asked for at `to` first. */
  readonly mirrors?: ReadonlyArray<Mirror> | undefined
}

export interface Mirror {
  readonly from: string
  readonly to: string
}

export interface Source {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

export const hub = "https://huggingface.co"

const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : "")

const withoutSlash = (url: string) => url.replace(/\/+$/, "")

/** A prefix ends where a part of the address ends: `https://a.b/c` is none of `https://a.b/cd`. */
const replaced = (url: string, { from, to }: Mirror): string | undefined => {
  const prefix = withoutSlash(from)
  const rest = url.slice(prefix.length)
  return url.startsWith(prefix) && /^(?:[/?#]|$)/.test(rest) ? `${withoutSlash(to)}${rest}` : undefined
}

/** In the order in which they are tried: mirrors, the endpoint, and the address itself. */
export const sourcesOf = (url: string, { endpoint, mirrors = [], token }: SourceOptions): ReadonlyArray<Source> => {
  const trusted = new Set([hub, ...(endpoint === undefined ? [] : [originOf(endpoint)])])
  const all = [...mirrors, ...(endpoint === undefined ? [] : [{ from: hub, to: endpoint }])]
  const urls = [...all.flatMap((mirror) => replaced(url, mirror) ?? []), url]
  return Array.from(new Set(urls), (one) => ({
    url: one,
    headers:
      token !== undefined && trusted.has(originOf(one)) ? { authorization: `Bearer ${Redacted.value(token)}` } : {}
  }))
}

/** `FROM=TO,FROM=TO`, both addresses. */
export const parseMirrors = (text: string): ReadonlyArray<Mirror> | undefined => {
  const mirrors: Array<Mirror> = []
  for (const part of text.split(",")) {
    if (part.trim() === "") continue
    const [, from, to] = /^(https?:\/\/\S+?)=(https?:\/\/\S+)$/i.exec(part.trim()) ?? []
    if (from === undefined || to === undefined) return undefined
    mirrors.push({ from, to })
  }
  return mirrors
}

/** The headers that go with a redirect: a secret is for the one that it was sent to. */
export const redirected = (source: Source, location: string): Source | undefined => {
  if (!URL.canParse(location, source.url)) return undefined
  const url = new URL(location, source.url)
  if (!/^https?:$/.test(url.protocol)) return undefined
  const { authorization, ...rest } = source.headers
  const same = url.origin === originOf(source.url)
  return { url: url.href, headers: same && authorization !== undefined ? { ...rest, authorization } : rest }
}

/** An address as manifests and messages show it: what signs it stays out. */
export const bare = (url: string): string => {
  if (!URL.canParse(url)) return url
  const { host, pathname, protocol } = new URL(url)
  return `${protocol}//${host}${pathname}`
}
