"""pyautogui's functions for model code, over XTEST and without its imports.

Where the original types wrong text on X11 (`<`, accents, anything outside the
layout) this one types what it was given; unknown key names are ignored as in
the original, but named on stderr.  Heavier parts load on first use, because
each agent step is a new Python process.
"""

from collections import namedtuple
from time import monotonic as _now
from time import sleep as _sleep

from deskhand_x11 import BUTTON_PRESS as _BUTTON_PRESS
from deskhand_x11 import BUTTON_RELEASE as _BUTTON_RELEASE
from deskhand_x11 import MOTION as _MOTION
from deskhand_x11 import Display as _Display
from deskhand_x11 import DisplayError as _DisplayError

from . import _keys
from ._keys import KEY_NAMES

__version__ = "0.9.54"

FAILSAFE = True
PAUSE = 0.1
DARWIN_CATCH_UP_TIME = 0.01
MINIMUM_DURATION = 0.1
MINIMUM_SLEEP = 0.05
STEP_SLEEP = 10
G_LOG_SCREENSHOTS_FILENAMES = []
LOG_SCREENSHOTS = False
LOG_SCREENSHOTS_LIMIT = 10
USE_IMAGE_NOT_FOUND_EXCEPTION = True

KEYBOARD_KEYS = KEY_NAMES
QWERTY = r"""`1234567890-=qwertyuiop[]\asdfghjkl;'zxcvbnm,./~!@#$%^&*()_+QWERTYUIOP{}|ASDFGHJKL:"ZXCVBNM<>?"""
QWERTZ = r"""=1234567890/0qwertzuiop89-asdfghjkl,\yxcvbnm,.7+!@#$%^&*()?)QWERTZUIOP*(_ASDFGHJKL<|YXCVBNM<>&"""

LEFT, MIDDLE, RIGHT = "left", "middle", "right"
PRIMARY, SECONDARY = "primary", "secondary"

Point = namedtuple("Point", "x y")
Size = namedtuple("Size", "width height")
Box = namedtuple("Box", "left top width height")


class PyAutoGUIException(Exception):
    pass


class FailSafeException(PyAutoGUIException):
    pass


class ImageNotFoundException(PyAutoGUIException):
    pass


_BUTTONS = {LEFT: 1, MIDDLE: 2, RIGHT: 3, PRIMARY: 1, SECONDARY: 3}
_display = None
_keyboard = None


def _x():
    global _display
    if _display is None:
        try:
            _display = _Display()
        except _DisplayError as error:
            raise PyAutoGUIException(str(error)) from None
    return _display


def _kbd():
    global _keyboard
    if _keyboard is None:
        _keyboard = _keys.Keyboard(_x())
    return _keyboard


def _finish(pause):
    if _display is not None:
        _display.sync()
    if pause and PAUSE:
        _sleep(PAUSE)


def failSafeCheck():
    if FAILSAFE:
        width, height = _x().root_size()
        if tuple(_x().pointer()) in ((0, 0), (0, height - 1), (width - 1, 0), (width - 1, height - 1)):
            raise FailSafeException(
                "the pointer is in a corner of the screen; set pyautogui.FAILSAFE = False to allow that"
            )


# Information


def size():
    return Size(*_x().root_size())


resolution = size


def position(x=None, y=None):
    here = _x().pointer()
    return Point(here[0] if x is None else int(x), here[1] if y is None else int(y))


def onScreen(x, y=None):
    if y is None and not isinstance(x, (int, float)):
        x, y = x
    width, height = _x().root_size()
    return 0 <= int(x) < width and 0 <= int(y) < height


def isValidKey(key):
    return _keys.lookup(key) is not None


def getActiveWindowTitle():
    display = _x()
    active = display.property_words(display.root, "_NET_ACTIVE_WINDOW")
    return _title(active[0]) if active and active[0] else None


def getAllTitles():
    return [_title(window) for window in _x().property_words(_x().root, "_NET_CLIENT_LIST")]


def _title(window):
    name = _x().property(window, "_NET_WM_NAME")
    return name.decode("utf-8", "replace") if name else _x().property(window, "WM_NAME").decode("latin-1")


def _no_windows(*_args, **_kwargs):
    raise NotImplementedError("pyautogui has no window objects on Linux; use wmctrl or xdotool")


getActiveWindow = getAllWindows = getWindowsWithTitle = getWindowsAt = _no_windows


def getInfo():
    import platform
    import sys
    from datetime import datetime

    return platform.platform(), sys.version, __version__, sys.executable, size(), datetime.now()


