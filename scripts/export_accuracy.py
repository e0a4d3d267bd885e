"""A trajectory under the published file name and columns."""

import csv

from gnorm.files import atomic
from gnorm.logs import start


def main(*, trajectory, output):
    with open(trajectory, newline="") as file:
        steps = [step for step in csv.DictReader(file) if step["run"] == "0"]
    with atomic(output) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["Pruned_Heads", "Accuracy"])
        writer.writerows([step["heads_pruned"], step["accuracy"]] for step in steps)


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} {snakemake.wildcards.published}")
    main(trajectory=snakemake.input.trajectory, output=snakemake.output[0])
