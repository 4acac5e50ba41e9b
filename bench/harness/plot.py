"""Small plots as SVG files: bars with their values, lines with round axes. No library needed."""
import html
import math

STYLE = """<style>
text{font:12px system-ui,sans-serif;fill:#1b1b1a}.soft{fill:#6b6a66}.title{font-weight:600}
.grid{stroke:#e4e3df}.page{fill:#fcfcfb}
.s0{fill:#2a78d6;stroke:#2a78d6}.s1{fill:#d9562b;stroke:#d9562b}.s2{fill:#1d8f6a;stroke:#1d8f6a}
.s3{fill:#8a5bd1;stroke:#8a5bd1}.line{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#eceae4}.soft{fill:#a3a19a}.grid{stroke:#3a3936}
.page{fill:#1a1a19}}
</style>"""
WIDTH, LABEL, ROW = 640, 90, 24


def text(x, y, content, kind="", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
            f"{html.escape(content)}</text>")


def document(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">{STYLE}'
            f'<rect class="page" width="{width}" height="{height}"/>' + "".join(parts) + "</svg>\n")


def bars(groups, show):
    """Horizontal bars; `groups` are (title, [(label, value, text)]), each on a scale of its own."""
    parts, y = [], 8
    for title, rows in groups:
        rows = [row for row in rows if row[1] is not None]
        if not rows:
            continue
        y += 16
        parts.append(text(8, y, title, "title"))
        y += 8
        most = max(value for _, value, _ in rows)
        for label, value, shown in rows:
            width = max(1.5, value / most * (WIDTH - LABEL - 130))
            parts.append(text(LABEL - 8, y + 16, label, "soft", "end"))
            parts.append(f'<rect class="s{show.index(label) % 4}" x="{LABEL}" y="{y + 4}" '
                         f'width="{width:.1f}" height="{ROW - 8}"/>')
            parts.append(text(LABEL + width + 6, y + 16, shown))
            y += ROW
        y += 10
    return document(WIDTH, y, parts)


def steps(high, wanted=5):
    """Round values from 0 to `high` or just above."""
    raw = max(high, 1e-9) / wanted
    power = 10 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= raw * 0.999)
    return [number * step for number in range(math.ceil(high / step * 0.9999) + 1)]


def number(value):
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def lines(title, x_title, y_title, series, log_x=False, names=None, height=280):
    """Lines with a dot for each measured point; `series` are (label, [(x, y)]). `names` are labels
    of single places on the x axis."""
    left, right, top, bottom = 70, 30, 44, 44
    points = [point for _, line in series for point in line]
    if not points:
        return None
    xs = [x for x, _ in points]
    ticks = steps(max(y for _, y in points) or 1)
    low, high = (min(xs), max(xs)) if log_x else (0, max(xs))

    def place_x(x):
        share = ((math.log(x / low) / math.log(high / low)) if log_x else (x - low) / (high - low)
                 ) if high > low else 0.5
        return left + share * (WIDTH - left - right)

    def place_y(y):
        return height - bottom - y / ticks[-1] * (height - top - bottom)

    parts = [text(8, 18, title, "title"), text(8, 36, y_title, "soft")]
    for tick in ticks:
        y = place_y(tick)
        parts.append(f'<line class="grid" x1="{left}" x2="{WIDTH - right}" y1="{y:.1f}" '
                     f'y2="{y:.1f}"/>')
        parts.append(text(left - 6, y + 4, number(tick), "soft", "end"))
    places, last = sorted(set(xs)) if log_x or len(set(xs)) <= 8 else steps(max(xs)), -99
    for x in places:
        # Labels need room: about seven units a letter.
        if place_x(x) - last > 7 * len(number(x)) + 4 and x <= high:
            last = place_x(x)
            label = (names or {}).get(x, number(x))
            parts.append(text(last, height - bottom + 18, label, "soft", "middle"))
    parts.append(text(WIDTH - right, height - 8, x_title, "soft", "end"))
    at = WIDTH - right
    for index, (label, line) in reversed(list(enumerate(series))):
        if len(series) > 1:
            parts.append(text(at, 18, label, "soft", "end"))
            at -= 7 * len(label) + 8
            parts.append(f'<rect class="s{index % 4}" x="{at - 8}" y="12" width="12" height="3"/>')
            at -= 22
        path = "".join(f"{'L' if place else 'M'}{place_x(x):.1f} {place_y(y):.1f}"
                       for place, (x, y) in enumerate(line))
        parts.append(f'<path class="line s{index % 4}" style="fill:none" d="{path}"/>')
        if len(line) <= 40:
            parts += [f'<circle class="s{index % 4}" cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" '
                      f'r="3"><title>{number(x)}: {y:g}</title></circle>' for x, y in line]
    return document(WIDTH, height, parts)