def printInfo(dontPrint=False):
    labels = ("Platform", "Python Version", "PyAutoGUI Version", "Executable", "Resolution", "Timestamp")
    text = "\n".join("%17s: %s" % pair for pair in zip(labels, getInfo()))
    if not dontPrint:
        print(text)
    return text


# Mouse


def _button(button):
    number = _BUTTONS.get(button.lower()) if isinstance(button, str) else button
    if number in (1, 2, 3, 4, 5, 6, 7):
        return number
    raise PyAutoGUIException(
        "button must be one of ('left', 'middle', 'right', 'primary', 'secondary', 1, 2, 3, 4, 5, 6, 7), not %r" % (button,)
    )


def _target(x, y):
    """The point meant by the many forms of x and y; None keeps a coordinate."""
    if isinstance(x, str):
        return locateCenterOnScreen(x)
    if x is not None and not isinstance(x, (int, float)) and hasattr(x, "__getitem__"):
        parts = tuple(x)
        if len(parts) == 4:
            left, top, width, height = parts
            return Point(int(left + width / 2), int(top + height / 2))
        if len(parts) != 2:
            raise PyAutoGUIException("expected (x, y) or (left, top, width, height), not %r" % (x,))
        x, y = parts
    return position(x, y)


def _warp(x, y):
    # The protocol has 16 bits for a coordinate; the server clamps to the screen.
    _x().fake(_MOTION, 0, max(-32768, min(32767, int(x))), max(-32768, min(32767, int(y))))


def _glide(x, y, duration, tween, dragging=False):
    display = _x()
    start_x, start_y = display.pointer()
    width, height = display.root_size()
    x, y = max(0, min(width - 1, x)), max(0, min(height - 1, y))
    steps = 1
    if duration > MINIMUM_DURATION:
        steps = max(1, int(duration / max(MINIMUM_SLEEP, 0.001)))
    wait = duration / steps
    if dragging and steps == 1 and (start_x, start_y) != (x, y):
        # Toolkits begin a drag only after some way with the button down, and
        # pick the drop target from later motion: one jump is no drag to them.
        steps, wait = 6, 0.01
        tween = None
    begin = _now()
    for step in range(1, steps):
        part = step / steps
        if tween is not None:
            part = tween(part)
        _warp(round(start_x + (x - start_x) * part), round(start_y + (y - start_y) * part))
        display.sync()
        left = begin + step * wait - _now()
        if left > 0:
            _sleep(left)
        if step > 1:
            failSafeCheck()
    _warp(x, y)
    if steps > 1:
        display.sync()
        _sleep(max(0, begin + steps * wait - _now()))


def _offset(xOffset, yOffset):
    if xOffset is not None and not isinstance(xOffset, (int, float)):
        xOffset, yOffset = xOffset
    here = _x().pointer()
    return here[0] + int(xOffset or 0), here[1] + int(yOffset or 0)


def moveTo(x=None, y=None, duration=0.0, tween=None, logScreenshot=False, _pause=True):
    failSafeCheck()
    x, y = _target(x, y)
    _glide(x, y, duration, tween)
    _finish(_pause)


def moveRel(xOffset=None, yOffset=None, duration=0.0, tween=None, logScreenshot=False, _pause=True):
    failSafeCheck()
    x, y = _offset(xOffset, yOffset)
    _glide(x, y, duration, tween)
    _finish(_pause)


move = moveRel


def _drag(x, y, duration, tween, button, mouseDownUp):
    number = _button(button)
    if mouseDownUp:
        _x().fake(_BUTTON_PRESS, number)
    try:
        _glide(x, y, duration, tween, dragging=True)
    finally:
        if mouseDownUp:
            _x().fake(_BUTTON_RELEASE, number)


def dragTo(
    x=None, y=None, duration=0.0, tween=None, button=PRIMARY, logScreenshot=None, _pause=True, mouseDownUp=True
):
    failSafeCheck()
    x, y = _target(x, y)
    _drag(x, y, duration, tween, button, mouseDownUp)
    _finish(_pause)


def dragRel(
    xOffset=0, yOffset=0, duration=0.0, tween=None, button=PRIMARY, logScreenshot=None, _pause=True, mouseDownUp=True
):
    failSafeCheck()
    x, y = _offset(xOffset, yOffset)
    _drag(x, y, duration, tween, button, mouseDownUp)
    _finish(_pause)


drag = dragRel


def _go(x, y, duration=0.0, tween=None):
    if x is not None or y is not None:
        _glide(*_target(x, y), duration, tween)


