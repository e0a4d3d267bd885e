"""Print a finished suite's headline tables, and where its results are: python scripts/show_results.py SUITE"""

import sys
from pathlib import Path

from gnorm import layout
from gnorm.errors import UserError, printable, unknown
from gnorm.pages import summary


def main(suites):
    results = Path(layout.RESULTS).parent
    if not results.is_dir():
        raise UserError(f"there is no folder {results}/ here: start it in the folder of the workflow")
    having = {folder.name for folder in results.iterdir() if folder.is_dir()}
    known = sorted(having | {path.stem for path in Path("suites").glob("*.yaml")})
    if not suites:
        raise UserError(f"say which suite ({', '.join(known)}): python scripts/show_results.py SUITE")
    for suite in suites:
        if suite not in known:
            raise UserError(f"there is no {unknown(suite, known, 'suite')}")
    print(printable("\n".join(summary.lines(suites))) or f"nothing is there yet of {' '.join(suites)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"show_results: {error}")
