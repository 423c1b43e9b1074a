"""A headless Chromium over its debugging pipe: opens a page, notes what goes wrong, answers questions."""

import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")


def find():
    """Path of a Chromium, or None."""
    wanted = [os.environ["LINBET_BROWSER"]] if os.environ.get("LINBET_BROWSER") else NAMES
    return next(filter(None, map(shutil.which, wanted)), None)


class Page:
    """One tab. `trouble` collects console errors, exceptions, and requests for anything but the page itself."""

    def __init__(self, send, receive):
        self._send, self._receive = send, receive
        self._ids = itertools.count(1)
        self._session = None
        self.trouble = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._send(message)
        return self._until(lambda m: m.get("id") == number)["result"]

    def _until(self, wanted):
        while True:
            message = self._receive()
            self._note(message)
            if wanted(message):
                assert "error" not in message, message["error"]
                return message

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.trouble.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.trouble.append(json.dumps(params["args"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.trouble.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("data:", self.url)):
            self.trouble.append(f"request of {params['request']['url']}")

    url = "about:blank"

    def open(self, path, *, width, height=900, dark=False):
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.url = Path(path).resolve().as_uri()
        self._send(
            {
                "id": next(self._ids),
                "method": "Page.navigate",
                "params": {"url": self.url},
                "sessionId": self._session,
            }
        )
        self._until(lambda m: m.get("method") == "Page.loadEventFired")

    def ask(self, expression):
        """The value of a JavaScript expression in the page; promises are waited for."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key, code):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def shoot(self, path, *, whole=True):
        """A screenshot as PNG, of the whole page or of what is in view."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(found["data"]))


@contextlib.contextmanager
def browsing(path):
    """A browser with one empty tab, closed at the end."""
    to_browser, ours_out = os.pipe()
    ours_in, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]
        # Chromium listens on descriptor 3 and answers on 4.
        shell = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"'
        process = subprocess.Popen(
            ["bash", "-c", shell, path, *options, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        held = b""

        def send(message):
            os.write(ours_out, json.dumps(message).encode() + b"\0")

        def receive():
            nonlocal held
            while b"\0" not in held:
                chunk = os.read(ours_in, 65536)
                assert chunk, "the browser went away"
                held += chunk
            message, held = held.split(b"\0", 1)
            return json.loads(message)

        try:
            yield Page(send, receive)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(ours_out)
            os.close(ours_in)
