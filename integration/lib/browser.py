"""A page in a headless Chromium, by its DevTools protocol over a pipe (chromium --remote-debugging-pipe)."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from lib.events import PATIENCE

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")


def find_browser():
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Browser:
    """Opens one file at a time, in a window of that width. It has no network, as the page must not need one."""

    def __init__(self, width=1200, height=900):
        self._profile = tempfile.TemporaryDirectory(prefix="rankshim-browser-", ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                   f"--window-size={width},{height}", f"--user-data-dir={self._profile.name}",
                   "--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars", "about:blank"]
        self._process = subprocess.Popen(["bash", "-c", f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"', "bash", *command],
                                         pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._read, self._number, self.events = b"", 0, []
        targets = self._call("Target.getTargets")["targetInfos"]
        target = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self._call("Browser.close")
            self._process.wait(PATIENCE)
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def open(self, path):
        """Waits until it is loaded. Returns the addresses that were asked for, and what the browser has complained of."""
        self.events.clear()
        self._ask("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._take()
        self.evaluate("document.readyState")  # what came with the load is here then
        asked = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        said = [event["params"]["entry"]["text"] for event in self.events if event["method"] == "Log.entryAdded"]
        return asked, said

    def evaluate(self, expression):
        """The value of an expression in the page."""
        done = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def picture(self):
        """The whole page as PNG."""
        height = self.evaluate("document.documentElement.scrollHeight")
        width = self.evaluate("document.documentElement.scrollWidth")
        shown = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                          clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        return base64.b64decode(shown["data"])

    def _ask(self, method, **parameters):
        return self._call(method, session=self._session, **parameters)

    def _call(self, method, session=None, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._take()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _take(self):
        """The next message; events are kept."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._read:
            assert select.select([self._in], [], [], max(0, deadline - time.monotonic()))[0], "the browser does not answer"
            more = os.read(self._in, 1 << 20)
            assert more, "the browser has ended"
            self._read += more
        text, _, self._read = self._read.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message
