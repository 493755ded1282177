"""What the command lines have in common."""

import argparse


class UsageError(Exception):
    """What was asked for cannot be done; says why."""


def size(text: str) -> int:
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text if scale == 1 else text[:-1]
    if not digits.isdecimal() or int(digits) == 0 or int(digits) * scale % 4 != 0:
        raise argparse.ArgumentTypeError(f'"{text}": expected a multiple of 4 bytes; K, M and G are binary multiples')
    return int(digits) * scale


def at_least(lowest: int):
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < lowest:
            raise argparse.ArgumentTypeError(f'"{text}": expected a whole number of at least {lowest}')
        return int(text)

    return number


def listing(item):
    return lambda text: [item(part) for part in text.split(",")]


def one_of(*words: str):
    def word(text: str) -> str:
        if text not in words:
            raise argparse.ArgumentTypeError(f'"{text}": expected {", ".join(words)}')
        return text

    return word
