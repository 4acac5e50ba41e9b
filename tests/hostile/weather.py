"""The machine under a server: a clock that jumps, a disk that is full or fails. A library that is
preloaded into the server does it (weather.c); this builds it, and tells it what the weather is."""

import mmap
import os
import pathlib
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
GOOD, FULL, BROKEN, UNSYNCABLE = b"-nes"


class Weather:
    """That of one server, with its data in `data`; notes go into `folder`."""

    def __init__(self, folder, data):
        self.library = folder / "weather.so"
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", self.library,
                        HERE / "weather.c", "-ldl"], check=True)
        self.path, self.data = folder / "weather", data
        self.path.write_bytes(struct.pack("<cxxxxxxxq", b"-", 0))
        with open(self.path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 16)

    def environment(self):
        return {**os.environ, "LD_PRELOAD": str(self.library),
                "WEATHER_DIR": str(self.data.resolve()), "WEATHER_PAGE": str(self.path)}

    def disk(self, mood):
        self.page[0] = mood

    def clock(self, seconds):
        """By how much the time of day is wrong."""
        self.page[8:16] = struct.pack("<q", seconds)

    def clear(self):
        self.disk(GOOD)
        self.clock(0)
