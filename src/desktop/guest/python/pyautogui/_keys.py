"""Key names, and the keyboard: which keycode to press for which character."""

import sys
from time import sleep

from deskhand_x11 import KEY_PRESS, KEY_RELEASE, LOCK_MASK, SHIFT_MASK

# Every name pyautogui accepts besides the printable characters, with its
# keysym.  None: a valid name that this desktop has no key for.
NAMES = {
    "\t": 0xFF09, "\n": 0xFF0D, "\r": 0xFF0D,
    "enter": 0xFF0D, "return": 0xFF0D, "tab": 0xFF09, "space": 0x20,
    "backspace": 0xFF08, "\b": 0xFF08, "esc": 0xFF1B, "escape": 0xFF1B,
    "del": 0xFFFF, "delete": 0xFFFF, "insert": 0xFF63, "home": 0xFF50, "end": 0xFF57,
    "pageup": 0xFF55, "pgup": 0xFF55, "pagedown": 0xFF56, "pgdn": 0xFF56,
    "left": 0xFF51, "up": 0xFF52, "right": 0xFF53, "down": 0xFF54,
    "ctrl": 0xFFE3, "ctrlleft": 0xFFE3, "ctrlright": 0xFFE4,
    "shift": 0xFFE1, "shiftleft": 0xFFE1, "shiftright": 0xFFE2,
    "alt": 0xFFE9, "altleft": 0xFFE9, "altright": 0xFFEA,
    "win": 0xFFEB, "winleft": 0xFFEB, "winright": 0xFFEC,
    "command": 0xFFEB, "option": 0xFFE9, "optionleft": 0xFFE9, "optionright": 0xFFEA,
    "apps": 0xFF67, "capslock": 0xFFE5, "numlock": 0xFF7F, "scrolllock": 0xFF14,
    "pause": 0xFF13, "print": 0xFF61, "printscreen": 0xFF61, "prntscrn": 0xFF61,
    "prtsc": 0xFF61, "prtscr": 0xFF61, "help": 0xFF6A, "clear": 0xFF0B,
    "select": 0xFF60, "execute": 0xFF62, "sleep": 0x1008FF2F,
    "multiply": 0xFFAA, "add": 0xFFAB, "separator": 0xFFAC, "subtract": 0xFFAD,
    "decimal": 0xFFAE, "divide": 0xFFAF, "yen": 0xA5,
    "volumedown": 0x1008FF11, "volumemute": 0x1008FF12, "volumeup": 0x1008FF13,
    "playpause": 0x1008FF14, "stop": 0x1008FF15, "prevtrack": 0x1008FF16, "nexttrack": 0x1008FF17,
    "browserhome": 0x1008FF18, "browsersearch": 0x1008FF1B, "browserback": 0x1008FF26,
    "browserforward": 0x1008FF27, "browserstop": 0x1008FF28, "browserrefresh": 0x1008FF29,
    "browserfavorites": 0x1008FF30, "launchmail": 0x1008FF19, "launchmediaselect": 0x1008FF32,
    "launchapp1": 0x1008FF33, "launchapp2": 0x1008FF1D,
    "kanji": 0xFF21, "nonconvert": 0xFF22, "convert": 0xFF23, "kana": 0xFF2D,
    "hangul": 0xFF31, "hanguel": 0xFF31, "hanja": 0xFF34, "junja": 0xFF38,
    "accept": None, "final": None, "fn": None, "modechange": None,
}
for _n in range(10):
    NAMES["num%d" % _n] = 0xFFB0 + _n
for _n in range(1, 25):
    NAMES["f%d" % _n] = 0xFFBD + _n

KEY_NAMES = sorted({chr(c) for c in range(32, 127)} | set(NAMES))

# What models write instead; only named in the warning, since pyautogui itself
# ignores these and a step must not mean more here than it does elsewhere.
_HINTS = {
    "control": "ctrl", "ctl": "ctrl", "super": "win", "meta": "win", "windows": "win", "cmd": "command",
    "page_up": "pageup", "page_down": "pagedown", "prior": "pageup", "next": "pagedown",
    "arrowup": "up", "arrowdown": "down", "arrowleft": "left", "arrowright": "right",
    "caps_lock": "capslock", "menu": "apps", "spacebar": "space", "backspc": "backspace",
}

_CONTROLS = {"\n": 0xFF0D, "\r": 0xFF0D, "\t": 0xFF09, "\b": 0xFF08, "\x1b": 0xFF1B, "\x7f": 0xFFFF}
_LEVEL3_SHIFT, _ALT_RIGHT, _CAPS_LOCK = 0xFE03, 0xFFEA, 0xFFE5

