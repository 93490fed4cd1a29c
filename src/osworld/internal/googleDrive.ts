/**
 * Google Drive through version 2 of its API, whose queries (`title = '...'`) are the ones that tasks hold.
 *
 * Reads and what may happen twice is tried again; what makes a file or a folder is not, unless Google says that it did
 * not.
 */
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Api } from "./googleAccount.js"

/** Google did not do it, or cannot be reached. No secret is in it. */
export class DriveError extends Data.TaggedError("DriveError")<{
  readonly operation: string
  readonly reason: string
  /** Undefined where there was no answer. */
  readonly status: number | undefined
  /** Google's own word for it, such as `userRateLimitExceeded`; undefined where it gave none. */
  readonly code?: string | undefined
}> {
  override get message() {
    return `Google Drive: ${this.operation}: ${this.reason}`
  }
}

export const folderType = "application/vnd.google-apps.folder"

const File = Schema.Struct({ id: Schema.String, title: Schema.String, mimeType: Schema.String })

export type File = typeof File.Type

const Files = Schema.Struct({
  items: Schema.optionalWith(Schema.Array(File), { default: () => [] }),
  nextPageToken: Schema.optionalWith(Schema.NonEmptyString, { exact: true, nullable: true })
})

const Token = Schema.Struct({ access_token: Schema.Redacted(Schema.NonEmptyString) })

const Refusal = Schema.parseJson(
  Schema.Union(
    Schema.Struct({
      error: Schema.Struct({
        message: Schema.String,
        errors: Schema.optionalWith(Schema.Array(Schema.Struct({ reason: Schema.String })), { default: () => [] })
      })
    }),
    Schema.Struct({ error: Schema.String, error_description: Schema.optional(Schema.String) })
  )
)

const callLimit = Duration.seconds(60)
const contentLimit = Duration.minutes(10)

/** A folder of somebody's own account holds fewer. */
const maxPages = 50

const retrySchedule = Schedule.intersect(Schedule.exponential("1 second"), Schedule.recurs(3))

/** Google says that it has done nothing. */
const isRefusedForNow = ({ code, status }: DriveError): boolean =>
  status === 429 || status === 503 || (status === 403 && /rateLimitExceeded$/i.test(code ?? ""))

/** There are no bytes: it is gone, or it is a folder or a document of Google's own. */
export const hasNoContent = ({ code, status }: DriveError): boolean =>
  status === 404 || (status === 403 && code === "fileNotDownloadable")

const isPassing = (error: DriveError): boolean =>
  isRefusedForNow(error) || error.status === undefined || error.status >= 500

const quoted = (text: string): string => `'${text.replace(/[\\']/g, "\\$&")}'`

/** What is in a folder under a name; the folder is `root` or an id. */
export const inFolder = (folder: string, title: string): string =>
  `title = ${quoted(title)} and ${quoted(folder)} in parents and trashed = false`

/** The two queries of a deletion: files go before the folders that they are in. */
export const deletionQueries = (query: string): { readonly files: string; readonly folders: string } => {
  const narrowed = (test: string) => (query.trim() === "" ? test : `( ${query} ) and ${test}`)
  return { files: narrowed(`mimeType != '${folderType}'`), folders: narrowed(`mimeType = '${folderType}'`) }
}

export interface Drive {
  /** What a query finds, in Google's order. */
  readonly list: (query: string) => Effect.Effect<ReadonlyArray<File>, DriveError>
  /** Deletes what the query finds for good, or puts it into the trash. Without a query, everything. */
  readonly remove: (query: string, options: { readonly trash: boolean }) => Effect.Effect<void, DriveError>
  /** Makes the folders of a path that are not there, and gives the id of the last; `root` for no path. */
  readonly makeFolders: (path: ReadonlyArray<string>) => Effect.Effect<string, DriveError>
  /** Puts a new file there, whatever is there by that name, and makes the folders of its path. */
  readonly upload: (
    content: { readonly bytes: Stream.Stream<Uint8Array, unknown>; readonly size: number },
    folders: ReadonlyArray<string>,
    title: string
  ) => Effect.Effect<void, DriveError>
  /** The bytes of a file. */
  readonly content: (id: string) => Stream.Stream<Uint8Array, DriveError>
}

