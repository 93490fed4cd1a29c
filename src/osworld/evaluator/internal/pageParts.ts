/** What tasks read off an open page, by categories: classes, labels, XPath, inputs, and classes with the address. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as DevTools from "../../internal/devtools.js"
import { ownTexts } from "./html.js"

const Names = Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.String }), {
  default: () => ({}),
  nullable: true
})

/** By class: which one of its elements, from 0, goes by which name. */
const RanksByClass = Schema.Record({
  key: Schema.String,
  value: Schema.Record({ key: Schema.String.pipe(Schema.pattern(/^-?\d+$/)), value: Schema.String })
})

const Ranks = Schema.optionalWith(RanksByClass, { default: () => ({}), nullable: true })

const Lists = Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Array(Schema.String) }), {
  default: () => ({}),
  nullable: true
})

export const Parts = Schema.Union(
  Schema.Struct({
    category: Schema.Literal("class"),
    class_singleObject: Names,
    class_multiObject: Ranks,
    class_multiObject_child: Ranks,
    class_multiObject_only_child: Ranks,
    class_multiObject_search_exist: Lists
  }),
  Schema.Struct({ category: Schema.Literal("label"), labelObject: Names }),
  Schema.Struct({ category: Schema.Literal("xpath"), xpathObject: Names }),
  Schema.Struct({ category: Schema.Literal("input"), inputObject: Names }),
  Schema.Struct({
    category: Schema.Literal("class&url"),
    class_multiObject: Lists,
    class_multiObject_li: Lists,
    url_include_expected: Schema.optionalWith(Schema.Array(Schema.String), { default: () => [], nullable: true }),
    url_include_expected_multichoice: Names
  })
)

export type Parts = typeof Parts.Type

type Found = Record<string, string | boolean>

type Reading<A> = Effect.Effect<A, DevTools.DevToolsError>

const limit = "20 seconds"

/** More elements of one class than this are not looked at. */
const maxElements = 2000

/** A page may go on to another while it is read; then it is read once more. */
const read = <A>(what: string, run: () => Promise<A>): Reading<A> =>
  Effect.retry(DevTools.attempt(`read ${what}`, run, limit), {
    times: 1,
    while: ({ reason }) => /context was destroyed|navigat/i.test(reason)
  })

const byClass = (name: string): string => `.${name}`

/** The texts of all that match, trimmed. */
const texts = (page: DevTools.Page, selector: string): Reading<ReadonlyArray<string>> =>
  Effect.map(
    read(selector, () => page.locator(selector).allTextContents()),
    (all) => all.slice(0, maxElements).map((text) => text.trim())
  )

/** The texts that lie in the first match itself, and not in what it holds. */
const textsOfFirst = (page: DevTools.Page, selector: string): Reading<ReadonlyArray<string>> =>
  read(selector, async () => {
    const first = page.locator(selector).first()
    return (await first.count()) === 0 ? [] : ownTexts(await first.innerHTML())
  })

/** Of each match the first `inner` in it; matches without one are left out. */
const innerTexts = (page: DevTools.Page, selector: string, inner: string, visible: boolean) =>
  read(selector, async () => {
    const found: Array<string> = []
    const all = await page.locator(selector).all()
    for (const each of all.slice(0, maxElements)) {
      const first = each.locator(inner).first()
      if ((await first.count()) === 0) continue
      const said = visible ? await first.allInnerTexts() : await first.allTextContents()
      found.push((said[0] ?? "").trim())
    }
    return found
  })

/** What the first match says, or has as its value; empty where there is none. */
const firstOf = (page: DevTools.Page, selector: string, input: boolean): Reading<string> =>
  read(selector, async () => {
    const first = page.locator(selector).first()
    if ((await first.count()) === 0) return ""
    return (input ? await first.inputValue() : ((await first.textContent()) ?? "")).trim()
  }).pipe(
    Effect.catchIf(
      ({ reason }) => input && /not an? <?(?:input|HTMLInputElement)/i.test(reason),
      () => Effect.succeed("")
    )
  )

