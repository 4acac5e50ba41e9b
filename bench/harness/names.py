"""The type of an argument that names some of what there is."""
import argparse


def of(known, or_none=False):
    """Comma-separated names, all of them `known`; with `or_none` there may be none at all."""
    def parse(text):
        if or_none and not text:
            return []
        found = text.split(",")
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(
                f"{', '.join(map(repr, unknown))}: known are {', '.join(known)}")
        return found
    return parse


def numbers(text):
    """A type for argparse: numbers above 1, separated by commas; none at all if empty."""
    found = [int(word) for word in text.split(",") if word]
    if any(number < 2 for number in found):
        raise argparse.ArgumentTypeError("each is at least 2")
    return found
