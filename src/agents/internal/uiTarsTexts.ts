/** What the UI-TARS agent tells its model, in our own words around the model's own action names. */

interface Form {
  readonly point: string
  readonly start: string
  readonly end: string
}

const forms = {
  v1: {
    point: "start_box='<|box_start|>(x,y)<|box_end|>'",
    start: "start_box='<|box_start|>(x1,y1)<|box_end|>'",
    end: "end_box='<|box_start|>(x2,y2)<|box_end|>'"
  },
  v2: {
    point: "point='<point>x y</point>'",
    start: "start_point='<point>x1 y1</point>'",
    end: "end_point='<point>x2 y2</point>'"
  }
} as const

const actions = ({ end, point, start }: Form): string => `click(${point})
left_double(${point})
right_single(${point})
drag(${start}, ${end})
hotkey(key='ctrl c') # the keys, parted by spaces
type(content='') # \\n at its end presses enter; write \\', \\" and \\n for quotes and line breaks in it
scroll(${point}, direction='down or up or right or left')
wait() # when the desktop needs more time
finished(content='') # when you have seen that the task is complete
call_user() # when the task cannot be done, or not without the user`

const template = (
  form: Form
): string => `You operate a Linux desktop for its user. You are shown screenshots of it, and what you have done before. Say what to do
next.

## Output
Thought: ...
Action: ...

The Thought is in {language}: a short plan, and one sentence that names the next action and its target.
The Action is one of these:

${actions(form)}

If a program asks for the user's password, it is: {password}

## The task
{instruction}`

export const ours = (form: "v1" | "v2") => ({
  prompt_template: template(forms[form]),
  summary_template: "\n\n## What was done before\n{summary}"
})
