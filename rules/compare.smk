"""Criteria side by side: scores of the unpruned model, what they cost, and how well their orders prune."""


rule compare_criteria:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.CHECKPOINT,
        shards=lambda w: SUITE.shards_compared(w.model),
        code=compared_code,
    output:
        scores=layout.CRITERIA_SCORES,
        curves=layout.CRITERIA_CURVES,
        costs=layout.CRITERIA_COSTS,
    log:
        layout.log("compare_criteria", "{model}"),
    benchmark:
        layout.benchmark("compare_criteria", "{model}")
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
        bench=lambda w: SUITE.bench(w.model),
        criteria=setting("compare"),
        levels=setting("random", "levels"),
        runs=SETTINGS["runs"],
        seed=SETTINGS["seed"],
        state=layout.fill(layout.STATE, job="{model}.criteria"),
    script:
        "../scripts/compare_criteria.py"
