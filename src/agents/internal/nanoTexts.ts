/** What the `nano-omni` agent tells its model, in our own words. */
import { createHash } from "node:crypto"

export interface WireTexts {
  readonly system_prompt_template: string
  readonly instruction_template: string
  readonly step_template: string
  readonly text_history_template: string
  readonly assistant_history_template: string
  readonly parse_retry_template: string
  readonly pre_done_template: string
  // What the published agent has in its code and no contract names.
  readonly history_heading: string
  readonly current_step_template: string
  readonly summary_template: string
  readonly no_reply: string
}

const code = `Under ## Code comes one fenced block of Python that runs on the desktop, where pyautogui and time are imported. Nothing
is remembered from one block to the next. Give points as shares of the screen: (0, 0) is its upper left corner and (1, 1)
its lower right one, so pyautogui.click(0.5, 0.25) is in the middle of the upper half. In place of Python the block may
hold one of these:
computer.wait() when the desktop needs more time
computer.terminate(status='success') when you have seen that the task is complete
computer.terminate(status='failure') when it cannot be done on this desktop at all

If a program asks for the user's password, it is: {password}`

const thinkingPrompt = `You operate a Linux desktop for its user. Each turn shows you a screenshot of it. Think about what you see, and then answer
in two sections:

## Action:
one sentence that says what you do next
## Code:
\`\`\`python
pyautogui.click(0.5, 0.25)
\`\`\`

${code}`

const plainPrompt = `You operate a Linux desktop for its user. Each turn shows you a screenshot of it. Answer in three sections:

## Thought:
what you see, what came of the last action, and what follows from it
## Action:
one sentence that says what you do next
## Code:
\`\`\`python
pyautogui.click(0.5, 0.25)
\`\`\`

${code}`

export const ours = (thinking: boolean): WireTexts => ({
  system_prompt_template: thinking ? thinkingPrompt : plainPrompt,
  instruction_template: "# The task:\n{instruction}\n",
  step_template: "# Step {step_num}:\n",
  text_history_template: "## Thought:\n{thought}\n## Action:\n{action}\n",
  assistant_history_template: thinking
    ? "<think>\n{thought}\n</think>\n## Action:\n{action}\n"
    : "## Thought:\n{thought}\n## Action:\n{action}\n",
  parse_retry_template: `Your last answer could not be used: {error}
Answer again for the same screenshot, with every section that was asked for and valid Python under ## Code.`,
  pre_done_template: `Before you say that the task is complete, check on the screen that every part of it is done, that files are saved where
they belong and that no dialog is open.`,
  history_heading: "# Previous History Actions:",
  current_step_template: "You are currently on Step {step_num}.",
  summary_template: "# Summary of the earlier steps:\n{summary}",
  no_reply: "(empty reply)"
})

/** How the SHA-256 of the published texts begins. */
const published = { parse_retry_template: "9670ff7db207a18b", pre_done_template: "05018a3584c627cd" } as const

export const isPublished = (key: keyof typeof published, value: string): boolean =>
  createHash("sha256").update(value).digest("hex").startsWith(published[key])
