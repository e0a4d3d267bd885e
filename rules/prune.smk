"""Pruning: trajectories by model, strategy and runs, and random trials."""


rule trajectories:
    input:
        [path for path, *_ in SUITE.trajectories() + SUITE.trial_tables()],


rule prune_heads:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.own(layout.CHECKPOINT),
        shards=lambda w: SUITE.shards_of(w.model, w.strategy, w.own),
        code=score_code,
    output:
        trajectories=layout.own(layout.TRAJECTORY),
        scores=layout.own(layout.SCORES),
        outcomes=layout.own(layout.OUTCOMES),
        signature=layout.own(layout.SIGNATURE),
    log:
        layout.own(layout.log("prune_heads", "{model}/{strategy}/{first}-{last}")),
    benchmark:
        layout.own(layout.benchmark("prune_heads", "{model}/{strategy}/{first}-{last}"))
    priority: lambda w: SUITE.goes_first(w.model, w.strategy, int(w.first))
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("prune_heads"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        bench=lambda w: SUITE.bench(w.model, metrics=True, own=w.own),
        strategy=lambda w: MODELS[w.model]["strategies"][w.strategy],
        seed=SETTINGS["seed"],
        stop=SETTINGS["stop"],
        state=layout.own(layout.fill(layout.STATE, job="{model}.{strategy}")),
    script:
        "../scripts/prune_heads.py"


rule random_pruning:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.own(layout.CHECKPOINT),
        code=code_for_model("random_pruning"),
    output:
        trials=layout.own(layout.TRIALS_PART),
        outcomes=layout.own(layout.TRIALS_OUTCOMES),
        signature=layout.own(layout.TRIALS_SIGNATURE),
    log:
        layout.own(layout.log("random_pruning", "{model}/{strategy}/{first}-{last}")),
    benchmark:
        layout.own(layout.benchmark("random_pruning", "{model}/{strategy}/{first}-{last}"))
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("random_pruning"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        bench=lambda w: SUITE.bench(w.model, metrics=True, own=w.own),
        unit=lambda w: SUITE.unit(w.strategy),
        levels=setting("random", "levels"),
        seed=lambda w: SUITE.seed_of(w.own),
        state=layout.own(layout.fill(layout.STATE, job="{model}.{strategy}")),
    script:
        "../scripts/random_pruning.py"


rule merge_trials:
    input:
        shards=lambda w: SUITE.trial_parts(w.model, w.strategy, w.own),
        code=code("merge_trials"),
    output:
        layout.own(layout.TRIALS),
    log:
        layout.own(layout.log("merge_trials", "{model}/{strategy}")),
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
        bench=SUITE.loading,
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
    priority: 1  # it says whether a model is worse than guessing
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
