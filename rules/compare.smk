"""Criteria side by side: scores of the unpruned model, what they cost, and how well their orders prune."""


rule compare_criteria:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.own(layout.CHECKPOINT),
        shards=lambda w: SUITE.shards_compared(w.model, w.own),
        code=compared_code,
    output:
        curves=layout.own(layout.CRITERIA_PART),
        scores=layout.own(layout.CRITERIA_PART_SCORES),
        costs=layout.own(layout.CRITERIA_PART_COSTS),
        outcomes=layout.own(layout.CRITERIA_OUTCOMES),
        signature=layout.own(layout.CRITERIA_SIGNATURE),
    log:
        layout.own(layout.log("compare_criteria", "{model}/{first}-{last}")),
    benchmark:
        layout.own(layout.benchmark("compare_criteria", "{model}/{first}-{last}"))
    priority: 1  # the longest job that needs nothing but a checkpoint and its entropies
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("compare_criteria"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        bench=lambda w: SUITE.bench(w.model, own=w.own),
        criteria=setting("compare"),
        levels=setting("random", "levels"),
        seed=SETTINGS["seed"],
        state=layout.own(layout.fill(layout.STATE, job="{model}.criteria")),
    script:
        "../scripts/compare_criteria.py"


rule merge_criteria:
    input:
        curves=lambda w: SUITE.criteria_parts(w.model, layout.CRITERIA_PART),
        scores=lambda w: SUITE.criteria_parts(w.model, layout.CRITERIA_PART_SCORES),
        costs=lambda w: SUITE.criteria_parts(w.model, layout.CRITERIA_PART_COSTS),
        code=code("merge_criteria"),
    output:
        curves=layout.CRITERIA_CURVES,
        scores=layout.CRITERIA_SCORES,
        costs=layout.CRITERIA_COSTS,
    log:
        layout.log("merge_criteria", "{model}"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=500,
    script:
        "../scripts/merge_criteria.py"
