"""Tables, CSV and plot of a comparison."""

import csv
import itertools
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness.contender import Contender

CSV_COLUMNS = ["library", "transport", "buffers", "operation", "ranks", "bytes", "median_us", "min_us", "max_us"]


@dataclass
class Series:
    """One contender at one size: per round a median in microseconds, or a word for what happened instead."""

    contender: Contender
    ranks: int
    bytes: int
    rounds: list[float | str] = field(default_factory=list)

    @property
    def times(self) -> list[float]:
        return [value for value in self.rounds if isinstance(value, float)]

    def spread(self) -> tuple[float, float, float] | str:
        """Median, lowest and highest of the rounds; or the word, if no round has a time."""
        if not self.times:
            return str(self.rounds[0])
        return statistics.median(self.times), min(self.times), max(self.times)

    def ratio_to(self, other: "Series") -> tuple[float, float, float] | None:
        """This one's time over the other's within each round; median, lowest and highest."""
        ratios = [mine / theirs for mine, theirs in zip(self.rounds, other.rounds)
                  if isinstance(mine, float) and isinstance(theirs, float)]
        return (statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def size_text(count: int) -> str:
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale and count % scale == 0:
            return f"{count // scale} {unit}"
    return f"{count} B"


def bus_bandwidth(ranks: int, count: int, microseconds: float) -> float:
    return count / microseconds / 1e3 * 2 * (ranks - 1) / ranks


def tables(series: list[Series]) -> str:
    groups: dict[tuple[int, str, int], list[Series]] = {}
    for one in series:
        groups.setdefault((one.ranks, one.contender.transport, one.bytes), []).append(one)
    return "\n".join(_table(group) for group in groups.values())


def _table(group: list[Series]) -> str:
    first = group[0]
    ours = [one for one in group if one.contender.family == "tutti"]
    ratio_titles = "".join(f"{'tutti ' + one.contender.buffers + ' / it':>30}" for one in ours)
    lines = [f"all-reduce, {first.ranks} ranks, {first.contender.transport}, {size_text(first.bytes)}: "
             "time in us, median [lowest..highest] of the rounds",
             f"  {'':26}{'':34}{'GB/s bus':>9}{ratio_titles}"]
    lines += [_row(one, ours) for one in group]
    lines.append(versus_best(group))
    return "\n".join(lines)


def versus_best(group: list[Series]) -> str:
    """Two lines for each of ours: over the fastest library, and over the fastest of what the medium allows. None of
    those without a time."""
    lines = []
    for one in group:
        if one.contender.family != "tutti":
            continue
        for title, is_bound in (("best peer", False), ("bound", True)):
            others = [other for other in group
                      if other.contender.family != "tutti" and other.contender.is_bound == is_bound and other.times]
            if others:
                best = min(others, key=lambda other: statistics.median(other.times))
                ratio = spread_text(one.ratio_to(best))
                lines.append(f"  {one.contender.name} / {title} ({best.contender.library}): {ratio}\n")
    return "".join(lines)


def _row(one: Series, ours: list[Series]) -> str:
    spread = one.spread()
    failures = [value for value in one.rounds if isinstance(value, str)]
    note = f"  ({len(failures)} of {len(one.rounds)} rounds: {', '.join(sorted(set(failures)))})" if failures else ""
    if isinstance(spread, str):
        return f"  {one.contender.name:26}{spread:>34}"
    ratios = "".join(f"{'' if mine is one else spread_text(mine.ratio_to(one)):>30}" for mine in ours)
    bandwidth = bus_bandwidth(one.ranks, one.bytes, spread[0])
    return f"  {one.contender.name:26}{spread_text(spread):>34}{bandwidth:9.3f}{ratios}{note}"


def spread_text(values: tuple[float, float, float] | None) -> str:
    if values is None:
        return "-"
    median, lowest, highest = (f"{value:.4g}" if value < 1e4 else f"{value:.0f}" for value in values)
    return f"{median} [{lowest}..{highest}]"


def write_csv(path: Path, series: Iterable[Series]) -> None:
    """median_us, min_us and max_us are over the rounds' medians, or all the same word if no round has a time."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(CSV_COLUMNS)
        for one in series:
            spread = one.spread()
            times = [spread] * 3 if isinstance(spread, str) else [f"{value:.3f}" for value in spread]
            contender = one.contender
            writer.writerow([contender.library, contender.transport, contender.buffers, "all_reduce", one.ranks,
                             one.bytes, *times])


def write_plot(path: Path, series: list[Series]) -> bool:
    """Time over size, both logarithmic. False if matplotlib is not there."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = sorted({(one.ranks, one.contender.transport) for one in series})
    figure, axes = pyplot.subplots(1, len(panels), figsize=(7 * len(panels), 6), squeeze=False, sharey=True)
    for axis, (ranks, transport) in zip(axes[0], panels):
        _plot_panel(axis, [one for one in series if (one.ranks, one.contender.transport) == (ranks, transport)])
        axis.set_title(f"all-reduce of float32, {ranks} ranks, {transport}")
    figure.tight_layout()
    figure.savefig(path)
    return True


def _plot_panel(axis, series: list[Series]) -> None:
    curves: dict[Contender, list[Series]] = {}
    for one in series:
        if one.times:
            curves.setdefault(one.contender, []).append(one)
    grays = itertools.cycle([":", "-.", "--"])
    for contender, points in curves.items():
        points.sort(key=lambda one: one.bytes)
        spreads = [one.spread() for one in points]
        style = {"linestyle": next(grays), "color": "gray"} if contender.is_bound else {"marker": "o", "markersize": 3}
        width = 2.5 if contender.family == "tutti" else 1
        line, = axis.plot([one.bytes for one in points], [s[0] for s in spreads], label=contender.name,
                          linewidth=width, **style)
        axis.fill_between([one.bytes for one in points], [s[1] for s in spreads], [s[2] for s in spreads],
                          color=line.get_color(), alpha=0.15, linewidth=0)
    axis.set(xscale="log", yscale="log", xlabel="bytes", ylabel="us, slowest rank, median")
    axis.grid(True, which="major", alpha=0.3)
    axis.legend(fontsize="small")
