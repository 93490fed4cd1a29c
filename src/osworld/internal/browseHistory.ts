/** A History database of Chrome's, written from nothing. */
import * as Effect from "effect/Effect"

export interface Visit {
  readonly url: string
  readonly title: string
  /** Milliseconds since 1970. */
  readonly at: number
}

/** Chrome counts microseconds from 1601-01-01, which are more than a double holds exactly. */
export const chromeTime = (milliseconds: number): bigint =>
  (BigInt(Math.round(milliseconds)) + 11_644_473_600_000n) * 1000n

/** A link that somebody followed (0), the first (0x10000000) and the last (0x20000000) of its redirects. */
const transition = 0x30000000

/**
 * The layout of version 42, from 2020. Chrome brings an older database up to its own version, and makes the tables that
 * are not there; a newer one it might refuse.
 */
const schema = `
CREATE TABLE meta(key LONGVARCHAR NOT NULL UNIQUE PRIMARY KEY, value LONGVARCHAR);
INSERT INTO meta VALUES ('mmap_status', '-1'), ('version', '42'), ('last_compatible_version', '16');
CREATE TABLE urls(id INTEGER PRIMARY KEY AUTOINCREMENT, url LONGVARCHAR, title LONGVARCHAR,
  visit_count INTEGER DEFAULT 0 NOT NULL, typed_count INTEGER DEFAULT 0 NOT NULL, last_visit_time INTEGER NOT NULL,
  hidden INTEGER DEFAULT 0 NOT NULL);
CREATE INDEX urls_url_index ON urls (url);
CREATE TABLE visits(id INTEGER PRIMARY KEY, url INTEGER NOT NULL, visit_time INTEGER NOT NULL, from_visit INTEGER,
  transition INTEGER DEFAULT 0 NOT NULL, segment_id INTEGER, visit_duration INTEGER DEFAULT 0 NOT NULL,
  incremented_omnibox_typed_score BOOLEAN DEFAULT FALSE NOT NULL);
CREATE INDEX visits_url_index ON visits (url);
CREATE INDEX visits_from_index ON visits (from_visit);
CREATE INDEX visits_time_index ON visits (visit_time);
`

interface Page {
  readonly url: string
  readonly title: string
  readonly last: bigint
  /** In Chrome's time. */
  readonly times: ReadonlyArray<bigint>
}

/** Each address once, with all its visits and the title of the last of them. */
export const pages = (visits: ReadonlyArray<Visit>): ReadonlyArray<Page> => {
  const found = new Map<string, { readonly latest: Visit; readonly times: ReadonlyArray<bigint> }>()
  for (const visit of visits) {
    const known = found.get(visit.url)
    found.set(visit.url, {
      latest: known === undefined || visit.at >= known.latest.at ? visit : known.latest,
      times: [...(known?.times ?? []), chromeTime(visit.at)]
    })
  }
  return Array.from(found, ([url, { latest, times }]) => ({
    url,
    title: latest.title,
    last: chromeTime(latest.at),
    times
  }))
}

/** The bytes of a database with these visits and nothing else. */
export const make = (visits: ReadonlyArray<Visit>): Effect.Effect<Uint8Array> =>
  Effect.promise(async () => {
    const { default: initSqlJs } = await import("sql.js")
    const { Database } = await initSqlJs()
    const database = new Database()
    try {
      database.run(schema)
      for (const [index, { last, times, title, url }] of pages(visits).entries()) {
        const id = index + 1
        // Times are bound as text: a number would lose their last digit.
        database.run(
          "INSERT INTO urls (id, url, title, visit_count, last_visit_time) VALUES (?, ?, ?, ?, CAST(? AS INTEGER))",
          [id, url, title, times.length, String(last)]
        )
        for (const time of times) {
          database.run("INSERT INTO visits (url, visit_time, transition) VALUES (?, CAST(? AS INTEGER), ?)", [
            id,
            String(time),
            transition
          ])
        }
      }
      return database.export()
    } finally {
      database.close()
    }
  })
