"""Speed and memory beside the naive procedures; its jobs take every core, one after another."""


rule bench:
    input:
        layout.fill(layout.BENCH_TABLE, kind="md"),


rule measure_shape:
    input:
        code=code("measure_shape"),
    output:
        layout.BENCH_SHAPE,
    log:
        layout.log("measure_shape", "{shape}", suite=layout.BENCH),
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
        layout.fill(layout.BENCH_PART, part="growth"),
    log:
        layout.log("measure_growth", suite=layout.BENCH),
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
        [
            SUITE.of_each(path, SUITE.classifiers)
            for path in (layout.CHECKPOINT, layout.ROWS, layout.SPLITS)
        ],
        code=code("measure_suite"),
    output:
        trajectory=layout.fill(layout.BENCH_PART, part="trajectory"),
        reuse=layout.fill(layout.BENCH_PART, part="reuse"),
        exactness=layout.fill(layout.BENCH_PART, part="exactness"),
    log:
        layout.log("measure_suite", suite=layout.BENCH),
    conda:
        "../envs/torch.yaml"
    threads: lambda wildcards: workflow.cores
    resources:
        gpu=1,
        mem_mb=8000,
    params:
        models=[
            (m, SUITE.fill(layout.CHECKPOINT, model=m), SUITE.bench(m, budget=False))
            for m in SUITE.classifiers
        ],
        repeats=BENCH["repeats"],
    script:
        "../scripts/measure_suite.py"


rule summarize_bench:
    input:
        shapes=expand(layout.BENCH_SHAPE, shape=BENCH["shapes"]),
        growth=layout.fill(layout.BENCH_PART, part="growth"),
        trajectory=layout.fill(layout.BENCH_PART, part="trajectory"),
        reuse=layout.fill(layout.BENCH_PART, part="reuse"),
        exactness=layout.fill(layout.BENCH_PART, part="exactness"),
        code=code("summarize_bench"),
    output:
        csv=layout.fill(layout.BENCH_TABLE, kind="csv"),
        markdown=layout.fill(layout.BENCH_TABLE, kind="md"),
        png=layout.fill(layout.BENCH_FIGURE, kind="png"),
        pdf=layout.fill(layout.BENCH_FIGURE, kind="pdf"),
    log:
        layout.log("summarize_bench", suite=layout.BENCH),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        settings=BENCH | {"dpi": SETTINGS["figures"]["dpi"]},
        suite=settings.models_of(ROOT, "paper"),
    script:
        "../scripts/summarize_bench.py"
