"""Both supported versions of transformers: one checkpoint gives the same numbers, and what works is in docs/models.md.

The table there is written anew by `make versions`, which makes both environments.
"""

import json
import os
import re
import subprocess

import numpy as np
import pytest
from support import FAMILIES, OTHERS, ROOT, Tiny, pythons
from versions import CHECKS, EXACT

from gnorm.models import checkpoints
from gnorm.models.versions import SUPPORTED

PAGE = ROOT / "docs/models.md"
MARKED = re.compile(r"(?s)(<!-- versions -->\n).*?(<!-- end -->)")


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """What each environment that is there finds of the same checkpoints, by version."""
    root = tmp_path_factory.mktemp("families")
    for family in (*FAMILIES, *OTHERS):
        tiny = Tiny(family)
        library = type(tiny.model)(tiny.model.config)  # with the library's own norms
        library.load_state_dict(tiny.model.float().state_dict())
        checkpoints.save(root / family, library.eval(), tiny.tokenizer)
        (root / family / "rows.json").write_text(json.dumps(tiny.rows[:6]))
    found = {}
    for python in pythons():
        run = subprocess.run([python, ROOT / "tests/versions.py", root], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-3000:]
        printed = json.loads(run.stdout.splitlines()[-1])
        found[printed["version"]] = printed["families"]
    return found


def table(tried):
    """Families by check, with the versions on which it holds."""
    columns = [f"{check}, {version}" for check in CHECKS for version in SUPPORTED]
    lines = [f"| family | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for family in sorted((*FAMILIES, *OTHERS)):
        cells = [
            ("yes" if tried[version][family][check] else "no") if version in tried else "?"
            for check in CHECKS
            for version in SUPPORTED
        ]
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_everything_works_on_the_versions_that_are_here(tried):
    assert set(tried) <= set(SUPPORTED)
    for families in tried.values():
        for family, outcome in families.items():
            assert [check for check in CHECKS if not outcome[check]] == [], family


def test_one_checkpoint_gives_the_same_numbers_on_both(tried):
    first, *others = tried.values()
    if not others:
        pytest.skip("the other version of transformers is not here: make env, make versions")
    for other in others:
        for family in first:
            assert first[family]["order"] == other[family]["order"], family
            for name, expected in first[family]["scores"].items():
                found = np.array(other[family]["scores"][name])
                assert np.allclose(found, expected, rtol=EXACT, atol=EXACT), (family, name)


def test_the_page_says_what_was_found(tried):
    """Compared in the columns of the versions that are here; with VERSIONS=write the page is written."""
    text = PAGE.read_text()
    made = table(tried)
    if os.environ.get("VERSIONS") == "write":
        assert "?" not in made, "both environments are needed: make env, make test-v4"
        text = MARKED.sub(lambda mark: mark[1] + made + mark[2], text)
        PAGE.write_text(text)
    there = MARKED.search(text)[0].splitlines()[1:-1]
    assert len(there) == len(made.splitlines())
    for line, own in zip(there, made.splitlines(), strict=True):
        for cell, found in zip(line.split("|"), own.split("|"), strict=True):
            assert found.strip() in (cell.strip(), "?")
