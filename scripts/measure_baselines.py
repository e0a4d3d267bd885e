"""Accuracy of the majority class and of a bag of words, on the rows that a model is trained and evaluated on."""

from gnorm.data.rows import read
from gnorm.files import write_json
from gnorm.logs import log, start
from gnorm.statistics import baselines


def main(*, dataset_folder, seed, output):
    train, evaluated = read(dataset_folder, "train"), read(dataset_folder, "evaluation")
    common = baselines.majority(train, evaluated)
    words, strength = baselines.bag_of_words(train, evaluated, seed)
    log.info("majority class %.3f, bag of words %.3f", common, words)
    write_json(
        output,
        {
            "trained": len(train),
            "evaluated": len(evaluated),
            "majority": common,
            "bag_of_words": words,
            "bag_of_words_strength": strength,
        },
    )


if __name__ == "__main__":
    start(snakemake.log[0], f"{snakemake.wildcards.model} baselines")
    main(dataset_folder=snakemake.params.dataset_folder, seed=snakemake.params.seed, output=snakemake.output[0])
