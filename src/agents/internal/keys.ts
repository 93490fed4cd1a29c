/** Keys as models name them, and as pyautogui does. */

const names = new Set([
  ..."abcdefghijklmnopqrstuvwxyz0123456789`-=[]\\;',./~!@#$%^&*()_+{}|:\"<>?",
  ...Array.from({ length: 24 }, (_, at) => `f${at + 1}`),
  ...Array.from({ length: 10 }, (_, at) => `num${at}`),
  ...[
    "enter tab space backspace esc delete insert home end pageup pagedown left up right down",
    "ctrl ctrlleft ctrlright shift shiftleft shiftright alt altleft altright win winleft winright command option",
    "apps capslock numlock scrolllock pause printscreen help clear multiply add separator subtract decimal divide",
    "volumedown volumemute volumeup playpause stop prevtrack nexttrack browserback browserforward browserhome",
    "browserrefresh browsersearch browserstop browserfavorites"
  ].flatMap((line) => line.split(" "))
])

const aliases: Readonly<Record<string, string>> = {
  " ": "space",
  spacebar: "space",
  return: "enter",
  kp_enter: "enter",
  escape: "esc",
  del: "delete",
  ins: "insert",
  back: "backspace",
  back_space: "backspace",
  control: "ctrl",
  ctl: "ctrl",
  control_l: "ctrlleft",
  control_r: "ctrlright",
  ctrl_l: "ctrlleft",
  ctrl_r: "ctrlright",
  shift_l: "shiftleft",
  shift_r: "shiftright",
  alt_l: "altleft",
  alt_r: "altright",
  super: "win",
  super_l: "winleft",
  super_r: "winright",
  meta: "win",
  windows: "win",
  cmd: "command",
  arrowleft: "left",
  arrowright: "right",
  arrowup: "up",
  arrowdown: "down",
  left_arrow: "left",
  right_arrow: "right",
  up_arrow: "up",
  down_arrow: "down",
  page_up: "pageup",
  pgup: "pageup",
  prior: "pageup",
  page_down: "pagedown",
  pgdn: "pagedown",
  next: "pagedown",
  caps_lock: "capslock",
  num_lock: "numlock",
  scroll_lock: "scrolllock",
  menu: "apps",
  prtsc: "printscreen",
  print: "printscreen",
  minus: "-",
  plus: "+",
  equal: "=",
  comma: ",",
  period: ".",
  slash: "/"
}

/**
 * pyautogui's name of a key. Letters are keys and no characters, so their case says nothing. `undefined` for a name that
 * is no key's: pyautogui would press nothing, and say nothing.
 */
export const keyName = (text: string): string | undefined => {
  const lower = text === " " ? text : text.trim().toLowerCase()
  const name = Object.hasOwn(aliases, lower) ? aliases[lower] : lower
  return name !== undefined && names.has(name) ? name : undefined
}

/** The keys of a combination such as `ctrl+shift t`; `undefined` where one of them is no key, or there is none. */
export const combination = (text: string): ReadonlyArray<string> | undefined => {
  const parts = text === " " ? [text] : text.split(/\s+/).flatMap((word) => (word.length > 1 ? plusses(word) : [word]))
  const keys = parts.filter((part) => part !== "").map(keyName)
  const known = keys.filter((key) => key !== undefined)
  return known.length === keys.length && known.length > 0 ? known : undefined
}

/** `ctrl++` is the plus key with another. */
const plusses = (word: string): ReadonlyArray<string> =>
  word.endsWith("++") ? [...word.slice(0, -2).split("+"), "+"] : word.split("+")
