"""A private X server, programs on it, and a window that records its input."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GUEST = os.path.abspath(os.path.join(HERE, "../../../src/desktop/guest/python"))
PYTHON = "/usr/bin/python3"
WIDTH, HEIGHT = 1920, 1080


class Desktop:
    def __init__(self):
        read, write = os.pipe()
        self.server = subprocess.Popen(
            # -noreset: without a window manager the server would start over
            # whenever its last client leaves.
            ["Xvfb", "-displayfd", str(write), "-screen", "0", "%dx%dx24" % (WIDTH, HEIGHT), "-noreset", "-nolisten", "tcp"],
            pass_fds=[write],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(write)
        with os.fdopen(read) as file:
            number = file.readline().strip()
        if not number:
            raise RuntimeError("Xvfb did not start")
        self.name = ":" + number
        self.home = tempfile.TemporaryDirectory()
        self.env = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "DBUS_", "GTK_", "XAUTH"))},
            "DISPLAY": self.name,
            "HOME": self.home.name,
            "PYTHONPATH": GUEST,
            "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8",
            # No dconf or session files of the person running the tests.
            "GSETTINGS_BACKEND": "memory",
        }
        self.programs = []

    def start(self, argv, **kwargs):
        program = subprocess.Popen(argv, env=self.env, start_new_session=True, **kwargs)
        self.programs.append(program)
        return program

    def stop(self, program):
        if program.poll() is None:
            try:
                os.killpg(program.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            try:
                program.wait(3)
            except subprocess.TimeoutExpired:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
        for pipe in (program.stdin, program.stdout, program.stderr):
            if pipe:
                pipe.close()

    def close(self):
        for program in self.programs:
            self.stop(program)
        self.server.terminate()
        self.server.wait()
        self.home.cleanup()

    def python(self, code, *args, check=True):
        """Run code as an agent step would: a new process, one -c."""
        done = subprocess.run([PYTHON, "-c", code, *args], env=self.env, capture_output=True, text=True, timeout=60)
        if check and done.returncode:
            raise AssertionError(done.stderr)
        return done

    def step(self, code, *args, check=True):
        return self.python("import pyautogui; pyautogui.FAILSAFE = False; pyautogui.PAUSE = 0; import sys\n" + code, *args, check=check)


class Recorder:
    def __init__(self, desktop, *options):
        self.desktop = desktop
        self.program = desktop.start(
            [PYTHON, os.path.join(HERE, "recorder.py"), *options], stdout=subprocess.PIPE, text=True
        )
        ready = json.loads(self.program.stdout.readline())
        assert ready["type"] == "ready", ready
        self.window = ready["window"]
        # Read all along: a recorder with a full pipe would stop reading events.
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.program.stdout), daemon=True)
        self.reader.start()

    def finish(self):
        """Every event up to now."""
        self.desktop.python(
            "import sys; from deskhand_x11 import Display; d = Display(); w = int(sys.argv[1])\n"
            "from struct import pack\n"
            "d.request(25, 0, pack('<II', w, 0) + pack('<BBHII5I', 33, 32, 0, w, d.atom('TEST_END'), 0, 0, 0, 0, 0)); d.sync()",
            str(self.window),
        )
        self.reader.join(30)
        events = [json.loads(line) for line in self.lines]
        if not events or events.pop()["type"] != "end":
            raise AssertionError("the recorder did not come to its end")
        self.desktop.stop(self.program)
        return events


def text_of(events):
    return "".join(event["text"] for event in events if event["type"] == "key")


def wait_for(check, seconds=15):
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit("this is not a test")
