"""Writes what was measured into a page, between markers that name the benchmark."""
import os

from . import process


def markers(name, script=None):
    """The lines around the part of `name`, which is the script's if none is said."""
    first = f"<!-- {name}: written by bench/{script or name}, not by hand -->"
    return (first, f"<!-- {name}: end -->")


def write(path, name, text, script=None):
    """Replaces the part between the markers of `name`, which is the script's if none is said."""
    first, last = markers(name, script)
    with open(path) as file:
        page = file.read()
    if first not in page or last not in page:
        raise process.Trouble(f"{path} lacks the lines\n{first}\n{last}")
    before, rest = page.split(first, 1)
    after = rest.split(last, 1)[1]
    with open(path + ".new", "w") as out:
        out.write(f"{before}{first}\n\n{text.strip()}\n\n{last}{after}")
    os.replace(path + ".new", path)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def size(count):
    """Bytes as people say them."""
    for unit, digits, power in (("GB", 2, 1e9), ("MB", 1, 1e6), ("kB", 1, 1e3)):
        if abs(count) >= power:
            return f"{count / power:.{digits}f} {unit}"
    return f"{count:.0f} B"


def time(us):
    """Microseconds as people say them; nothing was measured in a run that was too short."""
    if us is None:
        return "–"
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    if us >= 1e3:
        return f"{us / 1e3:.2f} ms" if us < 1e4 else f"{us / 1e3:.0f} ms"
    return f"{us:.2f} µs" if us < 100 else f"{us:.0f} µs"