const explained = (text: string): { readonly reason: string; readonly code?: string | undefined } =>
  Option.match(Schema.decodeOption(Refusal)(text), {
    onNone: () => ({
      reason: text
        .replace(/<[^>]*>/g, " ")
        .replace(/\s+/g, " ")
        .trim()
        .slice(0, 300)
    }),
    onSome: (refusal) =>
      typeof refusal.error !== "string"
        ? { reason: refusal.error.message, code: refusal.error.errors[0]?.reason }
        : { reason: `${refusal.error}${"error_description" in refusal ? `: ${refusal.error_description}` : ""}` }
  })

const send = (
  http: HttpClient.HttpClient,
  operation: string,
  request: HttpClientRequest.HttpClientRequest,
  limit: Duration.Duration = callLimit
): Effect.Effect<HttpClientResponse.HttpClientResponse, DriveError> =>
  http.execute(request).pipe(
    Effect.mapError((error) => new DriveError({ operation, reason: error.message, status: undefined })),
    Effect.tap((response) =>
      response.status >= 200 && response.status < 300
        ? Effect.void
        : Effect.flatMap(
            Effect.orElseSucceed(response.text, () => ""),
            (text) => {
              const { code, reason } = explained(text)
              const { status } = response
              return Effect.fail(new DriveError({ operation, reason: `status ${status}: ${reason}`, status, code }))
            }
          )
    ),
    Effect.timeoutFail({
      duration: limit,
      onTimeout: () =>
        new DriveError({ operation, reason: `no answer within ${Duration.format(limit)}`, status: undefined })
    })
  )

const decoded = <A>(
  operation: string,
  value: Effect.Effect<A, HttpClientError.ResponseError | ParseResult.ParseError>
): Effect.Effect<A, DriveError> =>
  Effect.mapError(value, (error) => new DriveError({ operation, reason: error.message, status: 200 }))

const body =
  <A, I>(operation: string, schema: Schema.Schema<A, I>) =>
  (response: HttpClientResponse.HttpClientResponse) =>
    decoded(operation, Effect.flatMap(response.json, Schema.decodeUnknown(schema)))

const accessToken = (http: HttpClient.HttpClient, account: Api): Effect.Effect<Redacted.Redacted, DriveError> =>
  send(
    http,
    "log in",
    HttpClientRequest.bodyUrlParams(HttpClientRequest.post(account.tokenUrl), {
      grant_type: "refresh_token",
      client_id: account.clientId,
      client_secret: Redacted.value(account.clientSecret),
      refresh_token: Redacted.value(account.refreshToken)
    })
  ).pipe(
    Effect.retry({ schedule: retrySchedule, while: isPassing }),
    Effect.flatMap(body("log in", Token)),
    Effect.map((token) => token.access_token)
  )

