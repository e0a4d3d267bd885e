"""What a suite will cost, without running or downloading anything: jobs, hours, memory, and how more GPUs shorten it.

python scripts/estimate_capacity.py --suite paper --speed 20 --config runs=1
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import yaml

from gnorm.errors import UserError
from gnorm.planning.capacity import report

SNAKEFILE = Path(__file__).resolve().parents[1] / "Snakefile"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", help="a file of suites/, default as config.yaml says")
    parser.add_argument("--speed", type=float, help="of the device, in two CPU cores; then finished jobs are not asked")
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="as for snakemake")
    parser.add_argument("--remaining", action="store_true", help="only what is left to do")
    given = parser.parse_args(arguments)
    if wrong := [pair for pair in given.config if "=" not in pair]:
        raise UserError(f"--config {wrong[0]}: write KEY=VALUE")
    config = {key: yaml.safe_load(value) for key, value in (pair.split("=", 1) for pair in given.config)}
    config |= {"suite": given.suite} if given.suite else {}
    config |= {"device_speed": given.speed} if given.speed else {}
    print(report(SNAKEFILE, config, given.remaining))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"capacity: {error}")
