"""Pruning: one trajectory a model, strategy and run, and random trials."""


rule trajectories:
    input:
        [path for path, *_ in all_trajectories() + all_trial_tables()],


# Runs that share a job are literal in its outputs, so there is a rule for each such part.
for first, last in chunks(len(RUNS), JOBS["runs_per_job"]):

    rule:
        name:
            "prune_heads" if first == 0 else f"prune_heads_{first}"
        input:
            rows="results/{suite}/{model}/dataset/rows.parquet",
            splits="results/{suite}/{model}/dataset/splits.json",
            checkpoint="results/{suite}/{model}/checkpoint",
            shards=shards_if_ranked_by,
            code=score_code,
        output:
            trajectories=expand(
                "results/{{suite}}/{{model}}/trajectories/{{strategy}}/run{run}.csv",
                run=range(first, last + 1),
            ),
            scores=expand(
                "results/{{suite}}/{{model}}/trajectories/{{strategy}}/run{run}.scores.pt",
                run=range(first, last + 1),
            ),
        log:
            f"results/{{suite}}/logs/prune_heads/{{model}}/{{strategy}}/runs{first}-{last}.log",
        benchmark:
            f"results/{{suite}}/benchmarks/prune_heads/{{model}}/{{strategy}}/runs{first}-{last}.tsv"
        conda:
            "../envs/torch.yaml"
        threads: JOBS["threads"]
        resources:
            gpu=1,
            mem_mb=memory,
            runtime=time_limit("prune_heads", runs=last - first + 1),
            reuse_mb=JOBS["reuse_mb"],
        params:
            dataset_folder=subpath(input.rows, parent=True),
            strategy=lambda wildcards: MODELS[wildcards.model]["strategies"][wildcards.strategy],
            seed=SETTINGS["seed"],
            stop=SETTINGS["stop"],
            tokens=JOBS["batch_tokens"],
            memory_mb=MEMORY_MB,
            budget="results/{suite}/state/{model}.tokens.json",
            threads=JOBS["threads"],
            state="results/{suite}/state/{model}.{strategy}",
            metrics=step_metrics,
        script:
            "../scripts/prune_heads.py"


rule random_pruning:
    input:
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        checkpoint="results/{suite}/{model}/checkpoint",
        code=code("random_pruning"),
    output:
        "results/{suite}/{model}/{strategy}/shards/{first}-{last}.csv",
    log:
        "results/{suite}/logs/random_pruning/{model}/{strategy}/{first}-{last}.log",
    benchmark:
        "results/{suite}/benchmarks/random_pruning/{model}/{strategy}/{first}-{last}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("random_pruning"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        dataset_folder=subpath(input.rows, parent=True),
        unit=unit_of,
        levels=setting("random", "levels"),
        seed=SETTINGS["seed"],
        tokens=JOBS["batch_tokens"],
        memory_mb=MEMORY_MB,
        budget="results/{suite}/state/{model}.tokens.json",
        threads=JOBS["threads"],
        state="results/{suite}/state/{model}.{strategy}.{first}-{last}.pt",
        metrics=step_metrics,
    script:
        "../scripts/random_pruning.py"


rule merge_trials:
    input:
        shards=trial_shards,
        code=code("merge_trials"),
    output:
        "results/{suite}/{model}/{strategy}/trials.csv",
    log:
        "results/{suite}/logs/merge_trials/{model}/{strategy}.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        trials=lambda wildcards: all_trials(wildcards.model, wildcards.strategy),
    script:
        "../scripts/merge_trials.py"


rule gradient_change:
    input:
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        checkpoint="results/{suite}/{model}/checkpoint",
        code=code("gradient_change"),
    output:
        "results/{suite}/{model}/gradient_change.npz",
    log:
        "results/{suite}/logs/gradient_change/{model}.log",
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
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        checkpoint="results/{suite}/{model}/checkpoint",
        code=code("measure_controls"),
    output:
        "results/{suite}/{model}/controls.json",
    log:
        "results/{suite}/logs/measure_controls/{model}.log",
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("measure_controls"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        dataset_folder=subpath(input.rows, parent=True),
        tokens=JOBS["batch_tokens"],
        memory_mb=MEMORY_MB,
        budget="results/{suite}/state/{model}.tokens.json",
        threads=JOBS["threads"],
        metrics=step_metrics,
    script:
        "../scripts/measure_controls.py"
