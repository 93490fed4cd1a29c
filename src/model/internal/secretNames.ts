/** Which names hold secrets, by the words in them: `OPENAI_API_KEY` does, `max_output_tokens` and `monkey` do not. */

const words = (list: string): ReadonlySet<string> => new Set(list.split(/\s+/))

/** A name with one of these holds a secret, unless its last word says that it only points at one. */
const strong = /(?:passw(?:or)?d|passphrase|secret|credential|authorization|cookie)s?$/

/** One word to whoever wrote it. */
const grown = /(?:api|access|secret|private|signing|auth)keys?$|(?:auth|access|refresh|session|bearer|api|id)tokens?$/

const pointers = words(
  "attempts count enabled env expires expiry file format length manager name names path policy prefix region required ttl type"
)

/** What may stand after the word that matters: `api_key_value`, `token_header`. */
const fillers = words("base64 b64 base bytes data header hex plain raw string text value")

/** `cache_key` unlocks nothing. */
const plainKeys = words(
  `affinity alt any arrow attempt bucket by cache capture composite config ctrl dedupe dict document down each enter
  entity escape event feature foreign function group hash host hot idempotency index item json label lookup map meta
  metric modifier natural object parent partition per press primary prompt public range rollout routing row run shard
  shift sort state storage sub surrogate tab tag task translation unique up`
)

/** `eos_token` is a word of a model. */
const plainTokens = words(
  `accepted added audio begin bos by cached cls completion context continuation draft end eos first generated image input
  last mask max min new next num output pad page per prev previous prompt reasoning rejected sampled sep special
  speculative start stop sync target think thinking time to tool top total unk video vision`
)

/** Many keys or tokens are secrets only when they are said to be of these. */
const guarded = words(
  `access api auth bearer bot csrf deploy encryption github gitlab hf jwt oauth openai personal private refresh
  registration secret security service session signing ssh xsrf`
)

const passOwners = words(
  "admin cert database db ftp http key login mongo mysql pg postgres proxy redis root smtp ssh sudo user"
)

const spoken = (parts: ReadonlyArray<string>): ReadonlyArray<string> => {
  const said = parts.map((part) => part.toLowerCase().replace(/\d+$/, "")).filter((part) => part !== "")
  let end = said.length
  while (end > 1 && fillers.has(said[end - 1] ?? "")) end -= 1
  return said.slice(0, end)
}

const isSecret = (said: ReadonlyArray<string>): boolean => {
  const last = said.at(-1) ?? ""
  const before = said.at(-2)
  if (pointers.has(last)) return false
  if (said.some((word) => strong.test(word)) || grown.test(last)) return true
  switch (last) {
    case "key":
      return before === undefined || !plainKeys.has(before)
    case "token":
      return before === undefined || !plainTokens.has(before)
    case "keys":
    case "tokens":
      return before !== undefined && guarded.has(before)
    case "pass":
      return before !== undefined && passOwners.has(before)
    case "pwd":
      return before !== undefined
    case "auth":
    case "bearer":
    case "jwt":
    case "pat":
      return true
    default:
      return false
  }
}

/** Words are cut at dashes, underscores and the like, and where small letters turn to capitals, in case that is meant. */
export const isSecretName = (name: string): boolean => {
  const parts = name.split(/[^A-Za-z0-9]+/)
  if (isSecret(spoken(parts))) return true
  const humps = parts.flatMap((part) =>
    part
      .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
      .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
      .split(" ")
  )
  return humps.length !== parts.length && isSecret(spoken(humps))
}

/** Names in an address's query that sign it. */
const signatures = words("sig signature code")

/** As `isSecretName`, for the query and the fragment of an address. */
export const isSecretParameter = (name: string): boolean => {
  const parts = name.toLowerCase().split(/[^a-z0-9]+/)
  return isSecretName(name) || signatures.has(parts.at(-1) ?? "")
}
