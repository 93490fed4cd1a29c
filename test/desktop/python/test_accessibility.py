import json
import os
import shutil
import signal
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

from support import GUEST, PYTHON, Desktop, wait_for

sys.dont_write_bytecode = True
sys.path.insert(0, GUEST)

NS = "{https://accessibility.ubuntu.example.org/ns/%s}"
FIRST = 'Hello <b>&"quoted"\nzweite Zeile é 漢字\n'
HARD = "".join(chr(0x4E00 + 13 * (i * 7 % 90)) + "aZ<>|~\"'é ß€😀"[i % 12] for i in range(150))


class SanitizeTest(unittest.TestCase):
    def test_names_and_text(self):
        import accessibility as a

        document = '<%s %s="%s">%s</%s>' % (
            a.xml_name("2 push/button é", "x"), a.xml_name("a b:c", "x"), a.xml_value('<"&\x00\x1b\n\ufffe\ud800>'),
            a.xml_text("a\ufffcb\ufffdc\x0b]]>\r\n"), a.xml_name("2 push/button é", "x"),
        )  # fmt: skip
        node = ElementTree.fromstring(document)
        self.assertEqual(node.tag, "_2-push-button--")
        self.assertEqual(node.attrib, {"a-b-c": '<"&\n>'})
        self.assertEqual(node.text, "abc]]>\r\n")
        self.assertEqual(a.xml_name("", "unknown"), "unknown")


@unittest.skipUnless(shutil.which("mousepad") and shutil.which("dbus-run-session"), "needs mousepad and dbus")
class AccessibilityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.desktop = Desktop()
        # One bus for the whole class; its address is what the guest has too.
        cls.bus = cls.desktop.start(
            ["dbus-daemon", "--session", "--nofork", "--print-address=1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        cls.desktop.env["DBUS_SESSION_BUS_ADDRESS"] = cls.bus.stdout.readline().strip()
        if shutil.which("openbox"):
            cls.desktop.start(["openbox", "--sm-disable"], stderr=subprocess.DEVNULL)
        path = os.path.join(cls.desktop.home.name, "hello.txt")
        with open(path, "w") as file:
            file.write(FIRST)
        cls.pad = cls.desktop.start(["mousepad", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: cls.focused_text() == FIRST)

    @classmethod
    def tearDownClass(cls):
        cls.desktop.close()

    @classmethod
    def run_program(cls, *options):
        return subprocess.run(
            [PYTHON, os.path.join(GUEST, "accessibility.py"), *options], env=cls.desktop.env, capture_output=True, timeout=30
        )

    @classmethod
    def tree(cls, *options):
        done = cls.run_program(*options)
        assert done.returncode == 0, done.stderr.decode()
        return ElementTree.fromstring(done.stdout)

    @classmethod
    def focused_text(cls):
        for node in cls.tree().iter("text"):
            if node.get(NS % "state" + "multi_line"):
                return node.text
        return None

    def test_1_tree(self):
        root = self.tree()
        self.assertEqual(root.tag, "desktop-frame")
        self.assertIn("mousepad", [app.get("name") for app in root])
        frame = root.find("./application[@name='mousepad']/frame")
        self.assertIn("hello.txt", frame.get("name"))
        self.assertRegex(frame.get(NS % "component" + "screencoord"), r"^\(-?\d+, -?\d+\)$")
        self.assertRegex(frame.get(NS % "component" + "size"), r"^\(\d+, \d+\)$")
        self.assertEqual(frame.get(NS % "state" + "showing"), "true")
        self.assertEqual(self.focused_text(), FIRST)
        hidden = [n for n in root.iter("menu-item") if n.get(NS % "state" + "showing") is None]
        self.assertTrue(hidden)
        self.assertTrue(all(n.get(NS % "component" + "screencoord") is None for n in hidden))

    def test_2_typing_into_gtk(self):
        """GTK looks keys up lazily: the hard case for lent keycodes."""
        self.desktop.step("pyautogui.PAUSE = 0.1; pyautogui.hotkey('ctrl', 'a'); pyautogui.press('delete'); pyautogui.write(sys.argv[1])", HARD)
        wait_for(lambda: self.focused_text() == HARD, 5)
        self.assertEqual(self.focused_text(), HARD)
        self.desktop.step("pyautogui.hotkey('ctrl', 's')")
        path = os.path.join(self.desktop.home.name, "hello.txt")

        def saved():
            with open(path) as file:
                return file.read().rstrip("\n")

        wait_for(lambda: saved() == HARD, 5)
        self.assertEqual(saved(), HARD)

    @unittest.skipUnless(shutil.which("xfce4-terminal") and shutil.which("openbox"), "needs xfce4-terminal and openbox")
    def test_3_terminal(self):
        output = lambda: json.loads(self.run_program("--terminal").stdout)["output"]  # noqa: E731
        self.assertIsNone(output())
        terminal = self.desktop.start(
            ["xfce4-terminal", "--disable-server", "-x", "sh", "-c", "echo ready; exec cat"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.assertEqual(wait_for(output), "ready")
        self.desktop.step("pyautogui.write('echo \"<é漢😀>\" | ~\\n')")
        line = 'echo "<é漢😀>" | ~'
        expected = "ready\n%s\n%s" % (line, line)
        wait_for(lambda: output() == expected, 5)
        self.assertEqual(output(), expected)
        self.desktop.stop(terminal)
        self.assertTrue(wait_for(lambda: output() is None, 5))

    def test_4_hanging_program(self):
        os.killpg(self.pad.pid, signal.SIGSTOP)
        try:
            root = self.tree("--app-timeout", "2")
        finally:
            os.killpg(self.pad.pid, signal.SIGCONT)
        self.assertEqual([app.get("truncated") for app in root if app.tag == "application"], ["true"])


if __name__ == "__main__":
    unittest.main()
