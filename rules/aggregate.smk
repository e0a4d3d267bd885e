"""From raw results to the published formats, the tidy table, solutions and tables."""


rule exports:
    input:
        [
            f"results/{SUITE}/experiments_results/{interchange.accuracy_file(m, s)}"
            for m in MODELS
            for s in PUBLISHED.values()
        ],
        [random_workbooks(m) for m in MODELS if WORKBOOKS],
        [published_entropy(m) for m in MODELS if ENTROPY],
        expand("results/{suite}/solutions/{model}/checkpoint", suite=SUITE, model=MODELS),
        expand(
            "results/{suite}/solutions/{model}/{strategy}.mask.csv",
            suite=SUITE,
            model=MODELS,
            strategy=OF_NEURONS,
        ),


rule tables:
    input:
        expand(
            "results/{suite}/tables/{table}.{kind}",
            suite=SUITE,
            table=TABLES,
            kind=["csv", "md", "tex", "html"],
        ),
        expand("results/{suite}/{file}", suite=SUITE, file=["all.xlsx", "tidy.csv"]),


rule collect_results:
    input:
        trajectories=[path for path, *_ in all_trajectories()],
        random=[path for path, *_ in all_trial_tables()],
        code=code("collect_results"),
    output:
        "results/{suite}/tidy.csv",
    log:
        "results/{suite}/logs/collect_results.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        trajectories=all_trajectories(),
        random=all_trial_tables(),
        units=UNITS,
        metrics=[name for task in TASKS.values() for name in SETTINGS["metrics"][task]],
    script:
        "../scripts/collect_results.py"


rule find_solution:
    input:
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        checkpoint="results/{suite}/{model}/checkpoint",
        trajectory=lambda wildcards: trajectory(
            wildcards.model, SETTINGS["solutions"]["strategy"], 0
        ),
        code=code("find_solution"),
    output:
        solution="results/{suite}/solutions/{model}/solution.json",
        mask="results/{suite}/solutions/{model}/mask.csv",
        parameters="results/{suite}/solutions/{model}/parameters.csv",
    log:
        "results/{suite}/logs/find_solution/{model}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=time_limit("find_solution"),
    params:
        dataset_folder=subpath(input.rows, parent=True),
        tokens=JOBS["batch_tokens"],
        memory_mb=MEMORY_MB,
        strategy=SETTINGS["solutions"]["strategy"],
        tolerance=SETTINGS["solutions"]["tolerance"],
        fixed=setting("solution"),
        threads=1,
    script:
        "../scripts/find_solution.py"


rule mask_neurons:
    input:
        checkpoint="results/{suite}/{model}/checkpoint",
        trajectory=lambda wildcards: trajectory(wildcards.model, wildcards.strategy, 0),
        controls="results/{suite}/{model}/controls.json",
        code=code("mask_neurons"),
    output:
        "results/{suite}/solutions/{model}/{strategy}.mask.csv",
    log:
        "results/{suite}/logs/mask_neurons/{model}/{strategy}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=time_limit("mask_neurons"),
    params:
        group=SETTINGS["neurons"]["group"],
        tolerance=SETTINGS["solutions"]["tolerance"],
    script:
        "../scripts/mask_neurons.py"


rule export_solution:
    input:
        rows="results/{suite}/{model}/dataset/rows.parquet",
        splits="results/{suite}/{model}/dataset/splits.json",
        checkpoint="results/{suite}/{model}/checkpoint",
        heads="results/{suite}/{model}/heads.json",
        solution="results/{suite}/solutions/{model}/solution.json",
        code=code("export_solution"),
    output:
        checkpoint=directory("results/{suite}/solutions/{model}/checkpoint"),
        latency="results/{suite}/solutions/{model}/latency.json",
    log:
        "results/{suite}/logs/export_solution/{model}.log",
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        mem_mb=memory,
    params:
        dataset_folder=subpath(input.rows, parent=True),
        title=lambda wildcards: TITLES[wildcards.model],
        tokens=JOBS["batch_tokens"],
        memory_mb=MEMORY_MB,
        threads=JOBS["threads"],
        metrics=step_metrics,
    script:
        "../scripts/export_solution.py"


rule export_accuracy:
    input:
        trajectory=lambda wildcards: trajectory(wildcards.model, PUBLISHED[wildcards.published], 0),
        code=code("export_accuracy"),
    output:
        "results/{suite}/experiments_results/pruned_heads_accuracy({model})basedon{published}.csv",
    log:
        "results/{suite}/logs/export_accuracy/{model}_{published}.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=500,
    script:
        "../scripts/export_accuracy.py"


rule export_random:
    input:
        trials=lambda wildcards: f"results/{SUITE}/{wildcards.model}/{WORKBOOKS}/trials.csv",
        code=code("export_random"),
    output:
        "results/{suite}/experiments_results/{model}randompruned_heads_data_{size}_{group}.xlsx",
    log:
        "results/{suite}/logs/export_random/{model}_{size}_{group}.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        first=lambda wildcards: trial_range(wildcards)[0],
        last=lambda wildcards: trial_range(wildcards)[1],
    script:
        "../scripts/export_random.py"


rule make_table:
    input:
        needs=lambda wildcards: needs(f"tables.{wildcards.table}", wildcards.suite),
        code=lambda wildcards: code("make_table", f"tables.{wildcards.table}"),
    output:
        page=report(
            "results/{suite}/tables/{table}.html",
            caption="../report/described.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        csv="results/{suite}/tables/{table}.csv",
        markdown="results/{suite}/tables/{table}.md",
        latex="results/{suite}/tables/{table}.tex",
    log:
        "results/{suite}/logs/make_table/{table}.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        models=titles,
        strategies=lambda wildcards: strategies_for(f"tables.{wildcards.table}", wildcards.suite),
        settings={**SETTINGS["solutions"], "tasks": TASKS, "metrics": SETTINGS["metrics"]},
        caption=lambda wildcards: caption(f"tables.{wildcards.table}"),
    script:
        "../scripts/make_table.py"


rule make_workbook:
    input:
        tables=expand("results/{suite}/tables/{table}.csv", suite=SUITE, table=TABLES),
        tidy="results/{suite}/tidy.csv",
        code=code("make_workbook"),
    output:
        "results/{suite}/all.xlsx",
    log:
        "results/{suite}/logs/make_workbook.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    script:
        "../scripts/make_workbook.py"
