"""Speed, and the text that language models write, at the levels of random pruning.

Beside other jobs times are noisy: `--cores` of one job's threads gives quiet ones.
"""


rule measure_speed:
    input:
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        checkpoint="results/{suite}/{model}/checkpoint",
        trajectories=lambda wildcards: [trajectory(wildcards.model, s, 0) for s in OF_HEADS],
        code=code("measure_speed"),
    output:
        "results/{suite}/{model}/speed.csv",
    log:
        "results/{suite}/logs/measure_speed/{model}.log",
    benchmark:
        "results/{suite}/benchmarks/measure_speed/{model}.tsv"
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("measure_speed"),
    params:
        dataset_folder=subpath(input.rows, parent=True),
        strategies=OF_HEADS,
        levels=setting("random", "levels"),
        metrics=level_metrics,
        generation=lambda wildcards: (
            SETTINGS["generation"] if TASKS[wildcards.model] == "language_model" else None
        ),
        threads=JOBS["threads"],
    script:
        "../scripts/measure_speed.py"
