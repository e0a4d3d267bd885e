"""The Snakemake report of a finished suite, and the configuration it was made with."""

import subprocess
import sys

import yaml

from gnorm.files import atomic, write_text
from gnorm.logs import log, start
from gnorm.pages.reports import data_escaped


def main(*, config, snakefile, targets, config_file, report_file):
    write_text(config_file, yaml.safe_dump(config, sort_keys=False))
    with atomic(report_file) as temporary:
        # The workflow that runs this rule holds the lock; a report only reads. Without -P modules would be taken from
        # the working directory before those that are installed.
        command = [sys.executable, "-P", "-m", "snakemake", "--snakefile", snakefile]
        command += [
            "--configfile",
            config_file,
            "--replace-workflow-config",
            "--nolock",
            "--report",
            str(temporary),
            "--",
            *targets,
        ]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            log.error("%s", made.stderr)
            raise RuntimeError("snakemake --report failed, see above")
        temporary.write_text(data_escaped(temporary.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    start(snakemake.log[0], "report")
    main(
        config=snakemake.params.config,
        snakefile=snakemake.params.snakefile,
        targets=snakemake.params.targets,
        config_file=snakemake.output.config,
        report_file=snakemake.output.report,
    )
