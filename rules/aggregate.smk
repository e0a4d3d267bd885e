"""From raw results to the published formats, the tidy table, solutions and tables."""


rule exports:
    input:
        SUITE.published_curves(),
        [SUITE.published_trials(m) for m in MODELS],
        [SUITE.published_entropy(m) for m in MODELS if SUITE.ranks_by_entropy],
        SUITE.of_each_run(layout.ENTROPY) if SUITE.ranks_by_entropy else [],
        SUITE.of_each(layout.PRUNED),
        [SUITE.of_each(layout.NEURON_MASK, strategy=name) for name in SUITE.of_neurons],


rule tables:
    input:
        [
            SUITE.fill(layout.TABLE, table=t, kind=kind)
            for t in SUITE.tables
            for kind in suite.TABLES
        ],
        [SUITE.fill(path) for path in (layout.WORKBOOK, layout.TIDY)],


rule collect_results:
    input:
        trajectories=[path for path, *_ in SUITE.trajectories()],
        random=[path for path, *_ in SUITE.trial_tables()],
        code=code("collect_results"),
    output:
        layout.TIDY,
    log:
        layout.log("collect_results"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        trajectories=SUITE.trajectories(),
        random=SUITE.trial_tables(),
        units=SUITE.units,
        metrics=[name for task in SUITE.tasks.values() for name in SETTINGS["metrics"][task]],
    script:
        "../scripts/collect_results.py"


rule find_solution:
    input:
        checkpoint=layout.CHECKPOINT,
        trajectory=lambda w: SUITE.trajectory(w.model, SETTINGS["solutions"]["strategy"]),
        controls=layout.CONTROLS,
        code=code_for_model("find_solution"),
    output:
        solution=layout.SOLUTION,
        mask=layout.MASK,
        parameters=layout.PARAMETERS,
    log:
        layout.log("find_solution", "{model}"),
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=time_limit("find_solution"),
    params:
        strategy=SETTINGS["solutions"]["strategy"],
        tolerance=SETTINGS["solutions"]["tolerance"],
        fixed=setting("solution"),
        metrics=lambda w: SUITE.metrics(w.model),
        bench=SUITE.loading,
    script:
        "../scripts/find_solution.py"


rule mask_neurons:
    input:
        checkpoint=layout.CHECKPOINT,
        trajectory=lambda w: SUITE.trajectory(w.model, w.strategy),
        controls=layout.CONTROLS,
        code=code_for_model("mask_neurons"),
    output:
        layout.NEURON_MASK,
    log:
        layout.log("mask_neurons", "{model}/{strategy}"),
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
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.CHECKPOINT,
        heads=layout.HEADS,
        solution=layout.SOLUTION,
        code=code_for_model("export_solution"),
    output:
        checkpoint=directory(layout.PRUNED),
        dense=directory(layout.DENSE),
        latency=layout.LATENCY,
    log:
        layout.log("export_solution", "{model}"),
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        mem_mb=memory,
    params:
        bench=lambda w: SUITE.bench(w.model, budget=False),
        title=lambda w: SUITE.titles[w.model],
    script:
        "../scripts/export_solution.py"


rule export_accuracy:
    input:
        trajectory=lambda w: SUITE.trajectory(w.model, SUITE.published_names[w.published]),
        code=code("export_accuracy"),
    output:
        layout.PUBLISHED_CURVE,
    log:
        layout.log("export_accuracy", "{model}_{published}"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=500,
    script:
        "../scripts/export_accuracy.py"


rule export_random:
    input:
        trials=lambda w: SUITE.fill(layout.TRIALS, model=w.model, strategy=SUITE.published_random),
        code=code("export_random"),
    output:
        layout.PUBLISHED_TRIALS,
    log:
        layout.log("export_random", "{model}_{trials}x{levels}_{group}"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        trials=lambda w: SUITE.trial_range(w.model, w.group),
    script:
        "../scripts/export_random.py"


rule make_table:
    input:
        needs=lambda w: SUITE.needs_of(suite.makes(w.table), w.suite),
        outcomes=lambda w: SUITE.files_of_outcomes(w.suite, suite.makes(w.table)),
        code=lambda w: code("make_table", suite.makes(w.table)),
    output:
        page=report(
            layout.fill(layout.TABLE, kind="html"),
            caption="../report/described.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        csv=layout.fill(layout.TABLE, kind="csv"),
        markdown=layout.fill(layout.TABLE, kind="md"),
        latex=layout.fill(layout.TABLE, kind="tex"),
    log:
        layout.log("make_table", "{table}"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        results=lambda w: SUITE.results_of(suite.makes(w.table), w.suite),
        settings=lambda w: SUITE.shown(suite.makes(w.table)),
        caption=lambda w: caption(suite.makes(w.table)),
    script:
        "../scripts/make_table.py"


rule make_workbook:
    input:
        tables=[SUITE.fill(layout.TABLE, table=table, kind="csv") for table in SUITE.tables],
        tidy=layout.TIDY,
        code=code("make_workbook"),
    output:
        layout.WORKBOOK,
    log:
        layout.log("make_workbook"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    script:
        "../scripts/make_workbook.py"
