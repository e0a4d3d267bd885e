"""The published results as they are, and the verdict on the paper."""


rule published:
    input:
        from_published,


rule verdict:
    input:
        SUITE.fill(layout.VERDICT, kind="md"),


rule reproduction:
    input:
        SUITE.fill(layout.REPRODUCTION, kind="html"),


rule collect_published:
    input:
        SUITE.published.files_of_accuracies(),
        code=code("collect_published"),
    output:
        layout.fill(layout.TIDY, suite=layout.PUBLISHED),
    log:
        layout.log("collect_published", suite=layout.PUBLISHED),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        curves=SUITE.published.all_curves(),
        random=SUITE.published.all_trials(),
    script:
        "../scripts/collect_published.py"


rule check_entropy:
    input:
        SUITE.published.files_of_entropies(),
        code=code("check_entropy"),
    output:
        check=layout.PUBLISHED_CHECK,
        ranks=layout.PUBLISHED_RANKS,
    log:
        layout.log("check_entropy", suite=layout.PUBLISHED),
    localrule: True
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        models=SUITE.published.all_entropies(),
    script:
        "../scripts/check_entropy.py"


rule count_parameters:
    input:
        code=code("count_parameters", of=suite.PAPER_FAMILIES),
    output:
        layout.PAPER_PARAMETERS,
    log:
        layout.log("count_parameters"),
    localrule: True
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    script:
        "../scripts/count_parameters.py"


rule write_verdict:
    input:
        evidence=lambda w: SUITE.evidence(w.suite),
        outcomes=lambda w: SUITE.files_of_outcomes(w.suite),
        parameters=layout.PAPER_PARAMETERS,
        code=code("write_verdict"),
    output:
        csv=layout.fill(layout.VERDICT, kind="csv"),
        markdown=layout.fill(layout.VERDICT, kind="md"),
        page=report(
            layout.fill(layout.VERDICT, kind="html"),
            caption="../report/verdict.rst",
            category="Verdict",
            labels={"table": "verdict"},
        ),
    log:
        layout.log("write_verdict"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        models=lambda w: SUITE.verdict_models(w.suite),
        run=lambda w: (
            None if w.suite == layout.PUBLISHED else layout.fill(layout.RESULTS, suite=w.suite)
        ),
        outcomes=lambda w: SUITE.outcomes_of(w.suite),
        intervals=SUITE.intervals,
        independent=SUITE.independent,
        published=SUITE.published_evidence(),
    script:
        "../scripts/write_verdict.py"


rule write_reproduction:
    input:
        verdict=layout.fill(layout.VERDICT, kind="csv"),
        tidy=layout.TIDY,
        signatures=SUITE.signatures,
        figures=[SUITE.fill(layout.FIGURE, figure=f, kind="png") for f in SUITE.figures],
        code=code("write_reproduction"),
    output:
        page=report(
            layout.fill(layout.REPRODUCTION, kind="html"),
            caption="../report/reproduction.rst",
            category="Reproduction",
            labels={"page": "reproduction report"},
        ),
        markdown=layout.fill(layout.REPRODUCTION, kind="md"),
    log:
        layout.log("write_reproduction"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        benchmarks=layout.BENCHMARKS,
        facts=SUITE.facts,
    script:
        "../scripts/write_reproduction.py"
