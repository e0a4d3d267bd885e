"""From a suite entry to a dataset and a checkpoint."""


rule datasets:
    input:
        SUITE.of_each(layout.SUMMARY),


rule checkpoints:
    input:
        SUITE.of_each_run(layout.CHECKPOINT),


rule fetch_package:
    input:
        code=code("fetch_package"),
    output:
        layout.ARCHIVE,
    log:
        layout.log("fetch_package", "{archive}"),
    localrule: True
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
        code=fetch_code("fetch_dataset", "dataset"),
    output:
        layout.DOWNLOADED_DATASET,
    log:
        layout.log("fetch_dataset", "{model}"),
    retries: FETCH_RETRIES
    localrule: True
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
    params:
        entry=origin("dataset", "location"),
        mirror=mirror("dataset"),
    script:
        "../scripts/fetch_dataset.py"


rule fetch_model:
    input:
        archive=archive("checkpoint"),
        code=fetch_code("fetch_model", "checkpoint"),
    output:
        directory(layout.DOWNLOADED_MODEL),
    log:
        layout.log("fetch_model", "{model}"),
    retries: FETCH_RETRIES
    localrule: True
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
    params:
        entry=origin("checkpoint", "location"),
        mirror=mirror("checkpoint"),
    script:
        "../scripts/fetch_model.py"


rule make_dataset:
    input:
        origin("dataset", "inputs"),
        origin("checkpoint", "inputs"),
        code=dataset_code,
    output:
        rows=ensure(layout.ROWS, non_empty=True),
        splits=layout.SPLITS,
        summary=layout.SUMMARY,
        page=report(
            layout.SUMMARY_PAGE,
            caption="../report/dataset.rst",
            category="Data",
            labels={"model": "{model}"},
        ),
        tokenizer=directory(layout.TOKENIZER),
    log:
        layout.log("make_dataset", "{model}"),
    priority: lambda w: SUITE.goes_first(w.model)
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=4000,
    params:
        dataset=origin("dataset", "at_hand"),
        checkpoint=origin("checkpoint", "of_tokenizer"),
        counts=setting("rows"),
        seed=SETTINGS["seed"],
    script:
        "../scripts/make_dataset.py"


rule make_checkpoint:
    input:
        origin("checkpoint", "inputs"),
        rows=layout.ROWS,
        splits=layout.SPLITS,
        tokenizer=layout.TOKENIZER,
        code=checkpoint_code,
    output:
        checkpoint=directory(layout.own(layout.CHECKPOINT)),
        heads=layout.own(layout.HEADS),
    log:
        layout.own(layout.log("make_checkpoint", "{model}")),
    benchmark:
        layout.own(layout.benchmark("make_checkpoint", "{model}"))
    priority: lambda w: SUITE.goes_first(w.model, first=layout.run_of(w.own))
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("make_checkpoint"),
        # Not a parameter: no checkpoint depends on it, and another criterion must not train a model again.
        wanted=lambda w: SUITE.wanted(w.model),
    params:
        dataset_folder=subpath(input.rows, parent=True),
        checkpoint=origin("checkpoint", "at_hand"),
        seed=lambda w: SUITE.seed_of(w.own),
        threads=JOBS["threads"],
        state=layout.own(layout.fill(layout.STATE, job="{model}.checkpoint")),
        task=setting("task"),
    script:
        "../scripts/make_checkpoint.py"


rule measure_baselines:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        code=code("measure_baselines"),
    output:
        layout.BASELINES,
    log:
        layout.log("measure_baselines", "{model}"),
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
