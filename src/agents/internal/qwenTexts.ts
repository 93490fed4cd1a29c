/** What the Qwen agents tell their models, in our own words inside the models' own `<tools>` and `<tool_call>` frames. */

const schema = (description: string) => ({
  type: "function",
  function: {
    name: "computer_use",
    description,
    parameters: {
      type: "object",
      properties: {
        action: {
          type: "string",
          enum: [
            "key",
            "type",
            "mouse_move",
            "left_click",
            "left_click_drag",
            "right_click",
            "middle_click",
            "double_click",
            "triple_click",
            "scroll",
            "hscroll",
            "wait",
            "terminate"
          ],
          description:
            "key presses keys together. type types text; a line break in it presses enter. mouse_move moves the pointer to coordinate. left_click, right_click, middle_click, double_click and triple_click click at coordinate, or where the pointer is. left_click_drag drags from the pointer to coordinate. scroll and hscroll turn the wheel. wait gives the desktop time. terminate ends the task."
        },
        keys: {
          type: "array",
          items: { type: "string" },
          description: "For key: their names, in the order of pressing."
        },
        text: { type: "string", description: "For type." },
        coordinate: {
          type: "array",
          items: { type: "number" },
          description: "[x, y]: pixels from the left, and from the top."
        },
        pixels: { type: "number", description: "For scroll: positive is up. For hscroll: positive is right." },
        time: { type: "number", description: "For wait: seconds." },
        status: {
          type: "string",
          enum: ["success", "failure"],
          description:
            "For terminate: success when you have seen that the task is complete, failure when it cannot be done."
        }
      },
      required: ["action"]
    }
  }
})

const description =
  "The mouse and the keyboard of a Linux desktop. Its screen is {width} pixels wide and {height} pixels high. Take coordinates from the newest screenshot, and aim at the middle of what you mean. Programs may take a moment to show what an action did. If a program asks for the user's password, it is: {password}"

export const ours = {
  system_prompt_template: `# Tools

You have one function. Its signature is within <tools></tools>:
<tools>
${JSON.stringify(schema(description))}
</tools>

To call it, write a JSON object with its name and arguments within <tool_call></tool_call>:
<tool_call>
{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [x, y]}}
</tool_call>

# Answers

Answer each turn with one line that begins with "Action:" and says what you do next, and then one <tool_call>.`,
  instruction_template: "The task: {instruction}",
  summary_template: "What was done before, in short:\n{summary}",
  history_heading: "What you did before, step by step:",
  step_template: "Step {step_num}: {action}",
  unknown_action: "(no action)"
} as const
