"""A window that prints the events it gets, one JSON line each.

It looks keys up with libX11, as a real client does: with the keymap that is
current when it comes to read the event, not when the key was pressed.
Options: --slow (2 ms per event), --no-ping.
"""

import ctypes
import json
import sys
import time

X = ctypes.CDLL("libX11.so.6")
for name in ("XOpenDisplay", "XDefaultRootWindow", "XCreateSimpleWindow", "XInternAtom", "XLookupString"):
    getattr(X, name).restype = ctypes.c_ulong
X.XOpenDisplay.restype = ctypes.c_void_p
P, L, I = ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int


class Event(ctypes.Structure):
    # The fields that XKeyEvent, XButtonEvent and XMotionEvent share.
    _fields_ = [
        ("type", I), ("serial", L), ("send_event", I), ("display", P), ("window", L), ("root", L),
        ("subwindow", L), ("time", L), ("x", I), ("y", I), ("x_root", I), ("y_root", I),
        ("state", ctypes.c_uint), ("detail", ctypes.c_uint), ("rest", L * 16),
    ]  # fmt: skip


class Client(ctypes.Structure):
    _fields_ = [
        ("type", I), ("serial", L), ("send_event", I), ("display", P), ("window", L), ("message", L),
        ("format", I), ("data", ctypes.c_long * 5), ("rest", L * 8),
    ]  # fmt: skip


def char(keysym):
    named = {0xFF0D: "\n", 0xFF09: "\t", 0xFF08: "\b", 0xFF1B: "\x1b"}
    if keysym in named:
        return named[keysym]
    if 0x01000000 <= keysym <= 0x0110FFFF:
        return chr(keysym - 0x01000000)
    if 0x20 <= keysym <= 0xFF:
        return chr(keysym)
    return {0x20AC: "€"}.get(keysym, "")


def main():
    slow, ping = "--slow" in sys.argv, "--no-ping" not in sys.argv
    display = P(X.XOpenDisplay(None))
    root = L(X.XDefaultRootWindow(display))
    window = L(X.XCreateSimpleWindow(display, root, 0, 0, 1920, 1080, 0, L(0), L(0x336699)))
    atom = lambda name: X.XInternAtom(display, name, 0)  # noqa: E731
    protocols, pinged, end = atom(b"WM_PROTOCOLS"), atom(b"_NET_WM_PING"), atom(b"TEST_END")
    if ping:
        X.XSetWMProtocols(display, window, ctypes.byref(L(pinged)), 1)
    # Keys, buttons, motion, and the map event to know when focus can be taken.
    X.XSelectInput(display, window, ctypes.c_long(1 | 2 | 4 | 8 | 64 | (1 << 17)))
    X.XMapWindow(display, window)
    event = Event()
    keysym = L()
    say = lambda **fields: print(json.dumps(fields), flush=True)  # noqa: E731
    while True:
        X.XNextEvent(display, ctypes.byref(event))
        kind = event.type
        if kind == 19:
            X.XSetInputFocus(display, window, 1, L(0))
            X.XSync(display, 0)
            say(type="ready", window=window.value)
        elif kind in (2, 3):
            if slow:
                time.sleep(0.002)
            X.XLookupString(ctypes.byref(event), None, 0, ctypes.byref(keysym), None)
            say(
                type="key" if kind == 2 else "keyup",
                code=event.detail, state=event.state, keysym=keysym.value, text=char(keysym.value),
            )  # fmt: skip
        elif kind in (4, 5):
            say(type="down" if kind == 4 else "up", button=event.detail, x=event.x_root, y=event.y_root)
        elif kind == 6:
            say(type="move", x=event.x_root, y=event.y_root, state=event.state)
        elif kind == 34:
            X.XRefreshKeyboardMapping(ctypes.byref(event))
        elif kind == 33:
            client = Client.from_buffer(event)
            if client.message == end:
                say(type="end")
                return
            if client.message == protocols and client.data[0] == pinged:
                client.window = root.value
                X.XSendEvent(display, root, 0, ctypes.c_long(1 << 19 | 1 << 20), ctypes.byref(event))
                X.XFlush(display)


main()
