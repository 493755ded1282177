"""The programs that are run: building them, and choosing among them."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from harness.arguments import UsageError
from harness.contender import Contender

ROOT = Path(__file__).resolve().parent.parent.parent


def build() -> Path:
    """Brings the release build up to date, with the drivers of what is installed by now."""
    build_it = ["cmake", "--build", "--preset", "release", "--target", "comparison"]
    for command in (["cmake", "--preset", "release"], build_it):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise UsageError(f"{' '.join(command)} failed:\n{done.stdout}")
    return ROOT / "build/release"


def those_that_run(contenders: Iterable[Contender], families: list[str] | None, folder: Path) -> list[Contender]:
    """Those of these families (None: all) that can run. One that was asked for by name and cannot is an error."""
    chosen = []
    missing = {}
    for contender in contenders:
        if families is not None and contender.family not in families:
            continue
        if reason := contender.missing(folder):
            missing[contender.family] = reason
        else:
            chosen.append(contender)
    for family, reason in missing.items():
        if families is not None:
            raise UsageError(f"{family} was asked for, but {reason}")
        print(f"# without {family}: {reason}")
    return chosen
