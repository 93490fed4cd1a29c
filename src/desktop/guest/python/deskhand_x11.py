"""A small X11 client: just the requests a desktop driver needs.

Every agent step is a new Python process, so start-up time is paid on every
action.  python3-xlib takes about 45 ms to import and connect (it loads all of
its extensions and unpacks the keymap in Python); this file takes about 1 ms.
"""

import os
# The C module directly: `socket` itself pulls in enum and selectors (6 ms).
import _socket
from _struct import pack, unpack, unpack_from

KEY_PRESS, KEY_RELEASE, BUTTON_PRESS, BUTTON_RELEASE, MOTION = 2, 3, 4, 5, 6
SHIFT_MASK, LOCK_MASK = 1, 2
_CLIENT_MESSAGE = 33
_SUBSTRUCTURE_NOTIFY, _SUBSTRUCTURE_REDIRECT = 1 << 19, 1 << 20


class DisplayError(Exception):
    """The display cannot be reached, or has gone away."""


class RequestError(Exception):
    """The X server refused one request; the connection still works."""


def _pad(data):
    return data + b"\0" * (-len(data) % 4)


def _cookie(number):
    """The MIT-MAGIC-COOKIE-1 for this display, or empty when there is none."""
    path = os.environ.get("XAUTHORITY") or os.path.expanduser("~/.Xauthority")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return b""
    fallback = b""
    at = 0
    try:
        while at < len(data):
            at += 2  # family: the number and the name are enough to choose by
            fields = []
            for _ in range(4):
                (length,) = unpack_from(">H", data, at)
                fields.append(data[at + 2:at + 2 + length])
                at += 2 + length
            address, display, name, value = fields
            if name != b"MIT-MAGIC-COOKIE-1" or display not in (b"", number.encode()):
                continue
            if address == os.uname().nodename.encode():
                return value
            fallback = fallback or value
    except Exception:  # a damaged file is the same as no file
        pass
    return fallback


