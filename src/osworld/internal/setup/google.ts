/** Steps that need a Google account: files in its Drive, and logging the desktop's Chrome in. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { Assets } from "../../Assets.js"
import type { TaskContext } from "../../Setup.js"
import { DriveOperation } from "../../SetupStep.js"
import * as DevTools from "../devtools.js"
import * as GoogleAccount from "../googleAccount.js"
import * as GoogleDrive from "../googleDrive.js"
import { broken, fromAsset, type Perform, type Requirements, StepFailed } from "./step.js"

const noAccount = (error: GoogleAccount.NoAccount) => new StepFailed("task", error.message)

/** What was checked when the task was read. */
const read = <A, I>(schema: Schema.Schema<A, I>, args: unknown): Effect.Effect<A, StepFailed> =>
  Effect.mapError(Schema.decodeUnknown(schema)(args), (error) => new StepFailed("task", error.message))

const perform = (
  drive: GoogleDrive.Drive,
  name: keyof typeof DriveOperation,
  args: unknown,
  context: TaskContext
): Effect.Effect<void, StepFailed, Requirements> =>
  Effect.gen(function* () {
    switch (name) {
      case "delete": {
        const { query, trash } = yield* read(DriveOperation.delete, args)
        return yield* Effect.mapError(drive.remove(query, { trash }), broken)
      }
      case "mkdirs": {
        const { path } = yield* read(DriveOperation.mkdirs, args)
        return yield* Effect.mapError(drive.makeFolders(path), broken)
      }
      case "upload": {
        const { path, url } = yield* read(DriveOperation.upload, args)
        const assets = yield* Assets
        const fs = yield* FileSystem.FileSystem
        const local = yield* Effect.mapError(assets.fetch(url, context.taskFile), fromAsset)
        const { size } = yield* Effect.mapError(fs.stat(local), broken)
        const content = { bytes: fs.stream(local), size: Number(size) }
        return yield* Effect.mapError(drive.upload(content, Arr.initNonEmpty(path), Arr.lastNonEmpty(path)), broken)
      }
    }
  })

export const googledrive: Perform<"googledrive"> = ({ args, operation }, context) =>
  Effect.gen(function* () {
    const account = yield* Effect.mapError(GoogleAccount.api, noAccount)
    const drive = yield* Effect.mapError(GoogleDrive.make(account), broken)
    for (const [index, name] of operation.entries()) yield* perform(drive, name, args[index], context)
  }).pipe(Effect.provide(NodeHttpClient.layer))

const email = 'input[type="email"]'
const password = 'input[type="password"]'

const fieldLimit = 15_000

const type = (page: DevTools.Page, what: string, selector: string, text: Redacted.Redacted) =>
  Effect.mapError(
    DevTools.attempt(
      `type the ${what}`,
      async () => {
        const field = page.locator(selector).first()
        await field.waitFor({ state: "visible", timeout: fieldLimit })
        await field.fill(Redacted.value(text))
        await field.press("Enter")
      },
      "30 seconds"
    ),
    // What the browser says of a field may hold what was typed.
    ({ operation }) =>
      new StepFailed("infrastructure", `logging in to Google: could not ${operation}: its page is not the one we know`)
  )

/** Whether the page is the one that was asked for, and no longer the one that asks who is there. */
const isIn = (page: DevTools.Page, url: string): boolean =>
  URL.canParse(page.url()) &&
  new URL(page.url()).host === new URL(url).host &&
  !/\/(signin|login|accounts?)\b/i.test(new URL(page.url()).pathname)

/** How long Google may take to let somebody in. */
const letInLimit = "30 seconds"

export const login: Perform<"login"> = (_, context) =>
  Effect.scoped(
    Effect.gen(function* () {
      const account = yield* Effect.mapError(GoogleAccount.person, noAccount)
      if (!URL.canParse(account.url)) {
        return yield* Effect.fail(new StepFailed("task", `DESKHAND_GOOGLE_DRIVE_URL is no address: ${account.url}`))
      }
      const chrome = yield* Effect.mapError(
        Effect.retry(
          DevTools.connect(context, { revive: false }),
          Schedule.intersect(Schedule.spaced("1 second"), Schedule.recurUpTo("75 seconds"))
        ),
        broken
      )
      const page = yield* Effect.mapError(chrome.open, broken)
      yield* Effect.mapError(DevTools.visit(page, account.url, "60 seconds"), broken)
      const asks = yield* Effect.orElseSucceed(
        DevTools.attempt("look", () => page.locator(email).first().isVisible(), "10 seconds"),
        () => false
      )
      // A desktop's image may hold a session already.
      if (!asks && isIn(page, account.url)) return
      yield* type(page, "e-mail address", email, Redacted.make(account.email))
      yield* type(page, "password", password, account.password)
      yield* Effect.sync(() => isIn(page, account.url)).pipe(
        Effect.filterOrFail(
          (is) => is,
          () =>
            new StepFailed(
              "infrastructure",
              `Google did not let the account in within ${letInLimit}: it may want more than a password`
            )
        ),
        Effect.retry(Schedule.intersect(Schedule.spaced("500 millis"), Schedule.recurUpTo(letInLimit)))
      )
    })
  )