const ranked = (
  found: Found,
  ranks: typeof RanksByClass.Type,
  look: (selector: string) => Reading<ReadonlyArray<string>>
): Reading<void> =>
  Effect.forEach(
    Object.entries(ranks),
    ([name, keys]) =>
      Effect.map(look(byClass(name)), (all) => {
        for (const [rank, key] of Object.entries(keys)) found[key] = all.at(Number(rank)) ?? ""
      }),
    { discard: true }
  )

const otherExists = "is_other_exist"

const classes = (page: DevTools.Page, parts: Extract<Parts, { readonly category: "class" }>): Reading<Found> =>
  Effect.gen(function* () {
    const found: Found = {}
    yield* ranked(found, parts.class_multiObject, (selector) => texts(page, selector))
    yield* ranked(found, parts.class_multiObject_child, (selector) => textsOfFirst(page, selector))
    yield* ranked(found, parts.class_multiObject_only_child, (selector) => innerTexts(page, selector, "h3", false))
    for (const [name, wanted] of Object.entries(parts.class_multiObject_search_exist)) {
      const all = yield* texts(page, byClass(name))
      for (const each of wanted) if (each !== otherExists) found[each] = all.includes(each)
      if (wanted.includes(otherExists)) {
        found[otherExists] = found[otherExists] === true || all.some((each) => !wanted.includes(each))
      }
    }
    for (const [name, key] of Object.entries(parts.class_singleObject)) {
      found[key] = (yield* texts(page, byClass(name)))[0] ?? ""
    }
    return found
  })

const named = (
  page: DevTools.Page,
  names: Readonly<Record<string, string>>,
  engine: "text" | "xpath",
  input: boolean
): Reading<Found> =>
  Effect.map(
    Effect.forEach(Object.entries(names), ([place, key]) =>
      Effect.map(firstOf(page, `${engine}=${place}`, input), (text) => [key, text] as const)
    ),
    Object.fromEntries
  )

/** True where a wanted text is there, in any case; and whether there is one that no wanted text holds. */
const chosen = (found: Found, wanted: ReadonlyArray<string>, all: ReadonlyArray<string>): void => {
  const lower = all.map((each) => each.toLowerCase())
  for (const each of wanted) if (lower.includes(each.toLowerCase())) found[each.toLowerCase()] = true
  const others = lower.some((each) => !wanted.some((one) => one.toLowerCase().includes(each)))
  found[otherExists] = found[otherExists] === true || others
}

const classesAndUrl = (
  page: DevTools.Page,
  parts: Extract<Parts, { readonly category: "class&url" }>
): Reading<Found> =>
  Effect.gen(function* () {
    const found: Found = {}
    for (const [name, wanted] of Object.entries(parts.class_multiObject)) {
      chosen(found, wanted, yield* texts(page, byClass(name)))
    }
    for (const [name, wanted] of Object.entries(parts.class_multiObject_li)) {
      chosen(found, wanted, yield* innerTexts(page, `${byClass(name)} li.catAllProducts`, "span", true))
    }
    const url = page.url().toLowerCase()
    const wanted = [
      ...parts.url_include_expected.map((part) => [part, part] as const),
      ...Object.entries(parts.url_include_expected_multichoice)
    ]
    for (const [part, key] of wanted) found[key.toLowerCase()] ??= url.includes(part.toLowerCase())
    return found
  })

/** What a page says, by the names that the task gives. What is not there is empty or false. */
export const from = (page: DevTools.Page, parts: Parts): Reading<Found> => {
  switch (parts.category) {
    case "class":
      return classes(page, parts)
    case "label":
      return named(page, parts.labelObject, "text", false)
    case "xpath":
      return named(page, parts.xpathObject, "xpath", false)
    case "input":
      return named(page, parts.inputObject, "xpath", true)
    case "class&url":
      return classesAndUrl(page, parts)
  }
}