/** The account's Drive. It is good for an hour, which is how long Google's tokens are. */
export const make = (account: Api): Effect.Effect<Drive, DriveError, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const plain = HttpClient.withTracerPropagation(yield* HttpClient.HttpClient, false)
    const token = yield* accessToken(plain, account)
    const http = HttpClient.mapRequest(plain, HttpClientRequest.bearerToken(token))
    const files = `${account.apiUrl}/drive/v2/files`
    const one = (id: string) => `${files}/${encodeURIComponent(id)}`

    const list: Drive["list"] = (query) =>
      Effect.gen(function* () {
        const found: Array<File> = []
        let pageToken: string | undefined
        for (let page = 0; page < maxPages; page++) {
          const request = HttpClientRequest.setUrlParams(HttpClientRequest.get(files), {
            q: query,
            maxResults: "1000",
            ...(pageToken === undefined ? {} : { pageToken })
          })
          const operation = `list ${query}`
          const { items, nextPageToken } = yield* send(http, operation, request).pipe(
            Effect.retry({ schedule: retrySchedule, while: isPassing }),
            Effect.flatMap(body(operation, Files))
          )
          found.push(...items)
          if (nextPageToken === undefined) return found
          pageToken = nextPageToken
        }
        return yield* new DriveError({
          operation: `list ${query}`,
          reason: `there are more than ${maxPages} pages`,
          status: 200
        })
      })

    const removeOne = ({ id, title }: File, trash: boolean) =>
      send(
        http,
        `${trash ? "trash" : "delete"} ${title}`,
        trash ? HttpClientRequest.post(`${one(id)}/trash`) : HttpClientRequest.del(one(id))
      ).pipe(
        Effect.retry({ schedule: retrySchedule, while: isPassing }),
        Effect.asVoid,
        // It went with the folder that it was in, or with a call whose answer was lost.
        Effect.catchIf(
          ({ status }) => status === 404,
          () => Effect.void
        )
      )

    const makeOne = (title: string, parent: string) =>
      send(
        http,
        `make the folder ${title}`,
        HttpClientRequest.bodyUnsafeJson(HttpClientRequest.post(files), {
          title,
          mimeType: folderType,
          parents: [{ id: parent }]
        })
      ).pipe(
        Effect.retry({ schedule: retrySchedule, while: isRefusedForNow }),
        Effect.flatMap(body(`make the folder ${title}`, File)),
        Effect.map(({ id }) => id)
      )

    const makeFolders: Drive["makeFolders"] = (path) =>
      Effect.reduce(path, "root", (parent, title) =>
        Effect.flatMap(list(`${inFolder(parent, title)} and mimeType = '${folderType}'`), ([known]) =>
          known === undefined ? makeOne(title, parent) : Effect.succeed(known.id)
        )
      )

    return {
      list,
      remove: (query, { trash }) =>
        Effect.gen(function* () {
          const queries = deletionQueries(query)
          // Both are asked for before anything goes, as the query may look at parents.
          const found = [...(yield* list(queries.files)), ...(yield* list(queries.folders))]
          yield* Effect.forEach(found, (file) => removeOne(file, trash), { discard: true })
        }),
      makeFolders,
      upload: ({ bytes, size }, folders, title) =>
        Effect.gen(function* () {
          const operation = `upload ${title}`
          const parent = yield* makeFolders(folders)
          const session = yield* send(
            http,
            operation,
            HttpClientRequest.post(`${account.apiUrl}/upload/drive/v2/files`).pipe(
              HttpClientRequest.setUrlParams({ uploadType: "resumable" }),
              HttpClientRequest.setHeader("x-upload-content-length", String(size)),
              HttpClientRequest.bodyUnsafeJson({ title, parents: [{ id: parent }] })
            )
          ).pipe(Effect.retry({ schedule: retrySchedule, while: isPassing }))
          const place = session.headers.location
          if (place === undefined) {
            return yield* new DriveError({ operation, reason: "Google did not say where to", status: session.status })
          }
          yield* send(
            http,
            operation,
            HttpClientRequest.setBody(
              HttpClientRequest.put(place),
              HttpBody.stream(bytes, "application/octet-stream", size)
            ),
            contentLimit
          )
        }),
      content: (id) =>
        Stream.unwrap(
          Effect.map(
            Effect.retry(send(http, `read ${id}`, HttpClientRequest.get(`${one(id)}?alt=media`)), {
              schedule: retrySchedule,
              while: isPassing
            }),
            (response) =>
              Stream.mapError(
                response.stream,
                (error) => new DriveError({ operation: `read ${id}`, reason: error.message, status: undefined })
              )
          )
        )
    }
  })
