"""Attention entropy: shards of rows, merged."""


rule entropy:
    input:
        expand("results/{suite}/{model}/entropy/entropy.pt", suite=SUITE, model=MODELS),


rule entropy_shard:
    input:
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        checkpoint="results/{suite}/{model}/checkpoint",
        code=code("entropy_shard"),
    output:
        shard="results/{suite}/{model}/entropy/shards/{first}-{last}.pt",
        mean="results/{suite}/AE_calculation_results/{model}{first}_{last}AE.pt",
    log:
        "results/{suite}/logs/entropy_shard/{model}/{first}-{last}.log",
    benchmark:
        "results/{suite}/benchmarks/entropy_shard/{model}/{first}-{last}.tsv"
    priority: 1  # the comparison of criteria waits for it
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("entropy_shard"),
        reuse_mb=JOBS["reuse_mb"],
    params:
        dataset_folder=subpath(input.rows, parent=True),
        epsilon=SETTINGS["scores"]["entropy"]["epsilon"],
        variant=SETTINGS["scores"]["entropy"]["variant"],
        tokens=JOBS["batch_tokens"],
        memory_mb=MEMORY_MB,
        budget="results/{suite}/state/{model}.tokens.json",
        threads=JOBS["threads"],
    script:
        "../scripts/entropy_shard.py"


rule merge_entropy:
    input:
        shards=shards,
        checkpoint="results/{suite}/{model}/checkpoint",
        code=code("merge_entropy"),
    output:
        entropy="results/{suite}/{model}/entropy/entropy.pt",
        diagnostics="results/{suite}/{model}/entropy/diagnostics.json",
    log:
        "results/{suite}/logs/merge_entropy/{model}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        variant=SETTINGS["scores"]["entropy"]["variant"],
        epsilon=SETTINGS["scores"]["entropy"]["epsilon"],
    script:
        "../scripts/merge_entropy.py"


rule export_entropy:
    input:
        entropy="results/{suite}/{model}/entropy/entropy.pt",
        code=code("export_entropy"),
    output:
        "results/{suite}/AE_calculation_results/{model}_{total}AE.pt",
    log:
        "results/{suite}/logs/export_entropy/{model}_{total}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    script:
        "../scripts/export_entropy.py"