def mouseDown(x=None, y=None, button=PRIMARY, duration=0.0, tween=None, logScreenshot=None, _pause=True):
    failSafeCheck()
    number = _button(button)
    _go(x, y, duration, tween)
    _x().fake(_BUTTON_PRESS, number)
    _finish(_pause)


def mouseUp(x=None, y=None, button=PRIMARY, duration=0.0, tween=None, logScreenshot=None, _pause=True):
    failSafeCheck()
    number = _button(button)
    _go(x, y, duration, tween)
    _x().fake(_BUTTON_RELEASE, number)
    _finish(_pause)


def click(
    x=None, y=None, clicks=1, interval=0.0, button=PRIMARY, duration=0.0, tween=None, logScreenshot=None, _pause=True
):
    failSafeCheck()
    number = _button(button)
    _go(x, y, duration, tween)
    for turn in range(int(clicks)):
        if turn:
            failSafeCheck()
        _x().fake(_BUTTON_PRESS, number)
        _x().fake(_BUTTON_RELEASE, number)
        if interval:
            _x().sync()
            _sleep(interval)
    _finish(_pause)


def leftClick(x=None, y=None, interval=0.0, duration=0.0, tween=None, logScreenshot=None, _pause=True):
    click(x, y, 1, interval, LEFT, duration, tween, logScreenshot, _pause)


def rightClick(x=None, y=None, interval=0.0, duration=0.0, tween=None, logScreenshot=None, _pause=True):
    click(x, y, 1, interval, RIGHT, duration, tween, logScreenshot, _pause)


def middleClick(x=None, y=None, interval=0.0, duration=0.0, tween=None, logScreenshot=None, _pause=True):
    click(x, y, 1, interval, MIDDLE, duration, tween, logScreenshot, _pause)


def doubleClick(x=None, y=None, interval=0.0, button=LEFT, duration=0.0, tween=None, logScreenshot=None, _pause=True):
    click(x, y, 2, interval, button, duration, tween, logScreenshot, _pause)


def tripleClick(x=None, y=None, interval=0.0, button=LEFT, duration=0.0, tween=None, logScreenshot=None, _pause=True):
    click(x, y, 3, interval, button, duration, tween, logScreenshot, _pause)


def _wheel(clicks, x, y, more, less, pause):
    failSafeCheck()
    _go(x, y)
    clicks = int(clicks)
    for turn in range(abs(clicks)):
        _x().fake(_BUTTON_PRESS, more if clicks > 0 else less)
        _x().fake(_BUTTON_RELEASE, more if clicks > 0 else less)
        if turn % 200 == 199:
            _x().sync()
    _finish(pause)


def vscroll(clicks, x=None, y=None, logScreenshot=None, _pause=True):
    _wheel(clicks, x, y, 4, 5, _pause)


def hscroll(clicks, x=None, y=None, logScreenshot=None, _pause=True):
    _wheel(clicks, x, y, 7, 6, _pause)


scroll = vscroll


# Keyboard


def _key(key, down, up):
    if not _kbd().key(key, down, up):
        _keys.warn_unknown(key)
        return False
    return True


def keyDown(key, logScreenshot=None, _pause=True):
    failSafeCheck()
    _key(key, True, False)
    _finish(_pause)


def keyUp(key, logScreenshot=None, _pause=True):
    failSafeCheck()
    _key(key, False, True)
    _finish(_pause)


def _press(key):
    keyboard = _kbd()
    # Caps Lock must not change a character; for a named key it is left alone.
    _, saved = keyboard.settle(locks=isinstance(key, str) and len(key) == 1)
    try:
        _key(key, True, True)
    finally:
        keyboard.restore(saved)


def press(keys, presses=1, interval=0.0, logScreenshot=None, _pause=True):
    failSafeCheck()
    keys = [keys] if isinstance(keys, str) else list(keys)
    for _ in range(int(presses)):
        for key in keys:
            failSafeCheck()
            _press(key)
            if interval:
                _x().sync()
                _sleep(interval)
    _finish(_pause)


class _Hold:
    def __init__(self, keys, pause):
        self._keys = keys
        self._pause = pause

    def __enter__(self):
        for key in self._keys:
            _key(key, True, False)
        _finish(self._pause)

    def __exit__(self, *_error):
        for key in reversed(self._keys):
            _kbd().key(key, False, True)
        _finish(self._pause)


def hold(keys, logScreenshot=None, _pause=True):
    failSafeCheck()
    return _Hold([keys] if isinstance(keys, str) else list(keys), _pause)