# Root window property: the keycodes we lend to characters outside the layout
# and the keysym each one has now, least recently used first.
_LENT = "_DESKHAND_LENT_KEYCODES"

_CHUNK = 400
_LAST_BMP = 0x0100FFFF

# Keycodes from here on hold no keys of an ordinary keyboard, only nothing or
# the vendor keysyms of laptop keys.  Those that no program is likely to grab
# are lent out too: together they lie close enough to be changed at once.
_DULL_FROM = 185
_WATCHED = set(range(0x1008FF02, 0x1008FF20)) | {
    0x1008FF26, 0x1008FF27, 0x1008FF28, 0x1008FF29, 0x1008FF2A, 0x1008FF2B, 0x1008FF2C, 0x1008FF2D,
    0x1008FF2F, 0x1008FF30, 0x1008FF31, 0x1008FF32, 0x1008FF33, 0x1008FF3E, 0x1008FF59, 0x1008FF5D,
    0x1008FF92, 0x1008FF93, 0x1008FF94, 0x1008FF95, 0x1008FF97, 0x1008FFA7, 0x1008FFA8, 0x1008FFA9,
    0x1008FFB0, 0x1008FFB1, 0x1008FFB2, 0x1008FFB5,
}


def _is_dull(keysym):
    return (0x10050000 <= keysym <= 0x1008FFFF) and keysym not in _WATCHED


def warn(text):
    sys.stderr.write("pyautogui: %s\n" % text)


def warn_unknown(name):
    if isinstance(name, str):
        hint = _HINTS.get(name.lower())
        if hint is None and "+" in name[1:]:
            hint = "hotkey(%s)" % ", ".join(repr(part) for part in name.split("+"))
        warn("unknown key %r was ignored%s" % (name, "" if hint is None else " (did you mean %s?)" % hint))
    else:
        warn("unknown key %r was ignored" % (name,))


def keysym_of(char):
    """The keysym for one character, or None when no key can stand for it."""
    code = ord(char)
    if 0x20 <= code <= 0x7E or 0xA0 <= code <= 0xFF:
        return code
    if char in _CONTROLS:
        return _CONTROLS[char]
    if code < 0xA0 or 0xD800 <= code <= 0xDFFF:
        return None
    return 0x01000000 + code


def lookup(key):
    """The keysym for a key name or a single character, or None."""
    if not isinstance(key, str) or not key:
        return None
    if len(key) > 1:
        return NAMES.get(key.lower())
    return NAMES[key] if key in NAMES else keysym_of(key)


