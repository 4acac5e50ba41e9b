"""What is looked at again and again while a load runs."""
import threading
import time


class Sampler(threading.Thread):
    """Calls `look` every so many seconds between `with` and its end, and keeps in `seen` when it
    did and what it saw."""

    def __init__(self, seconds, look):
        super().__init__(daemon=True)
        self.seconds, self.look = seconds, look
        self.over, self.seen = threading.Event(), []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def run(self):
        while not self.over.wait(self.seconds):
            self.seen.append((time.time(), self.look()))
