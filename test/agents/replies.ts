/** Replies to fuzz readers with: random text, random words of the formats, and good replies that something happened to. */
import * as FastCheck from "effect/FastCheck"

const words = [
  "```",
  "```python\n",
  "```json\n",
  "```py",
  "```bash\n",
  "\n",
  "\r\n",
  "\\n",
  "\\r\\n",
  " ",
  "    ",
  "\t",
  "## Thought:",
  "## Action:\n",
  "## Code:\n",
  "##",
  "# ",
  "<think>",
  "</think>",
  "<thinking>",
  "DONE",
  "FAIL",
  "WAIT",
  "done",
  "pyautogui.click(0.5, 0.25)",
  "pyautogui.moveTo(x=1, y=0.5, duration=1)",
  "pyautogui.click(",
  ")",
  "(",
  "pyautogui.write('a; b # c')",
  "time.sleep(1)",
  ";",
  "computer.wait()",
  "computer.terminate(status='success')",
  'computer.terminate(status="failure")',
  "computer.terminate(",
  "'",
  '"',
  "'''",
  '"""',
  "\\",
  "#",
  "{",
  "}",
  "[",
  "]",
  ":",
  ",",
  '"action_type"',
  '"CLICK"',
  '"parameters"',
  '{"action_type": "CLICK", "x": 1, "y": 2}',
  '{"action_type": "TYPING", "text": "x\')\\nimport os"}',
  '"DONE"',
  "null",
  "1e999",
  "-0.0",
  "0x10",
  "tag_1",
  "tag_99",
  "if True:",
  "def f():\n",
  "import os",
  "lambda:",
  "\u0000",
  "\ud800",
  "é",
  "\u200b",
  "“"
] as const

const fragments = FastCheck.array(FastCheck.constantFrom(...words), { maxLength: 24 }).map((parts) => parts.join(""))

const text = FastCheck.oneof(FastCheck.string({ maxLength: 200 }), FastCheck.string({ maxLength: 200, unit: "binary" }))

/** Something cut out, put in or put twice, up to four times, or not at all. */
const mutated = (good: ReadonlyArray<string>) =>
  FastCheck.tuple(
    FastCheck.constantFrom(...good),
    FastCheck.array(
      FastCheck.record({
        at: FastCheck.double({ min: 0, max: 1, noNaN: true }),
        length: FastCheck.nat({ max: 12 }),
        put: FastCheck.oneof(
          FastCheck.constant(""),
          FastCheck.constantFrom(...words),
          FastCheck.string({ maxLength: 4 })
        )
      }),
      { maxLength: 4 }
    )
  ).map(([reply, changes]) =>
    changes.reduce((now, { at, length, put }) => {
      const place = Math.floor(at * now.length)
      return now.slice(0, place) + put + now.slice(place + length)
    }, reply)
  )

export const replies = (good: ReadonlyArray<string>): FastCheck.Arbitrary<string> =>
  FastCheck.oneof(
    { arbitrary: text, weight: 1 },
    { arbitrary: fragments, weight: 2 },
    { arbitrary: mutated(good), weight: 3 }
  )

/** Long replies that a careless reader takes for ever over. */
export const tedious: ReadonlyArray<string> = words.map((word) => word.repeat(Math.ceil(20_000 / word.length)))