def hotkey(*args, interval=0.0, logScreenshot=None, _pause=True):
    failSafeCheck()
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = args[0]
    keyboard = _kbd()
    _, saved = keyboard.settle(locks=False)
    done = []
    try:
        for key in args:
            if _key(key, True, False):
                done.append(key)
            if interval:
                _x().sync()
                _sleep(interval)
    finally:
        for key in reversed(done):
            keyboard.key(key, False, True)
            if interval:
                _x().sync()
                _sleep(interval)
        keyboard.restore(saved)
    _finish(_pause)


def typewrite(message, interval=0.0, logScreenshot=None, _pause=True):
    failSafeCheck()

    def between(seconds):
        _sleep(seconds)
        failSafeCheck()

    if isinstance(message, str):
        _kbd().write(message, interval, between)
    else:
        for key in message:
            _press(key)
            if interval:
                _x().sync()
                between(interval)
    _finish(_pause)


write = typewrite


# Screen


def screenshot(imageFilename=None, region=None, allScreens=False):
    from . import _image

    if region is not None:
        region = tuple(int(v) for v in region)
        if len(region) != 4:
            raise ValueError("region must be (left, top, width, height)")
    image = _image.grab(_x(), region)
    if imageFilename is not None:
        image.save(imageFilename)
    return image


grab = screenshot


def pixel(x, y):
    blue, green, red = _x().image(int(x), int(y), 1, 1)[:3]
    return red, green, blue


def pixelMatchesColor(x, y, expectedRGBColor, tolerance=0):
    return all(abs(a - b) <= tolerance for a, b in zip(pixel(x, y), expectedRGBColor))


def _exact(kwargs):
    if kwargs.pop("confidence", None) not in (None, 1, 1.0, 0.999):
        raise NotImplementedError("confidence needs OpenCV, which this desktop does not have; only exact matches are found")


def useImageNotFoundException(value=None):
    global USE_IMAGE_NOT_FOUND_EXCEPTION
    USE_IMAGE_NOT_FOUND_EXCEPTION = True if value is None else bool(value)


def _found(boxes):
    for box in boxes:
        return Box(*box)
    if USE_IMAGE_NOT_FOUND_EXCEPTION:
        raise ImageNotFoundException("the picture is nowhere on the searched image")
    return None


def locateAll(needleImage, haystackImage, grayscale=False, limit=1000, region=None, step=1, **kwargs):
    from . import _image

    _exact(kwargs)
    return (Box(*box) for box in _image.find(needleImage, haystackImage, grayscale, region, limit))


def locate(needleImage, haystackImage, grayscale=False, limit=1, region=None, step=1, **kwargs):
    return _found(locateAll(needleImage, haystackImage, grayscale, 1, region, **kwargs))


def locateAllOnScreen(image, grayscale=False, limit=1000, region=None, step=1, **kwargs):
    return locateAll(image, screenshot(), grayscale, limit, region, **kwargs)


def locateOnScreen(image, minSearchTime=0, grayscale=False, limit=1, region=None, step=1, **kwargs):
    begin = _now()
    while True:
        for box in locateAllOnScreen(image, grayscale, 1, region, **dict(kwargs)):
            return box
        if _now() - begin >= minSearchTime:
            return _found(())
        _sleep(0.1)


def locateCenterOnScreen(image, **kwargs):
    box = locateOnScreen(image, **kwargs)
    return None if box is None else center(box)


def center(coords):
    left, top, width, height = coords
    return Point(left + int(width / 2), top + int(height / 2))


# Others


def sleep(seconds):
    _sleep(seconds)


def countdown(seconds):
    for left in range(int(seconds), 0, -1):
        print(left, end=" ", flush=True)
        _sleep(1)
    print()


def getPointOnLine(x1, y1, x2, y2, n):
    return (x2 - x1) * n + x1, (y2 - y1) * n + y1


def _no_dialogs(*_args, **_kwargs):
    raise PyAutoGUIException("nobody sits at this desktop to answer a message box")


alert = confirm = prompt = password = _no_dialogs


def mouseInfo():
    raise PyAutoGUIException("mouseInfo is an interactive program; use pyautogui.position()")


__all__ = [name for name in list(globals()) if not name.startswith("_") and name != "namedtuple"]
__all__ += ["linear"] + [
    "ease" + way + name
    for name in ("Quad", "Cubic", "Quart", "Quint", "Sine", "Expo", "Circ", "Back", "Bounce", "Elastic")
    for way in ("In", "Out", "InOut")
]


def __getattr__(name):
    # Easing curves, loaded when one is named.
    if name in __all__:
        from . import _tween

        return getattr(_tween, name)
    raise AttributeError("module 'pyautogui' has no attribute %r" % (name,))