class Keyboard:
    """Types on a display.

    A character that the layout has is pressed with the modifiers of its level.
    Any other character is bound to a keycode that the layout leaves empty (or
    to a vendor key that no keyboard here has).

    A client asks the server for the keymap when it meets the first event after
    a change, and turns keycodes into characters with the keymap of *that*
    moment.  So a keycode may only be given another character once the clients
    have read the presses of the former one.  Hence:

    - a text is typed in batches that need no more new characters than there
      are empty keycodes: one keymap change, then the presses;
    - before a keycode is taken from a former character, `Display.drain` waits
      for the focused client (and for a client that answers no pings, a pause);
    - bindings are never undone.  Undoing them when this process ends would be
      the same race again, with clients we no longer watch.  A leftover
      binding harms nobody (no other key has that keycode), and the next process
      finds the character in the keymap and need not change anything.
    """

    def __init__(self, display):
        self.display = display
        self._load()

    def _load(self):
        display = self.display
        per, syms = display.keyboard_mapping()
        low = display.min_keycode
        count = len(syms) // per
        lent = {}
        words = display.property_words(display.root, _LENT)
        for code, sym in zip(words[::2], words[1::2]):
            index = code - low
            # A layout change (setxkbmap) may have taken the keycode back.
            if 0 <= index < count and syms[index * per] == sym:
                lent[code] = sym
        modifiers = display.modifier_mapping()
        held = {code for codes in modifiers for code in codes}
        self.altgr, self.altgr_mask = 0, 0
        for bit, codes in enumerate(modifiers):
            for code in codes:
                if syms[(code - low) * per] == _LEVEL3_SHIFT and not self.altgr:
                    self.altgr, self.altgr_mask = code, 1 << bit
        found = {}
        columns = [0, 1] + ([4, 5] if per >= 6 and self.altgr else [])
        main = [i for i in range(count) if 10 <= i + low <= 61 or i + low == 65]
        other = [i for i in range(count) if not (10 <= i + low <= 61 or i + low == 65)]
        # The later passes win: the keys of the main block before the others
        # (`<` is Shift+comma before the extra key of ISO keyboards), the
        # fewest modifiers before more, the lowest keycode before higher ones.
        for indexes in (other, main):
            for column in reversed(columns):
                level = column if column < 2 else column - 2
                for index in reversed(indexes):
                    sym = syms[index * per + column]
                    if sym:
                        found[sym] = (index + low, level)
        found.pop(0, None)
        for code, sym in lent.items():
            if sym not in found or found[sym][0] == code:
                found[sym] = (code, 0)
        self.found = found
        self.shift = found.get(0xFFE1, (50, 0))[0]
        rows = {i + low: set(syms[i * per:(i + 1) * per]) - {0} for i in range(count) if i + low not in held}
        empty = [code for code, row in rows.items() if not row and code != low]
        dull = [code for code, row in rows.items() if code >= _DULL_FROM and all(_is_dull(sym) for sym in row)]
        usable = sorted(dull, key=lambda code: (code < 208, code))
        if len(usable) < 8:
            # An unusual layout.  The first empty keycode is left for xdotool
            # and the like, which lend it out in the same way.
            usable = empty[1:] or empty
        self.lent = {code: None for code in usable}
        for code in lent:
            self.lent.pop(code, None)
        self.lent.update(lent)
        # Keys with one keysym and no modifier can be written again as they are.
        self.simple = {code: (list(row) or [0])[0] for code, row in rows.items() if len(row) <= 1}

    # Lending keycodes

    def _lend(self, keysyms):
        """Bind these keysyms (at most as many as there are lendable keycodes)."""
        display = self.display
        wanted = set(keysyms)
        # Those already lent to a wanted keysym are in use again: move them last.
        for code, sym in list(self.lent.items()):
            if sym in wanted:
                self.lent[code] = self.lent.pop(code)
        missing = [sym for sym in keysyms if sym not in self.found]
        if not missing:
            return
        free = [code for code, sym in self.lent.items() if sym is None]
        taken = [code for code, sym in self.lent.items() if sym is not None and sym not in wanted]
        codes = (free + taken)[:len(missing)]
        self._consumed(len(codes) > len(free))
        for code, sym in zip(codes, missing):
            former = self.lent.pop(code)
            if former is not None and self.found.get(former, (0, 0))[0] == code:
                del self.found[former]
            self.lent[code] = sym
            self.found[sym] = (code, 0)
        self._bind(sorted(codes))
        words = []
        for code, sym in self.lent.items():
            if sym is not None:
                words += (code, sym)
        display.set_property_words(display.root, _LENT, words)
        display.sync()

    def _bind(self, codes):
        """Send the keysyms of these keycodes, in as few changes as can be.

        Every change makes every client read the whole keymap again, and the
        window manager grab all of its keys again (25 ms of openbox's time), so
        the keys between two of ours are written along with them, unchanged.
        """
        start = 0
        for end in range(1, len(codes) + 1):
            if end < len(codes) and all(
                code in self.lent or code in self.simple for code in range(codes[end - 1] + 1, codes[end])
            ):
                continue
            # The same keysym on both levels: with one alone, the server takes a
            # capital for the upper half of a lower/upper pair.
            rows = []
            for code in range(codes[start], codes[end - 1] + 1):
                sym = self.lent.get(code)
                rows.append([sym, sym] if sym is not None else [self.simple.get(code, 0), 0])
            self.display.change_keyboard_mapping(codes[start], rows)
            start = end

    def _consumed(self, reused):
        """Wait for the focused client before a keymap change.

        Even a change of empty keycodes only: libX11 loads the keymap at a
        client's first key event and asks to be told of changes just after
        that, so a change between the two would stay unknown to that client.
        """
        answer = self.display.drain(10 if reused else 1)
        if not reused:
            return
        if answer is None:
            # A client that answers no pings (xterm): give it time to read.
            sleep(0.25)
        elif answer is False:
            warn("the focused window has not read its keys for 10 s; some characters may be wrong")

    def place(self, keysym, plain=False):
        """(keycode, level) to press; `plain` wants it without modifiers."""
        spot = self.found.get(keysym)
        if spot is None and keysym == _ALT_RIGHT:
            spot = self.found.get(_LEVEL3_SHIFT)
        if spot is not None and not (plain and spot[1]):
            return spot
        for code, sym in self.lent.items():
            if sym == keysym:
                return code, 0
        if not self.lent:
            warn("no empty keycode for keysym 0x%x" % keysym)
            return spot
        self.found.pop(keysym, None)
        self._lend([keysym])
        spot = self.found[keysym]
        return spot

    # Pressing

    def _down(self, code):
        self.display.fake(KEY_PRESS, code)

    def _up(self, code):
        self.display.fake(KEY_RELEASE, code)

    def _around(self, level, held):
        """The modifier keycodes to hold for this level."""
        keys = []
        if level & 1 and not held & SHIFT_MASK:
            keys.append(self.shift)
        if level & 2 and not held & self.altgr_mask:
            keys.append(self.altgr)
        return keys

    def _tap(self, spot, held):
        code, level = spot
        around = self._around(level, held)
        for key in around:
            self._down(key)
        self._down(code)
        self._up(code)
        for key in reversed(around):
            self._up(key)

    def key(self, name, down, up):
        """Press and/or release one named key or character.  False if unknown."""
        keysym = lookup(name)
        if keysym is None:
            return False
        spot = self.place(keysym, plain=len(name) > 1)
        if spot is None:
            return True
        code, level = spot
        if down:
            held = self.display.keyboard_state()[0] if level else 0
            around = self._around(level, held)
            for key in around:
                self._down(key)
            self._down(code)
            for key in reversed(around):
                self._up(key)
        if up:
            self._up(code)
        return True

    def settle(self, locks=True):
        """Make presses mean what `found` says; returns what `restore` needs.

        `found` describes the first layout with Caps Lock off.  Every key event
        carries its own modifiers and layout, so setting these for the length of
        a call is exact however late a client reads the events.
        """
        held, locked, group = self.display.keyboard_state()
        lock = locked & LOCK_MASK if locks else 0
        if not lock and not group:
            return held, None
        self.display.lock_keyboard(lock, 0, 0)
        return held & ~lock, (lock, group)

    def restore(self, saved):
        if saved is not None:
            self.display.lock_keyboard(saved[0], saved[0], saved[1])

    def write(self, text, interval, between):
        """Type characters; `between` is called after each one when there is an interval."""
        text = text.replace("\r\n", "\n")
        keysyms = []
        skipped = []
        for char in text:
            keysym = keysym_of(char)
            if keysym is None:
                skipped.append(char)
            else:
                keysyms.append(keysym)
        self._office, self._caught_up = None, 0
        held, saved = self.settle()
        try:
            at = 0
            while at < len(keysyms):
                at = self._batch(keysyms, at, held, interval, between)
        finally:
            self.restore(saved)
        if len(keysyms) > 64:
            # So that what the caller does next (a screenshot) finds a long
            # text typed, not on its way.
            self.display.drain(2)
        else:
            self.display.sync()
        if skipped:
            warn("%d characters that no key can type were skipped: %r" % (len(skipped), "".join(skipped)[:20]))

    def _let_office_catch_up(self, count):
        """Before an emoji: wait for LibreOffice to insert the keys before it.

        LibreOffice inserts characters beyond U+FFFF as soon as it reads them,
        but others only when it is idle, so that in fast typing an emoji
        overtakes them.  It answers pings meanwhile; only time helps.
        """
        if self._office is None:
            display = self.display
            window = display.ping_target()
            name = display.property(window, "WM_CLASS").lower() if window else b""
            self._office = b"office" in name
        if self._office:
            self.display.drain(5)
            sleep(min(2.0, 0.1 + 0.01 * count))

    def _batch(self, keysyms, start, held, interval, between):
        room = len(self.lent)
        need = {}
        end = start
        while end < len(keysyms) and end - start < _CHUNK:
            keysym = keysyms[end]
            spot = self.found.get(keysym)
            if (spot is None or spot[0] in self.lent) and keysym not in need:
                if len(need) == room:
                    break
                need[keysym] = True
            end += 1
        if end == start:
            warn("no empty keycode for keysym 0x%x" % keysyms[start])
            return start + 1
        if need:
            self._lend(list(need))
        for index in range(start, end):
            keysym = keysyms[index]
            if keysym > _LAST_BMP and index and keysyms[index - 1] <= _LAST_BMP:
                self._let_office_catch_up(index - self._caught_up)
                self._caught_up = index
            self._tap(self.found[keysym], held)
            if interval > 0:
                self.display.sync()
                between(interval)
        if end < len(keysyms):
            # Keep the client's queue short in a long text.
            self.display.drain(5)
        else:
            self.display.sync()
        return end
