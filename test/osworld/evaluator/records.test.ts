import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Records from "../../../src/osworld/evaluator/records.js"
import { file, fixture, json, judge, missing, written } from "./support.js"

describe("check_csv", () => {
  // Task dfac9ee8: the account is gone. The tool writes each field in quotes.
  const rules = { unexpect: [{ url: "imap://outlook.office365.com", user: "anonym-x2024@outlook.com" }] }
  const header = '"url","user","password"\n'
  const account = '"imap://outlook.office365.com","anonym-x2024@outlook.com","a ""quoted"", one"\n'
  const other = '"smtp://outlook.office365.com","anonym-x2024@outlook.com","x"\n'

  it.effect("finds records by some of their columns", () =>
    Effect.gen(function* () {
      const at = yield* written({
        there: header + account + other,
        gone: header + other,
        empty: "",
        short: `${header}"imap://outlook.office365.com"\n`,
        dos: `\ufeff${header}\n${account}`.replaceAll("\n", "\r\n"),
        open: `${header}"never ends\n`
      })
      const check = (name: string, expected: unknown) => judge(Records.checkCsv, file(at(name)), json(expected))
      assert.strictEqual(yield* check("there", rules), 0)
      assert.strictEqual(yield* check("gone", rules), 1)
      assert.strictEqual(yield* check("empty", rules), 1)
      assert.strictEqual(yield* check("short", rules), 1)
      assert.strictEqual(yield* check("dos", rules), 0)
      const expect = { expect: [{ password: 'a "quoted", one' }, { url: "smtp://outlook.office365.com" }] }
      assert.strictEqual(yield* check("there", expect), 1)
      assert.strictEqual(yield* check("gone", expect), 0)
      assert.strictEqual(yield* check("there", { expect: [{ email: "x" }] }), 0)
      assert.strictEqual(yield* check("open", rules), 0)
      assert.strictEqual(yield* judge(Records.checkCsv, missing, json(rules)), 0)
      assert.include(yield* check("there", { expect: [{ url: 1 }] }), "cannot decide")
    }).pipe(Effect.scoped)
  )
})

describe("run_sqlite3", () => {
  // Task dd84e895: all messages of folder 13 have the star, attribute 58.
  const sql =
    "SELECT COALESCE((SELECT COUNT(*) FROM messageAttributes WHERE attributeID = 58 AND value = 1 AND messageID IN " +
    "(SELECT id FROM messages WHERE folderID = 13)), 0) = (SELECT COUNT(*) FROM messages WHERE folderID = 13);"
  const run = (name: string, query = sql) => judge(Records.runSqlite3, file(fixture(name)), json({ sql: query }))

  it.effect("is the first column of the first row", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* run("mail/starred.sqlite"), 1)
      assert.strictEqual(yield* run("mail/half.sqlite"), 0)
      assert.strictEqual(yield* run("mail/half.sqlite", "SELECT 0.5"), 0.5)
      assert.strictEqual(yield* run("mail/half.sqlite", "SELECT id FROM messages WHERE id = 99"), 0)
      assert.strictEqual(yield* run("mail/half.sqlite", "SELECT NULL"), 0)
      assert.include(yield* run("mail/half.sqlite", "SELECT COUNT(*) FROM messages"), "outside [0, 1]")
      assert.include(yield* run("mail/half.sqlite", "SELECT 'many'"), "the query answers")
    })
  )

  it.effect("a file that is none, or has no such table, is the agent's; a query that is none is not", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* judge(Records.runSqlite3, missing, json({ sql })), 0)
      assert.strictEqual(yield* run("mail/prefs.js"), 0)
      assert.strictEqual(yield* run("mail/Empty"), 0)
      assert.strictEqual(yield* run("mail/half.sqlite", "SELECT 1 FROM somewhere"), 0)
      // Its `messages` is a view that never ends.
      assert.strictEqual(yield* run("mail/endless.sqlite"), 0)
      assert.include(yield* run("mail/half.sqlite", "SELEKT 1"), "syntax error")
      assert.include(yield* judge(Records.runSqlite3, file(fixture("mail/half.sqlite")), json({})), "cannot decide")
    })
  )
})
