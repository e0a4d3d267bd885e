"""Pruning: trajectories by model, strategy and runs, and random trials."""


rule trajectories:
    input:
        [path for path, *_ in SUITE.trajectories() + SUITE.trial_tables()],


rule prune_heads:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.CHECKPOINT,
        shards=lambda w: SUITE.shards_of(w.model, w.strategy),
        code=score_code,
    output:
        trajectories=layout.TRAJECTORY,
        scores=layout.SCORES,
        signature=layout.SIGNATURE,
    log:
        layout.log("prune_heads", "{model}/{strategy}/{first}-{last}"),
    benchmark:
        layout.benchmark("prune_heads", "{model}/{strategy}/{first}-{last}")
    # Tables and figures of run 0 can be made before the other runs are over.
    priority: lambda w: SUITE.goes_first(int(w.first))
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("prune_heads"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        bench=lambda w: SUITE.bench(w.model, metrics=True),
        strategy=lambda w: MODELS[w.model]["strategies"][w.strategy],
        seed=SETTINGS["seed"],
        stop=SETTINGS["stop"],
        state=layout.fill(layout.STATE, job="{model}.{strategy}"),
    script:
        "../scripts/prune_heads.py"


rule random_pruning:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.CHECKPOINT,
        code=code_for_model("random_pruning"),
    output:
        trials=layout.TRIALS_PART,
        signature=layout.TRIALS_SIGNATURE,
    log:
        layout.log("random_pruning", "{model}/{strategy}/{first}-{last}"),
    benchmark:
        layout.benchmark("random_pruning", "{model}/{strategy}/{first}-{last}")
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("random_pruning"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        bench=lambda w: SUITE.bench(w.model, metrics=True),
        unit=lambda w: SUITE.unit(w.strategy),
        levels=setting("random", "levels"),
        seed=SETTINGS["seed"],
        state=layout.fill(layout.STATE, job="{model}.{strategy}"),
    script:
        "../scripts/random_pruning.py"


rule merge_trials:
    input:
        shards=lambda w: SUITE.trial_parts(w.model, w.strategy),
        code=code("merge_trials"),
    output:
        layout.TRIALS,
    log:
        layout.log("merge_trials", "{model}/{strategy}"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        trials=lambda w: SUITE.all_trials(w.model, w.strategy),
    script:
        "../scripts/merge_trials.py"


rule gradient_change:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.CHECKPOINT,
        code=code_for_model("gradient_change"),
    output:
        layout.GRADIENT_CHANGE,
    log:
        layout.log("gradient_change", "{model}"),
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("gradient_change"),
    params:
        dataset_folder=subpath(input.rows, parent=True),
        threads=JOBS["threads"],
    script:
        "../scripts/gradient_change.py"


rule measure_controls:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.CHECKPOINT,
        code=code_for_model("measure_controls"),
    output:
        layout.CONTROLS,
    log:
        layout.log("measure_controls", "{model}"),
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("measure_controls"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        bench=lambda w: SUITE.bench(w.model, metrics=True),
    script:
        "../scripts/measure_controls.py"
