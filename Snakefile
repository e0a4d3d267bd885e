"""Greedy-Gnorm: head pruning by gradient norms, against entropy, inverse orders and random."""

from snakemake.utils import min_version

min_version("9.0")


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


# On a cluster these stay on the submit host: downloads, because compute nodes may have no network, and what
# takes seconds. Everything else is submitted; see profiles/slurm.
localrules:
    fetch_dataset,
    fetch_model,
    fetch_package,
    merge_entropy,
    merge_trials,
    export_accuracy,
    export_entropy,
    export_random,
    collect_results,
    collect_published,
    check_entropy,
    count_parameters,
    make_table,
    make_workbook,
    draw_figure,
    summarize_bench,
    write_verdict,
    write_report,


onstart:
    watch(workflow)


onerror:
    explain(log)


onsuccess:
    resume.remove_finished(f"results/{SUITE}/state")


rule all:
    default_target: True
    input:
        rules.exports.input,
        rules.tables.input,
        rules.figures.input,
        rules.verdict.input,
        rules.report.input,
