import unittest

from support import Desktop, Recorder


class PointerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.desktop = Desktop()

    @classmethod
    def tearDownClass(cls):
        cls.desktop.close()

    def setUp(self):
        self.desktop.step("pyautogui.moveTo(1, 1)")

    def record(self, code, moves=False):
        recorder = Recorder(self.desktop)
        self.result = self.desktop.step(code)
        return [
            (event["type"], event.get("button"), event["x"], event["y"])
            for event in recorder.finish()
            if event["type"] in ("down", "up") or (moves and event["type"] == "move")
        ]

    def test_click_forms(self):
        for call in ("click(100, 200)", "click((100, 200))", "click(x=100.4, y=200)", "click(pyautogui.Point(100, 200))", "click((90, 190, 20, 20))", "leftClick(100, 200)"):
            with self.subTest(call):
                self.assertEqual(self.record("pyautogui." + call), [("down", 1, 100, 200), ("up", 1, 100, 200)])
        self.assertEqual(self.record("pyautogui.moveTo(7, 8); pyautogui.click()"), [("down", 1, 7, 8), ("up", 1, 7, 8)])

    def test_buttons_and_counts(self):
        pair = lambda button: [("down", button, 5, 6), ("up", button, 5, 6)]  # noqa: E731
        for call, expected in (
            ("doubleClick(5, 6)", pair(1) * 2),
            ("tripleClick(5, 6)", pair(1) * 3),
            ("rightClick(5, 6)", pair(3)),
            ("middleClick(5, 6)", pair(2)),
            ("click(5, 6, clicks=2, interval=0.05, button='right')", pair(3) * 2),
            ("click(5, 6, button=pyautogui.SECONDARY)", pair(3)),
            ("scroll(3, 5, 6)", pair(4) * 3),
            ("scroll(-2, x=5, y=6)", pair(5) * 2),
            ("hscroll(2, 5, 6)", pair(7) * 2),
            ("hscroll(-1, 5, 6)", pair(6)),
            ("mouseDown(5, 6, button='middle')\npyautogui.mouseUp(button='middle')", pair(2)),
        ):
            with self.subTest(call):
                self.assertEqual(self.record("pyautogui." + call), expected)
        self.assertNotEqual(self.desktop.step("pyautogui.click(button='wheel')", check=False).returncode, 0)

    def test_moves(self):
        moves = self.record("pyautogui.moveTo(500, 300)", moves=True)
        self.assertEqual(moves, [("move", None, 500, 300)])
        moves = self.record("pyautogui.moveTo(900, 700, duration=0.4, tween=pyautogui.easeInOutQuad)", moves=True)
        self.assertGreater(len(moves), 5)
        self.assertEqual(moves[-1], ("move", None, 900, 700))
        self.assertEqual(moves, sorted(moves))
        done = self.desktop.step("pyautogui.move(-50, 20); print(tuple(pyautogui.position())); pyautogui.moveTo(5000, -9); print(*pyautogui.position())")
        self.assertEqual(done.stdout.split("\n")[:2], ["(850, 720)", "1919 0"])

    def test_drag(self):
        for call in ("dragTo(400, 300)", "dragTo(400, 300, duration=0.3, button='left')", "drag(300, 200)"):
            with self.subTest(call):
                events = self.record("pyautogui.moveTo(100, 100); pyautogui." + call, moves=True)
                events = events[1:]
                self.assertEqual(events[0], ("down", 1, 100, 100))
                self.assertEqual(events[-1], ("up", 1, 400, 300))
                self.assertGreaterEqual(len(events), 5)

    def test_pixels_and_finding(self):
        code = """
from PIL import Image
image = pyautogui.screenshot()
print(image.size, pyautogui.screenshot(region=(10, 10, 30, 20)).size, pyautogui.pixel(300, 300), image.getpixel((300, 300)))
print(pyautogui.pixelMatchesColor(300, 300, (50, 100, 150), tolerance=3), pyautogui.size(), pyautogui.onScreen(1920, 5))
big = Image.new('RGB', (200, 100)); spot = Image.new('RGB', (9, 7), (1, 2, 3)); spot.putpixel((3, 3), (255, 0, 9))
big.paste(spot, (50, 60)); big.paste(spot, (191, 93))
print([tuple(box) for box in pyautogui.locateAll(spot, big)], pyautogui.center(pyautogui.locate(spot, big)))
try: pyautogui.locateOnScreen(spot)
except pyautogui.ImageNotFoundException as error: print('not found')
"""
        recorder = Recorder(self.desktop)
        out = self.desktop.step(code).stdout.splitlines()
        recorder.finish()
        self.assertEqual(out[0], "(1920, 1080) (30, 20) (51, 102, 153) (51, 102, 153)")
        self.assertEqual(out[1], "True Size(width=1920, height=1080) False")
        self.assertEqual(out[2], "[(50, 60, 9, 7), (191, 93, 9, 7)] Point(x=54, y=63)")
        self.assertEqual(out[3], "not found")

    def test_failsafe_and_errors(self):
        done = self.desktop.python("import pyautogui; pyautogui.moveTo(0, 0); pyautogui.click(5, 5)", check=False)
        self.assertIn("FailSafeException", done.stderr)
        done = self.desktop.python("import pyautogui; pyautogui.alert('x')", check=False)
        self.assertIn("nobody sits at this desktop", done.stderr)
        done = self.desktop.python("from pyautogui import *; print(easeInBounce(1) == 1, KEYBOARD_KEYS[0] in KEY_NAMES, isValidKey('f5'), isValidKey('qq'))")
        self.assertEqual(done.stdout.split(), ["True", "True", "True", "False"])


if __name__ == "__main__":
    unittest.main()
