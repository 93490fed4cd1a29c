"""Screenshots and finding one picture inside another (exact match only)."""

import os

from PIL import Image


def grab(display, region=None):
    x, y, width, height = region or (0, 0) + tuple(display.root_size())
    full_width, full_height = display.root_size()
    left, top = max(0, x), max(0, y)
    right, bottom = min(full_width, x + width), min(full_height, y + height)
    if right <= left or bottom <= top:
        raise ValueError("the region %r is outside of the screen" % (region,))
    data = display.image(left, top, right - left, bottom - top)
    size = (right - left, bottom - top)
    return Image.frombuffer("RGB", size, bytes(data), "raw", "BGRX", 0, 1)


def _load(image, grayscale):
    if isinstance(image, (str, bytes, os.PathLike)):
        image = Image.open(image)
    elif not isinstance(image, Image.Image) and hasattr(image, "shape"):
        image = Image.fromarray(image)
    return image.convert("L" if grayscale else "RGB")


def find(needle, haystack, grayscale=False, region=None, limit=None):
    """Every (left, top, width, height) where `needle` stands in `haystack`."""
    needle, haystack = _load(needle, grayscale), _load(haystack, grayscale)
    offset_x = offset_y = 0
    if region is not None:
        offset_x, offset_y, width, height = (int(v) for v in region)
        haystack = haystack.crop((offset_x, offset_y, offset_x + width, offset_y + height))
    width, height = needle.size
    if width > haystack.width or height > haystack.height:
        raise ValueError("the picture to find is larger than the one to search")
    channels = len(needle.getbands())
    line, row = haystack.width * channels, width * channels
    hay, pin = haystack.tobytes(), needle.tobytes()
    rows = [pin[i * row:(i + 1) * row] for i in range(height)]
    # Search for the row with the most different bytes: a plain first row
    # would be found nearly everywhere on a plain background.
    key = max(range(height), key=lambda i: len(set(rows[i])))
    last_start = (haystack.height - height) * line
    found = 0
    at = hay.find(rows[key], key * line)
    while at != -1 and at - key * line < last_start + line:
        column = at % line
        top = at // line - key
        if column % channels == 0 and column + row <= line:
            start = top * line + column
            if all(hay[start + i * line:start + i * line + row] == rows[i] for i in range(height)):
                yield offset_x + column // channels, offset_y + top, width, height
                found += 1
                if limit is not None and found >= limit:
                    return
        at = hay.find(rows[key], at + 1)
