"""Check this machine's GPU, in a few minutes, and write one page about it: make check-gpu.

The page is results/check-gpu/README.md. Nothing of it depends on a suite or on the network.
"""

import argparse
import sys

import torch

from gnorm import hardware
from gnorm.benchmarks import card
from gnorm.errors import UserError
from gnorm.files import save_tensors, write_text
from gnorm.logs import start
from gnorm.pages import gpu


def main(*, quick):
    """Write the page, print it, and say whether all is well."""
    second = [sys.executable, __file__, "--second", *(["--quick"] if quick else [])]
    lines = card.check(quick, second)
    page = gpu.markdown(lines, quick)
    write_text(card.FOLDER / "README.md", page)
    print(f"\n{page}\npage: {card.FOLDER / 'README.md'}")
    return all(line.good is not False for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller models and fewer rows")
    parser.add_argument("--second", action="store_true", help=argparse.SUPPRESS)  # the job on the other card
    asked = parser.parse_args()
    card.FOLDER.mkdir(parents=True, exist_ok=True)
    start(str(card.FOLDER / ("second.log" if asked.second else "check.log")), "check-gpu")
    if not torch.cuda.is_available():
        if unused := hardware.unused_card(looked=True):
            raise UserError(unused)
        print("This machine has no NVIDIA card: there is nothing to check. Everything runs on the CPU.")
    elif asked.second:
        save_tensors(card.FOLDER / "second.pt", card.pruned(asked.quick))
    else:
        sys.exit(not main(quick=asked.quick))
