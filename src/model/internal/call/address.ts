/** Where a request goes. */
export interface Address {
  /** Without credentials. */
  readonly url: URL
  /** The header for credentials that the address held. */
  readonly authorization?: string
}

/**
 * A base address with a path added before its query: some services want a version there. `undefined` where it is no
 * address of the web.
 */
export const addressOf = (base: string, path: string): Address | undefined => {
  if (!URL.canParse(base)) return undefined
  const url = new URL(base)
  if (url.protocol !== "http:" && url.protocol !== "https:") return undefined
  url.pathname = `${url.pathname.replace(/\/+$/, "")}${path}`
  url.hash = ""
  const { password, username } = url
  url.username = ""
  url.password = ""
  return username === "" && password === ""
    ? { url }
    : { url, authorization: `Basic ${Buffer.from(`${decode(username)}:${decode(password)}`).toString("base64")}` }
}

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
