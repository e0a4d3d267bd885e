"""Criteria side by side: scores of the unpruned model, what they cost, and how well their orders prune."""


rule compare_criteria:
    input:
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        checkpoint="results/{suite}/{model}/checkpoint",
        shards=shards_if_compared,
        code=compared_code(),
    output:
        scores="results/{suite}/{model}/criteria/scores.csv",
        curves="results/{suite}/{model}/criteria/curves.csv",
        costs="results/{suite}/{model}/criteria/costs.csv",
    log:
        "results/{suite}/logs/compare_criteria/{model}.log",
    benchmark:
        "results/{suite}/benchmarks/compare_criteria/{model}.tsv"
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
        dataset_folder=subpath(input.rows, parent=True),
        criteria=setting("compare"),
        levels=setting("random", "levels"),
        runs=len(RUNS),
        seed=SETTINGS["seed"],
        tokens=JOBS["batch_tokens"],
        memory_mb=MEMORY_MB,
        budget="results/{suite}/state/{model}.tokens.json",
        threads=JOBS["threads"],
        state="results/{suite}/state/{model}.criteria.pt",
    script:
        "../scripts/compare_criteria.py"
