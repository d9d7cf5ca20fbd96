"""`k8sel render` against `helm template` of a small chart and `torchx run --dryrun`: medians of interleaved runs.

    python bench/render.py [--runs N] [--helm HELM] [--torchx TORCHX]

A peer that is not there is left out, and said. Then many files in one call, to see that time is linear in number.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from interleaved import medians

HERE = Path(__file__).parent
# The program of the environment that runs this: a wheel, for users' figures.
K8SEL = [str(Path(sys.executable).parent / "k8sel"), "render", "-q"]
JOB = HERE.parent / "examples" / "ordered-torchrun.yaml"


def main() -> None:
    """Runs both comparisons and prints them."""
    options = _options()
    commands = {"k8sel render": [*K8SEL, str(JOB)], "python -c pass": [sys.executable, "-c", "pass"]} | _peers(options)
    times = medians(commands, options.runs)
    for name, value in times.items():
        print(f"{name:24} {value:8.1f} ms   k8sel render / this: {times['k8sel render'] / value:.2f}")
    _many(options.runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--helm", default="helm")
    parser.add_argument("--torchx", default="torchx")
    return parser.parse_args()


def _peers(options: argparse.Namespace) -> dict[str, list[str]]:
    # Without a workspace it needs no docker, and without validate_spec no cluster: the least that it can do.
    torchx = ["run", "--dryrun", "--workspace", "", "--scheduler", "kubernetes"]
    torchx += ["--scheduler_args", "queue=q,validate_spec=False"]
    peers = {
        "helm template": [options.helm, "template", "bench", str(HERE / "chart")],
        "torchx run --dryrun": [
            options.torchx,
            *torchx,
            "dist.ddp",
            "-j",
            "2x2",
            "--gpu",
            "3",
            "--image",
            "train:1",
            "--script",
            "train.py",
        ],
    }
    for name, command in list(peers.items()):
        if shutil.which(command[0]) is None:
            print(f"{name}: {command[0]} is not installed, left out")
            del peers[name]
    return peers


def _many(runs: int) -> None:
    """1, 100 and 1,000 files in one call."""
    with tempfile.TemporaryDirectory() as folder:
        text = JOB.read_text(encoding="utf-8")
        files = [Path(folder) / f"job-{number}.yaml" for number in range(1000)]
        for number, file in enumerate(files):
            file.write_text(text.replace("name: ", f"name: job{number}-", 1), encoding="utf-8")
        counts = (1, 100, 500, 1000)
        times = medians({str(n): [*K8SEL, *map(str, files[:n])] for n in counts}, max(3, runs // 7))
    for count in counts:
        print(f"{count:5} files {times[str(count)]:8.1f} ms   {times[str(count)] / count:7.2f} ms a file")


if __name__ == "__main__":
    main()