class Display:
    def __init__(self, name=None):
        self.name = name or os.environ.get("DISPLAY") or ":0"
        host, _, rest = self.name.rpartition(":")
        number = rest.split(".")[0]
        try:
            if host in ("", "unix"):
                self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
                self._socket.connect("/tmp/.X11-unix/X" + number)
            else:
                self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
                self._socket.connect((host, 6000 + int(number)))
        except (OSError, ValueError) as error:
            raise DisplayError("cannot connect to display %s: %s" % (self.name, error)) from None
        self._out = []
        self._sequence = 0
        self._events = []
        self._atoms = {}
        self._opcodes = {}
        self._setup(_cookie(number))

    def _setup(self, cookie):
        auth = b"MIT-MAGIC-COOKIE-1" if cookie else b""
        self._send(pack("<BxHHHHxx", 0x6C, 11, 0, len(auth), len(cookie)) + _pad(auth) + _pad(cookie))
        status, reason, length = unpack("<BBxxxxH", self._read(8))
        body = self._read(length * 4)
        if status != 1:
            text = bytes(body[:reason]).decode("latin-1").strip()
            raise DisplayError("display %s refused the connection: %s" % (self.name, text))
        vendor, self._max_request, _, formats = unpack_from("<HHBB", body, 16)
        if body[22] != 0:
            raise DisplayError("display %s is big-endian" % self.name)
        self.min_keycode, self.max_keycode = body[26], body[27]
        screen = 32 + vendor + (-vendor % 4) + formats * 8
        (self.root,) = unpack_from("<I", body, screen)
        self.width, self.height = unpack_from("<HH", body, screen + 20)
        self.depth = body[screen + 38]

    # Transport

    def _gone(self, error):
        return DisplayError("the display %s is gone: %s" % (self.name, error))

    def _send(self, data):
        try:
            self._socket.sendall(data)
        except _socket.timeout:
            raise
        except OSError as error:
            raise self._gone(error) from None

    def _read(self, length):
        data = bytearray(length)
        view = memoryview(data)
        done = 0
        while done < length:
            try:
                count = self._socket.recv_into(view[done:])
            except _socket.timeout:
                if done == 0:
                    raise
                continue  # never stop in the middle of a message
            except OSError as error:
                raise self._gone(error) from None
            if count == 0:
                raise self._gone("the server closed the connection")
            done += count
        return data

    def request(self, opcode, detail, body=b""):
        """Queue a request; it leaves with the next flush, sync or reply."""
        body = _pad(body)
        self._out.append(pack("<BBH", opcode, detail, 1 + len(body) // 4) + body)
        self._sequence = (self._sequence + 1) & 0xFFFF
        return self._sequence

    def flush(self):
        if self._out:
            data, self._out = b"".join(self._out), []
            self._send(data)

    def _next(self):
        """Read one message: (kind, header, body)."""
        head = self._read(32)
        kind = head[0]
        extra = unpack_from("<I", head, 4)[0] * 4 if kind in (1, 35) else 0
        return kind, head, self._read(extra) if extra else b""

    def reply(self, sequence):
        self.flush()
        while True:
            kind, head, body = self._next()
            if kind > 1:
                if len(self._events) < 1000:
                    self._events.append(head)
            elif unpack_from("<H", head, 2)[0] == sequence:
                if kind == 0:
                    raise RequestError("X error %d on request %d.%d" % (head[1], head[10], head[8]))
                return head, body

    def ask(self, opcode, detail, body=b""):
        return self.reply(self.request(opcode, detail, body))

    def sync(self):
        """Return when the server has handled all that was sent.

        Also needed before the process ends: closing a socket with unread
        replies can make the server throw away requests it has not read.
        """
        self.ask(43, 0)

    def close(self):
        self._socket.close()

    # Extensions

    def opcode(self, name):
        if name not in self._opcodes:
            data = name.encode()
            head, _ = self.ask(98, 0, pack("<Hxx", len(data)) + data)
            if not head[8]:
                raise DisplayError("display %s has no %s extension" % (self.name, name))
            self._opcodes[name] = head[9]
            if name == "XKEYBOARD":
                self.ask(head[9], 0, pack("<HH", 1, 0))
            elif name == "XFIXES":
                self.ask(head[9], 0, pack("<II", 4, 0))
        return self._opcodes[name]

    # Input

    def fake(self, kind, detail, x=0, y=0):
        self.request(self.opcode("XTEST"), 2, pack("<BBxxIIxxxxxxxxhhxxxxxxxx", kind, detail, 0, 0, x, y))

    def keyboard_state(self):
        """(effective modifiers, locked modifiers, group)"""
        head, _ = self.ask(self.opcode("XKEYBOARD"), 4, pack("<Hxx", 0x100))
        return head[8], head[11], head[12]

    def lock_keyboard(self, affect, locks, group):
        """Set the locked modifiers under `affect`, and the locked layout."""
        self.request(self.opcode("XKEYBOARD"), 5, pack("<HBBBBBBxBH", 0x100, affect, locks, 1, group, 0, 0, 0, 0))

    def keyboard_mapping(self):
        """(keysyms per keycode, flat view of keysyms from min_keycode on)"""
        count = self.max_keycode - self.min_keycode + 1
        head, body = self.ask(101, 0, pack("<BBxx", self.min_keycode, count))
        return head[1], memoryview(body).cast("I")

    def change_keyboard_mapping(self, first, rows):
        width = len(rows[0])
        flat = [keysym for row in rows for keysym in row]
        self.request(100, len(rows), pack("<BBxx", first, width) + pack("<%dI" % len(flat), *flat))

    def modifier_mapping(self):
        """Eight lists of keycodes: Shift, Lock, Control, Mod1..Mod5."""
        head, body = self.ask(119, 0)
        per = head[1]
        return [[code for code in body[i * per:(i + 1) * per] if code] for i in range(8)]

    # Windows

    def atom(self, name):
        if name not in self._atoms:
            data = name.encode()
            head, _ = self.ask(16, 0, pack("<Hxx", len(data)) + data)
            (self._atoms[name],) = unpack_from("<I", head, 8)
        return self._atoms[name]

    def property(self, window, name):
        """The value as bytes (any type), empty when not set."""
        try:
            head, body = self.ask(20, 0, pack("<IIIII", window, self.atom(name), 0, 0, 1 << 20))
        except RequestError:
            return b""
        return bytes(body[:unpack_from("<I", head, 16)[0] * (head[1] // 8)])

    def property_words(self, window, name):
        data = self.property(window, name)
        return unpack("<%dI" % (len(data) // 4), data[:len(data) // 4 * 4])

    def set_property_words(self, window, name, words):
        self.request(18, 0, pack("<IIIBxxxI", window, self.atom(name), 6, 32, len(words)) + pack("<%dI" % len(words), *words))

    def pointer(self):
        head, _ = self.ask(38, 0, pack("<I", self.root))
        return unpack_from("<hh", head, 16)

    def root_size(self):
        head, _ = self.ask(14, 0, pack("<I", self.root))
        return unpack_from("<HH", head, 16)

    def focus(self):
        head, _ = self.ask(43, 0)
        return unpack_from("<I", head, 8)[0]

    def parent(self, window):
        head, _ = self.ask(15, 0, pack("<I", window))
        return unpack_from("<I", head, 12)[0]

    def image(self, x, y, width, height):
        """Pixels of the root window, four bytes each: blue, green, red, unused."""
        head, body = self.ask(73, 2, pack("<IhhHHI", self.root, x, y, width, height, 0xFFFFFFFF))
        if head[1] not in (24, 32) or len(body) != width * height * 4:
            raise DisplayError("display %s is not 24 bits deep" % self.name)
        return body

    def cursor_image(self):
        """(x, y, width, height, hot x, hot y, serial, premultiplied BGRA pixels)"""
        head, body = self.ask(self.opcode("XFIXES"), 4)
        return unpack_from("<hhHHHHI", head, 8) + (body,)

    # Knowing that a client has read its events

    def ping_target(self):
        """The top-level window with the focus, if it answers pings."""
        window = self.focus()
        ping = self.atom("_NET_WM_PING")
        for _ in range(8):
            if window <= 1 or window == self.root:
                return None
            if ping in self.property_words(window, "WM_PROTOCOLS"):
                return window
            try:
                window = self.parent(window)
            except RequestError:
                return None
        return None

    def drain(self, seconds):
        """Wait until the focused client has read every event sent so far.

        X has no request for this, but nearly all toolkits answer a window
        manager's ping from the very loop that reads their events, so the
        answer comes only after the events sent before the ping.  Returns True
        when answered, False when the time ran out, None when the client does
        not take pings.
        """
        from time import monotonic

        target = self.ping_target()
        if target is None:
            return None
        protocols, ping = self.atom("WM_PROTOCOLS"), self.atom("_NET_WM_PING")
        token = int(monotonic() * 1000) & 0x7FFFFFFF
        self._events = []
        self.request(2, 0, pack("<III", self.root, 0x800, _SUBSTRUCTURE_NOTIFY))
        self.request(25, 0, pack("<II", target, 0) + pack("<BBHII5I", _CLIENT_MESSAGE, 32, 0, target, protocols, ping, token, target, 0, 0))
        self.sync()
        deadline = monotonic() + seconds
        answered = False
        try:
            while not answered:
                while self._events and not answered:
                    event = self._events.pop(0)
                    if event[0] & 0x7F == _CLIENT_MESSAGE:
                        window, kind, what, when = unpack_from("<4I", event, 4)
                        answered = (window, kind, what, when) == (self.root, protocols, ping, token)
                if answered:
                    break
                left = deadline - monotonic()
                if left <= 0:
                    break
                self._socket.settimeout(left)
                try:
                    kind, head, _ = self._next()
                    if kind > 1:
                        self._events.append(head)
                except _socket.timeout:
                    break
        finally:
            self._socket.settimeout(None)
            self.request(2, 0, pack("<III", self.root, 0x800, 0))
            self.sync()
            self._events = []
        return answered
