/**
 * Which of several addresses of one model a rollout talks to: always the same one, so that its prompt stays in one cache,
 * unless that one is down.
 *
 * @since 0.1.0
 */
import { createHash } from "node:crypto"

/**
 * Addresses and what is known of them, as plain data.
 *
 * @since 0.1.0
 * @category models
 */
export interface Endpoints {
  /** Base addresses in the config's order, which decides who goes where. */
  readonly urls: readonly [string, ...Array<string>]
  /** Those that failed, and when each may be tried again: milliseconds of the same clock as `now`. */
  readonly down: ReadonlyMap<string, number>
  /** How long an address that failed is left alone, in milliseconds. */
  readonly probeAfter: number
}

/**
 * All up. An address that fails is tried again after 30 seconds unless said otherwise.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (urls: Endpoints["urls"], options: { readonly probeAfter?: number } = {}): Endpoints => ({
  urls,
  down: new Map(),
  probeAfter: options.probeAfter ?? 30_000
})

/** The first 8 bytes of a SHA-256, big-endian. */
const hash = (text: string): bigint => createHash("sha256").update(text).digest().readBigUInt64BE(0)

/**
 * The index, below `count`, that a key belongs to: the first 8 bytes of the SHA-256 of its UTF-8, big-endian, modulo
 * `count`. The field's rule, so that its servers and ours agree on it.
 *
 * @since 0.1.0
 * @category decisions
 */
export const affinity = (key: string, count: number): number => Number(hash(key) % BigInt(count))

/**
 * Whether an address is in use at `now`, in milliseconds: it never failed, or its time out is over.
 *
 * @since 0.1.0
 * @category decisions
 */
export const isUp = (state: Endpoints, url: string, now: number): boolean => {
  const until = state.down.get(url)
  return until === undefined || until <= now
}

/**
 * The address for a key (a rollout's id): its own while that is up or due for another try. Else the first that is up in
 * an order of the key's own, so that the load of one spreads over all others and nobody else moves. When all are down,
 * its own again.
 *
 * @since 0.1.0
 * @category decisions
 */
export const choose = (state: Endpoints, key: string, now: number): string => {
  const home = state.urls[affinity(key, state.urls.length)] ?? state.urls[0]
  if (isUp(state, home, now)) return home
  const [best] = state.urls
    .filter((url) => isUp(state, url, now))
    .map((url) => ({ url, rank: hash(JSON.stringify([key, url])) }))
    .sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : 0))
  return best?.url ?? home
}

/**
 * After a call that found an address out of reach: refused, broken off, or 502, 503 or 504.
 *
 * @since 0.1.0
 * @category transitions
 */
export const markDown = (state: Endpoints, url: string, now: number): Endpoints =>
  state.urls.includes(url) ? { ...state, down: new Map(state.down).set(url, now + state.probeAfter) } : state

/**
 * After a call that an address answered, whatever it answered.
 *
 * @since 0.1.0
 * @category transitions
 */
export const markUp = (state: Endpoints, url: string): Endpoints =>
  state.down.has(url) ? { ...state, down: new Map(Array.from(state.down).filter(([other]) => other !== url)) } : state
