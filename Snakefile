"""Greedy-Gnorm: head pruning by gradient norms, against entropy, inverse orders and random."""


include: "rules/path.smk"


from snakemake.utils import min_version

min_version("9.27")


configfile: "config.yaml"


report: "report/workflow.rst"


include: "rules/common.smk"


if SETTINGS["container"]:

    container: SETTINGS["container"]


include: "rules/data.smk"
include: "rules/entropy.smk"
include: "rules/prune.smk"
include: "rules/compare.smk"
include: "rules/speed.smk"
include: "rules/aggregate.smk"
include: "rules/figures.smk"
include: "rules/verdict.smk"
include: "rules/report.smk"
include: "rules/bench.smk"


onstart:
    watch(workflow)


onerror:
    advice.say_last(FAILURES.lines())


onsuccess:
    summarize(workflow)


rule all:
    default_target: True
    input:
        rules.exports.input,
        rules.tables.input,
        rules.figures.input,
        rules.verdict.input,
        rules.reproduction.input,
        rules.report.input,
