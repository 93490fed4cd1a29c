import random
import string
import subprocess
import unittest

from support import Desktop, Recorder, text_of

ASCII = "".join(chr(code) for code in range(32, 127))
HAN = "".join(chr(0x4E00 + 7 * i) for i in range(200))
WRITE = "pyautogui.write(sys.argv[1])"
CAPS = "pyautogui.press('capslock')"


class KeyboardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.desktop = Desktop()

    @classmethod
    def tearDownClass(cls):
        cls.desktop.close()

    def record(self, code, *args, options=()):
        recorder = Recorder(self.desktop, *options)
        self.result = self.desktop.step(code, *args)
        return recorder.finish()

    def types(self, text, expected=None, code=WRITE, options=()):
        events = self.record(code, text, options=options)
        self.assertEqual(text_of(events), text if expected is None else expected)
        return events

    def test_ascii(self):
        self.types(ASCII)
        self.assertEqual(self.result.stderr, "")

    def test_ascii_by_press(self):
        self.types(ASCII, code="pyautogui.press(list(sys.argv[1]))")

    def test_less_than_uses_the_usual_key(self):
        keys = [event for event in self.types("<") if event["type"] == "key"]
        self.assertEqual([event["keysym"] for event in keys], [0xFFE1, ord("<")])

    def test_accents(self):
        self.types("é ñ ß € Ñ É õ Ž")

    def test_cjk(self):
        self.types("こんにちは 漢字")

    def test_emoji(self):
        self.types("😀🎉 👩‍💻")

    def test_return_and_tab(self):
        self.types("a\tb\nc\r\nd", "a\tb\nc\nd")

    def test_non_layout_by_press(self):
        self.types("éÉ漢", code="[pyautogui.press(c) for c in sys.argv[1]]")

    def test_caps_lock(self):
        text = "Caps lock ON, éÉß 漢 <x>"
        events = self.types(text, code="%s; pyautogui.write(sys.argv[1]); pyautogui.press('q'); %s" % (CAPS, CAPS), expected=text + "q")
        # The lock is back after each call: it was still on for the last tap.
        self.assertTrue(events[-1]["state"] & 2)
        self.types("after")

    def test_second_layout(self):
        set_layout = lambda *args: subprocess.run(["setxkbmap", *args], env=self.desktop.env, check=True)  # noqa: E731
        try:
            set_layout("-layout", "us,ru")
            lock = "pyautogui._x().lock_keyboard(0, 0, 1); pyautogui._x().sync(); "
            text = "Latin <> и русский é"
            self.types(text, code=lock + WRITE)
            set_layout("-layout", "de")
            self.types(ASCII + "äöüß€ @ |~^`é漢")
        finally:
            set_layout("-layout", "us")

    def mixed(self, length, extra):
        choose = random.Random(7)
        alphabet = string.ascii_letters + string.digits + "<>\"'|~ \n\t&*(){}" + "éñßÄ€→" + extra
        return "".join(choose.choice(alphabet) for _ in range(length))

    def test_2000_mixed(self):
        self.types(self.mixed(2000, "漢字😀🎉かな"))

    def test_2000_mixed_with_many_characters(self):
        self.types(self.mixed(2000, HAN))

    def test_slow_client(self):
        self.types(self.mixed(300, HAN), options=["--slow"])

    def test_client_without_ping(self):
        self.types(self.mixed(150, HAN[:60]), options=["--no-ping"])

    def test_several_processes(self):
        recorder = Recorder(self.desktop, "--slow")
        texts = [self.mixed(60, HAN) for _ in range(6)]
        for text in texts:
            self.desktop.step(WRITE, text)
        self.assertEqual(text_of(recorder.finish()), "".join(texts))

    def test_bindings_survive_a_layout_change(self):
        self.types("漢字é")
        subprocess.run(["setxkbmap", "us"], env=self.desktop.env, check=True)
        self.types("漢字é")

    def test_hotkey(self):
        events = self.record("pyautogui.hotkey('ctrl', 'shift', 't'); pyautogui.hotkey(['alt', 'f4'])")
        self.assertEqual(
            [(event["type"], event["keysym"]) for event in events],
            [
                ("key", 0xFFE3), ("key", 0xFFE1), ("key", ord("T")),
                ("keyup", ord("T")), ("keyup", 0xFFE1), ("keyup", 0xFFE3),
                ("key", 0xFFE9), ("key", 0xFFC1), ("keyup", 0xFFC1), ("keyup", 0xFFE9),
            ],
        )  # fmt: skip

    def test_hold_and_named_keys(self):
        events = self.record(
            "with pyautogui.hold('shift'): pyautogui.press(['left', 'left', 'num5'])\n"
            "pyautogui.keyDown('ctrl'); pyautogui.press('PageDown', presses=2); pyautogui.keyUp('ctrl')"
        )
        keys = [(event["keysym"], event["state"]) for event in events if event["type"] == "key"]
        self.assertEqual(
            keys, [(0xFFE1, 0), (0xFF51, 1), (0xFF51, 1), (0xFFB5, 1), (0xFFE3, 0), (0xFF56, 4), (0xFF56, 4)]
        )

    def test_every_name_is_pressed(self):
        events = self.record(
            "import pyautogui._keys as k\nfor n, s in k.NAMES.items():\n  if s and 'lock' not in n: pyautogui.press(n)\n"
            "print([s for n, s in k.NAMES.items() if s and 'lock' not in n])"
        )
        wanted = eval(self.result.stdout)
        self.assertEqual([event["keysym"] for event in events if event["type"] == "key"], wanted)

    def test_list_and_unknown_names(self):
        events = self.record("pyautogui.write(['a', 'enter', 'nonsense', 'b']); pyautogui.press('ctrl+c'); pyautogui.press('super')")
        self.assertEqual(text_of(events), "a\nb")
        self.assertEqual(
            self.result.stderr.splitlines(),
            [
                "pyautogui: unknown key 'nonsense' was ignored",
                "pyautogui: unknown key 'ctrl+c' was ignored (did you mean hotkey('ctrl', 'c')?)",
                "pyautogui: unknown key 'super' was ignored (did you mean win?)",
            ],
        )

    def test_untypable_characters_are_named(self):
        self.types("a\x01bc", "abc")
        self.assertIn("1 characters that no key can type were skipped", self.result.stderr)


if __name__ == "__main__":
    unittest.main()
