"""Where Python looks for modules: in what is installed and in this workflow, never in the working directory.

Snakemake puts the Snakefile's folder in front, and `python -m` the working directory: there a `random.py` beside the
configuration would be taken for the library. So this is included before anything else is imported.
"""

import os
import sys
from pathlib import Path

ROOT = Path(workflow.basedir)
# Whatever imports Snakemake looks there too, scripts among them. Only jobs on machines without a shared disk fill it.
plugins = Path(".snakemake/pip-deployments")
if plugins.exists() and not workflow.remote_exec:
    sys.exit(
        f"Error: every job would run modules that lie in {plugins}; this workflow puts none there: remove it"
    )
elsewhere = {ROOT.resolve(), Path.cwd()}
sys.path[:] = [path for path in sys.path if Path(path).resolve() not in elsewhere]
# Snakemake shows a script its own folder only behind what is installed, and rules nothing at all. In front of it, a
# `gnorm` that someone has installed is never taken for the one that is declared as input here.
sys.path.insert(0, str(ROOT / "scripts"))
given = filter(None, os.getenv("PYTHONPATH", "").split(os.pathsep))
search = (str(ROOT / "scripts"), *(path for path in given if Path(path).resolve() not in elsewhere))
os.environ.update(PYTHONPATH=os.pathsep.join(dict.fromkeys(search)))
# A script lies in .snakemake/scripts while it runs, and jobs on other machines start by `python -m snakemake`.
os.environ.update(PYTHONSAFEPATH="1")
# In a container the working directory is the home too, where Python looks for what a user has installed.
os.environ.update(APPTAINERENV_PYTHONSAFEPATH="1", APPTAINERENV_PYTHONNOUSERSITE="1")


# For executors that do not pass the environment on by themselves.
envvars:
    "PYTHONSAFEPATH",
