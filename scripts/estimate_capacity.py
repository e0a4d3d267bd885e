"""What a suite will cost, without running or downloading anything: jobs, hours, memory, and how more GPUs shorten it.

python scripts/estimate_capacity.py --config suite=paper device_speed=20 runs=1
"""

import argparse
import logging
import sys
from pathlib import Path

from snakemake import cli

from gnorm.errors import UserError
from gnorm.planning.capacity import report

SNAKEFILE = Path(__file__).resolve().parents[1] / "Snakefile"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", nargs="+", metavar="KEY=VALUE", help="as for snakemake")
    parser.add_argument("--remaining", action="store_true", help="only what is left to do")
    given = parser.parse_args(arguments)
    try:
        config = cli.parse_config(given.config)
    except ValueError as error:
        raise UserError(f"--config: {error}") from error
    print(report(SNAKEFILE, config, given.remaining))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"capacity: {error}")
