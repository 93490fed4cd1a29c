/** File name patterns as Python's `fnmatch.fnmatchcase` reads them: `*`, `?`, `[abc]`, `[!abc]`. */

const quote = (char: string): string => char.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")

export const compile = (pattern: string): RegExp => {
  let source = ""
  for (let i = 0; i < pattern.length; ) {
    const char = pattern[i] ?? ""
    const set = char === "[" ? /^\[(!?)(\]?[^\]]*)\]/.exec(pattern.slice(i)) : null
    if (set !== null) {
      const [whole, not = "", members = ""] = set
      source += `[${not === "!" ? "^" : ""}${members.replace(/[\\\]^[]/g, "\\$&")}]`
      i += whole.length
      continue
    }
    if (char === "*") source += "[\\s\\S]*"
    else if (char === "?") source += "[\\s\\S]"
    else source += quote(char)
    i++
  }
  return new RegExp(`^${source}$`)
}
