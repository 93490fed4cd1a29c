/**
 * Addresses as the benchmark compares them: by their parts as they are written, with a host that is known by its name
 * alone, whatever its country.
 */
import { parse as parseHost } from "tldts"

interface Parts {
  readonly scheme: string
  readonly host: string
  readonly path: string
  readonly query: string
  readonly fragment: string
}

const schemePattern = /^([a-zA-Z][a-zA-Z0-9+\-.]*):\/\//

/** The text after the first `mark`, and what is left before it. */
const cut = (text: string, mark: string): readonly [string, string] => {
  const at = text.indexOf(mark)
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)]
}

/** No normalisation as browsers do it: tasks hold addresses that nobody has normalised either. */
const split = (url: string): Parts => {
  const clean = url.replace(/[\t\r\n]/g, "").trim()
  const scheme = schemePattern.exec(clean)
  const [beforeFragment, fragment] = cut(scheme === null ? clean : clean.slice(scheme[0].length), "#")
  const [beforeQuery, query] = cut(beforeFragment, "?")
  const slash = beforeQuery.indexOf("/")
  return {
    scheme: scheme?.[1]?.toLowerCase() ?? "http",
    host: slash < 0 ? beforeQuery : beforeQuery.slice(0, slash),
    path: slash < 0 ? "" : beforeQuery.slice(slash),
    query,
    fragment
  }
}

/** Without who logs in, and without the port. */
const hostName = (host: string): string => {
  const name = host.slice(host.lastIndexOf("@") + 1).toLowerCase()
  return /^\[[^\]]*\]/.exec(name)?.[0] ?? name.replace(/:.*$/, "").replace(/\.+$/, "")
}

/** `www.airbnb.co.uk` is `airbnb`, `docs.python.org` is `docs.python`, and what ends in nothing public stays. */
const siteName = (host: string): string => {
  const name = hostName(host)
  if (name.startsWith("[")) return name
  const { domainWithoutSuffix, isIcann, isIp, publicSuffix, subdomain } = parseHost(name, {
    extractHostname: false,
    validateHostname: false
  })
  if (isIp === true) return name
  const site =
    isIcann !== true
      ? name
      : name === publicSuffix
        ? ""
        : [subdomain ?? "", domainWithoutSuffix ?? ""].filter((part) => part !== "").join(".")
  return site.replace(/^www\.(?=[^.]+$)/, "")
}

/**
 * What two addresses of one thing have in common: `http` where no scheme is given, scheme and host in lower case, no
 * lone `www.`, no public suffix, no port, and no path where it is `/`. `http` and `https` are two things.
 */
export const normalise = (url: string): string => {
  const { fragment, host, path, query, scheme } = split(url)
  return JSON.stringify([scheme, siteName(host), path === "/" ? "" : path, query, fragment])
}

export const same = (a: string, b: string): boolean => normalise(a) === normalise(b)

/**
 * Whether every address has its partner. `anyPartner` is how upstream asks: as many on both sides, and each expected one
 * somewhere among the found ones, so that one which is expected twice may be there once.
 */
export const sameLists = (
  expected: ReadonlyArray<string>,
  found: ReadonlyArray<string>,
  { anyPartner }: { readonly anyPartner: boolean }
): boolean => {
  const wanted = expected.map(normalise).sort()
  const have = found.map(normalise).sort()
  return (
    wanted.length === have.length &&
    wanted.every((url, index) => (anyPartner ? have.includes(url) : url === have[index]))
  )
}

/** The address with neither query nor an empty fragment; the rest as it is written. */
export const withoutQuery = (url: string): string => {
  const [beforeFragment, fragment] = cut(url, "#")
  const [rest] = cut(beforeFragment, "?")
  const place = rest.replace(schemePattern, (scheme) => scheme.toLowerCase())
  return fragment === "" ? place : `${place}#${fragment}`
}

/** The values of a query, by name, in the order in which they are given; empty ones don't count. */
export const queryValues = (url: string): ReadonlyMap<string, ReadonlyArray<string>> => {
  const values = new Map<string, Array<string>>()
  for (const [name, value] of new URLSearchParams(split(url).query)) {
    if (value === "") continue
    const list = values.get(name)
    if (list === undefined) values.set(name, [value])
    else list.push(value)
  }
  return values
}

const decode = (url: string): string => {
  try {
    return decodeURIComponent(url)
  } catch {
    // One escape that makes no sense must not hide the others.
    return url.replace(/(?:%[0-9a-fA-F]{2})+/g, (escapes) => Buffer.from(escapes.replaceAll("%", ""), "hex").toString())
  }
}

/** The path, decoded. */
export const decodedPath = (url: string): string => decode(split(url).path)

/** One page whichever way its address is written: decoded, and without a slash at its end. */
export const pageKey = (url: string): string => decode(url).replace(/\/+$/, "")

/** What of an address Chrome shows while nobody edits it: neither `http(s)://` nor `www.`. */
export const shown = (url: string): string => pageKey(url).replace(/^https?:\/\/(?:www\.)?/i, "")

/**
 * The address behind what Chrome's address bar shows. `prefix` is what a task says that Chrome has left out; `literal`
 * puts it in front whatever is shown, as upstream does.
 */
export const fromAddressBar = (text: string, prefix: string, { literal }: { readonly literal: boolean }): string => {
  if (literal) return `${prefix}${text}`
  if (/^[a-zA-Z][a-zA-Z0-9+\-.]*:(?:\/\/|(?!\d))/.test(text)) return text
  return /\bwww\.$/.test(prefix) && /^www\./i.test(text) ? `${prefix}${text.slice(4)}` : `${prefix}${text}`
}
