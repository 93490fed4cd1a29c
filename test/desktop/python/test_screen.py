import io
import json
import os
import subprocess
import unittest

from PIL import Image
from support import GUEST, HEIGHT, PYTHON, WIDTH, Desktop, Recorder


class ScreenTest(unittest.TestCase):
    def setUp(self):
        self.desktop = Desktop()
        self.helper = self.desktop.start(
            [PYTHON, os.path.join(GUEST, "screen.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def tearDown(self):
        self.desktop.close()

    def ask(self, request):
        line = request if isinstance(request, bytes) else json.dumps(request).encode()
        self.helper.stdin.write(line + b"\n")
        self.helper.stdin.flush()
        answer = json.loads(self.helper.stdout.readline())
        return answer, self.helper.stdout.read(answer.get("length", 0))

    def picture(self):
        answer, data = self.ask({"op": "screenshot"})
        self.assertEqual({**answer, "length": 0}, {"ok": True, "length": 0, "width": WIDTH, "height": HEIGHT})
        image = Image.open(io.BytesIO(data))
        image.load()
        self.assertEqual((image.size, image.mode), ((WIDTH, HEIGHT), "RGB"))
        return image

    def test_cursor_is_in_the_picture(self):
        recorder = Recorder(self.desktop)
        self.desktop.step("pyautogui.moveTo(300, 400)")
        self.assertEqual(self.ask({"op": "cursor"})[0], {"ok": True, "x": 300, "y": 400})
        first = self.picture()
        self.desktop.step("pyautogui.moveTo(900, 400)")
        second = self.picture()
        self.assertEqual(first.getpixel((1500, 1000)), (51, 102, 153))
        plain = Image.new("RGB", first.size, (51, 102, 153))
        from PIL import ImageChops

        box = ImageChops.difference(first, plain).getbbox()
        moved = ImageChops.difference(second, plain).getbbox()
        self.assertIsNotNone(box)
        # The picture of the pointer surrounds its hot spot, and moves with it.
        self.assertTrue(box[0] <= 300 <= box[2] and box[1] <= 400 <= box[3], box)
        self.assertEqual(moved, (box[0] + 600, box[1], box[2] + 600, box[3]))
        self.assertEqual(self.picture().tobytes(), second.tobytes())
        # At the edge of the screen a part of the pointer is outside.
        self.desktop.step("pyautogui.moveTo(0, 0)")
        self.picture()
        self.desktop.step("pyautogui.moveTo(1919, 1079)")
        self.picture()
        recorder.finish()

    def test_protocol(self):
        self.assertEqual(self.ask({"op": "size"})[0], {"ok": True, "width": WIDTH, "height": HEIGHT})
        for bad in ({"op": "dance"}, {}, [1], b"{nonsense"):
            answer, _ = self.ask(bad)
            self.assertFalse(answer["ok"])
            self.assertTrue(answer["error"])
        self.assertTrue(self.ask({"op": "size"})[0]["ok"])
        self.helper.stdin.close()
        self.assertEqual(self.helper.wait(5), 0)

    def test_lost_display(self):
        self.picture()
        self.desktop.server.kill()
        self.desktop.server.wait()
        answer, _ = self.ask({"op": "screenshot"})
        self.assertFalse(answer["ok"])
        self.assertIn("the display %s is gone: " % self.desktop.name, answer["error"])
        self.assertEqual(self.helper.wait(5), 3)

    def test_no_display(self):
        done = subprocess.run(
            [PYTHON, os.path.join(GUEST, "screen.py")], env={**self.desktop.env, "DISPLAY": ":9999"},
            input=b'{"op": "size"}\n', capture_output=True, timeout=10,
        )  # fmt: skip
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot connect to display :9999", json.loads(done.stdout)["error"])

    def test_memory_stays_flat(self):
        def resident():
            with open("/proc/%d/status" % self.helper.pid) as file:
                return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

        for turn in range(60):
            self.desktop.server.poll()
            if turn == 20:
                before = resident()
            self.ask({"op": "screenshot"})
        self.assertLess(resident() - before, 4096)


if __name__ == "__main__":
    unittest.main()
