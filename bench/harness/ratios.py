"""Interleaved pairs of two programs: geometric means of the ratios new / old, and how sure.

Each turn measures both, one behind the other, in an order that changes from turn to turn, so that
what else the machine does meets both. The upper end is that of the 95 % confidence interval,
one-sided, Student's t of the logarithms.
"""
import concurrent.futures
import math
import statistics

from . import pages

# The 95 % quantile of Student's t by degrees of freedom; beyond, that of the last.
T95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
       1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725)


def upper(ratios):
    """Geometric mean and the upper end of its confidence interval; None of fewer than two."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), None
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean + T95[min(len(logs) - 2, len(T95) - 1)] * error)


def in_pairs(old, new, count, measure):
    """Measures both programs `count` times; `measure(program, title)` returns figures by name.

    Returns (old, new) of each pair that both have, by name of the figure.
    """
    found, programs = {}, {"old": old, "new": new}
    for turn in range(count):
        both = {which: measure(programs[which], f"{which}-{turn + 1}") for which in order(turn)}
        note(found, turn, both)
    return found


def at_once(old, new, count, measure, first_port=5522, ports=2):
    """The same with both of a pair at the same time, the first on `first_port` and the other one
    `ports` behind it; `measure(program, title, port)`. Who is first changes from turn to turn.
    """
    found, programs = {}, {"old": old, "new": new}
    for turn in range(count):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            both = {which: pool.submit(measure, programs[which], f"{which}-{turn + 1}",
                                       first_port + ports * at)
                    for at, which in enumerate(order(turn))}
            note(found, turn, {which: figures.result() for which, figures in both.items()})
    return found


def order(turn):
    return ("old", "new") if turn % 2 == 0 else ("new", "old")


def note(found, turn, both):
    """Adds the figures of one pair."""
    for name, value in both["old"].items():
        if value and both["new"].get(name):
            found.setdefault(name, []).append((value, both["new"][name]))
    print(f"pair {turn + 1}:", {name: round(pairs[-1][1] / pairs[-1][0], 3)
                                for name, pairs in found.items()}, flush=True)


def report(found, names, bounds):
    """The table of `names`, and an exit code: 1 if an upper end is above its bound in `bounds`,
    2 if there are too few pairs to say.
    """
    rows, code = [], 0
    for name in names:
        pairs = found.get(name)
        if not pairs:
            rows.append([name, "–", "–", "–", "–"])
            code = max(code, 2)
            continue
        mean, end = upper([new / old for old, new in pairs])
        if name in bounds and end is not None and end > bounds[name]:
            code = 1
        elif end is None:
            code = max(code, 2)
        old, new = (statistics.median(column) for column in zip(*pairs))
        rows.append([name, f"{old:,.0f}", f"{new:,.0f}", f"{mean:.3f}",
                     "–" if end is None else f"{end:.3f}"])
    return pages.table(["figure", "old", "new", "ratio", "95 % upper end"], rows), code
