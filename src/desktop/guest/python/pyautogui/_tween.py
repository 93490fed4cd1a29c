"""Easing curves: each takes and returns a fraction of the way, 0 to 1."""

from math import cos, pi, sqrt


def linear(n):
    return n


def _mirror(ease_in):
    return lambda n: 1 - ease_in(1 - n)


def _halves(ease_in):
    def both(n):
        return ease_in(2 * n) / 2 if n < 0.5 else 1 - ease_in(2 - 2 * n) / 2

    return both


def _bounce_in(n):
    rest = 1 - n
    # Four parabolas, each touching 1 at its ends.
    for middle, half, low in ((0, 4 / 11, 0), (6 / 11, 2 / 11, 3 / 4), (9 / 11, 1 / 11, 15 / 16), (21 / 22, 1 / 22, 63 / 64)):
        if rest <= middle + half:
            return 1 - (low + (1 - low) * ((rest - middle) / half) ** 2)
    return 0.0


def _elastic_in(n):
    if n in (0, 1):
        return float(n)
    return 2 ** (-10 * (1 - n)) * cos((1 - n) * 2 * pi / 0.3)


_CURVES = {
    "Quad": lambda n: n**2,
    "Cubic": lambda n: n**3,
    "Quart": lambda n: n**4,
    "Quint": lambda n: n**5,
    "Sine": lambda n: 1 - cos(n * pi / 2),
    "Expo": lambda n: 0.0 if n == 0 else 2 ** (10 * (n - 1)),
    "Circ": lambda n: 1 - sqrt(max(0.0, 1 - n * n)),
    "Back": lambda n: n * n * (2.70158 * n - 1.70158),
    "Bounce": _bounce_in,
    "Elastic": _elastic_in,
}

NAMES = ["linear"]
for _name, _curve in _CURVES.items():
    for _way, _make in (("In", lambda f: f), ("Out", _mirror), ("InOut", _halves)):
        globals()["ease%s%s" % (_way, _name)] = _make(_curve)
        NAMES.append("ease%s%s" % (_way, _name))
