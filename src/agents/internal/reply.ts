/** What readers of replies share. */
import * as Either from "effect/Either"
import { DesktopAction } from "../../desktop/Action.js"
import { Decision, ParseFailure } from "../../rollout/Agent.js"

/** One of the words that stand for a decision, exactly. */
export const word = (text: string): Decision<DesktopAction> | undefined => {
  switch (text) {
    case "WAIT":
      return Decision.Wait()
    case "DONE":
      return Decision.Done()
    case "FAIL":
      return Decision.Fail()
    default:
      return undefined
  }
}

export const act = (code: string): Decision<DesktopAction> => Decision.Act({ action: DesktopAction.Python({ code }) })

export const unreadable = (message: string): Either.Either<never, ParseFailure> =>
  Either.left(new ParseFailure({ kind: "unparseable", message }))

const withoutClosed = (reply: string): string => {
  const opening = /<(think|thinking)>/g
  // A tag that is not closed any more is looked for once: a reply may hold thousands of them.
  const open = new Set<string>()
  let kept = ""
  let at = 0
  for (let found = opening.exec(reply); found !== null; found = opening.exec(reply)) {
    const closing = `</${found[1] ?? ""}>`
    const end = open.has(closing) ? -1 : reply.indexOf(closing, opening.lastIndex)
    if (end < 0) {
      open.add(closing)
      continue
    }
    kept += reply.slice(at, found.index)
    at = end + closing.length
    opening.lastIndex = at
  }
  return kept + reply.slice(at)
}

/**
 * Without what the model thought to itself. A thought that never ends was cut off, and nothing in it is meant; a closing
 * tag alone ends a thought that the server's template began.
 */
export const withoutThoughts = (reply: string): string => {
  const rest = withoutClosed(reply)
  const end = Math.max(
    ...["</think>", "</thinking>"].map((tag) => {
      const at = rest.lastIndexOf(tag)
      return at < 0 ? 0 : at + tag.length
    })
  )
  const said = rest.slice(end)
  const cut = said.search(/<(?:think|thinking)>/)
  return cut < 0 ? said : said.slice(0, cut)
}
