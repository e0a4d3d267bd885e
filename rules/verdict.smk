"""The published results as they are, and the verdict on the paper."""


rule published:
    input:
        published_targets,


rule verdict:
    input:
        expand("results/{suite}/verdict.md", suite=SUITE),


rule collect_published:
    input:
        [path for path, *_ in published_curves()],
        [paths for paths, _ in published_trials()],
        code=code("collect_published"),
    output:
        "results/published/tidy.csv",
    log:
        "results/published/logs/collect_published.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        curves=published_curves(),
        random=published_trials(),
    script:
        "../scripts/collect_published.py"


rule check_entropy:
    input:
        published_entropy_files(),
        code=code("check_entropy"),
    output:
        check="results/published/entropy.csv",
        ranks="results/published/entropy_ranks.csv",
    log:
        "results/published/logs/check_entropy.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        models=published_entropies(),
    script:
        "../scripts/check_entropy.py"


rule count_parameters:
    input:
        code=code("count_parameters"),
    output:
        "results/{suite}/paper_parameters.csv",
    log:
        "results/{suite}/logs/count_parameters.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    script:
        "../scripts/count_parameters.py"


rule write_verdict:
    input:
        found=verdict_inputs,
        parameters="results/{suite}/paper_parameters.csv",
        code=code("write_verdict"),
    output:
        csv="results/{suite}/verdict.csv",
        markdown="results/{suite}/verdict.md",
        page=report(
            "results/{suite}/verdict.html",
            caption="../report/verdict.rst",
            category="Verdict",
            labels={"table": "verdict"},
        ),
    log:
        "results/{suite}/logs/write_verdict.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        models=verdict_models,
        run=lambda wildcards: "" if wildcards.suite == "published" else f"results/{SUITE}",
        published="results/published" if CLONE else "",
    script:
        "../scripts/write_verdict.py"
