"""Speed and memory beside the naive procedures; its jobs take every core, one after another."""


rule bench:
    input:
        "results/bench/bench.md",


rule measure_shape:
    input:
        code=code("measure_shape"),
    output:
        "results/bench/shapes/{shape}.csv",
    log:
        "results/bench/logs/measure_shape/{shape}.log",
    conda:
        "../envs/torch.yaml"
    threads: lambda wildcards: workflow.cores
    resources:
        gpu=1,
        mem_mb=8000,
    params:
        repeats=BENCH["repeats"],
        evaluated=BENCH["evaluated"],
    script:
        "../scripts/measure_shape.py"


rule measure_growth:
    input:
        code=code("measure_growth"),
    output:
        "results/bench/growth.csv",
    log:
        "results/bench/logs/measure_growth.log",
    conda:
        "../envs/torch.yaml"
    threads: lambda wildcards: workflow.cores
    resources:
        gpu=1,
        mem_mb=8000,
    params:
        repeats=BENCH["repeats"],
    script:
        "../scripts/measure_growth.py"


rule measure_suite:
    input:
        expand("results/{suite}/{model}/checkpoint", suite=SUITE, model=CLASSIFIERS),
        expand("results/{suite}/{model}/dataset/rows.parquet", suite=SUITE, model=CLASSIFIERS),
        expand("results/{suite}/{model}/dataset/splits.json", suite=SUITE, model=CLASSIFIERS),
        code=code("measure_suite"),
    output:
        trajectory="results/bench/trajectory.csv",
        reuse="results/bench/reuse.csv",
        exactness="results/bench/exactness.csv",
    log:
        "results/bench/logs/measure_suite.log",
    conda:
        "../envs/torch.yaml"
    threads: lambda wildcards: workflow.cores
    resources:
        gpu=1,
        mem_mb=8000,
    params:
        models=[
            (m, f"results/{SUITE}/{m}/checkpoint", f"results/{SUITE}/{m}/dataset")
            for m in CLASSIFIERS
        ],
        tokens=JOBS["batch_tokens"],
        memory_mb=MEMORY_MB,
        threads=JOBS["threads"],
        repeats=BENCH["repeats"],
    script:
        "../scripts/measure_suite.py"


rule summarize_bench:
    input:
        shapes=expand("results/bench/shapes/{shape}.csv", shape=BENCH["shapes"]),
        growth="results/bench/growth.csv",
        trajectory="results/bench/trajectory.csv",
        reuse="results/bench/reuse.csv",
        exactness="results/bench/exactness.csv",
        code=code("summarize_bench"),
    output:
        csv="results/bench/bench.csv",
        markdown="results/bench/bench.md",
        png="figures/bench/Benchmark.png",
        pdf="figures/bench/Benchmark.pdf",
    log:
        "results/bench/logs/summarize_bench.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=BENCH | {"dpi": SETTINGS["figures"]["dpi"]},
    script:
        "../scripts/summarize_bench.py"
