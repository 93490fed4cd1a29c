/** What the OpenCUA and Kimi agents tell their models, in our own words around the models' own headings. */

const sections = {
  observation: "## Observation:\nwhat the screenshot shows that matters for the task",
  thought: "## Thought:\nwhat came of the last action, what is left to do, and what follows from that",
  action: "## Action:\none sentence that says what you do next, and to what",
  code: "## Code:\n```python\npyautogui.click(x, y)\n```"
}

const shown = {
  l1: [sections.action, sections.code],
  l2: [sections.thought, sections.action, sections.code],
  l3: [sections.observation, sections.thought, sections.action, sections.code]
}

const points = {
  image: "Points are pixels of the screenshot, with (0, 0) in its upper left corner.",
  relative:
    "Points are shares of the screen: (0, 0) is its upper left corner and (1, 1) its lower right one, so pyautogui.click(0.5, 0.25) is in the middle of the upper half."
}

/** `l1` to `l3`: how much the model writes before it acts. */
export type Level = keyof typeof shown

const template = (
  level: Level,
  coordinates: "image" | "relative"
): string => `You operate a Linux desktop for its user. You are given a task, a screenshot, and what you have done before. Say what to do
next, in these sections:

${shown[level].join("\n")}

The code is Python for the desktop, where pyautogui and time are imported. Nothing is remembered from one block to the
next. ${points[coordinates]} In place of Python the block may hold one of these:
computer.wait() when the desktop needs more time
computer.triple_click(x=..., y=...) to click three times
computer.terminate(status="success") when you have seen that the task is complete
computer.terminate(status="failure") when it cannot be done on this desktop

If a program asks for the user's password, it is: {password}`

const histories = {
  action: "## Action:\n{action}\n",
  thought: "## Thought:\n{thought}\n\n## Action:\n{action}\n",
  observation: "## Observation:\n{observation}\n\n## Thought:\n{thought}\n\n## Action:\n{action}\n",
  /** Where the reasoning is a part of its own. */
  reasoned: "## Action:\n{action}\n"
}

/** How much of a turn later prompts repeat. */
export type History = keyof typeof histories

export const ours = (level: Level, coordinates: "image" | "relative", history: History) => ({
  system_prompt_template: template(level, coordinates),
  instruction_template: "# The task:\n{instruction}\n\nSay what to do next.",
  summary_template: "# What was done before:\n{summary}\n\n",
  step_template: "# Step {step_num}:\n",
  history_template: histories[history]
})
