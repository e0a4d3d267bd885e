"""Speed, and the text that language models write, at the levels of random pruning.

Beside other jobs times are noisy: `--cores` of one job's threads gives quiet ones.
"""


rule measure_speed:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.CHECKPOINT,
        trajectories=lambda w: [SUITE.trajectory(w.model, name) for name in SUITE.of_heads],
        code=code_for_model("measure_speed"),
    output:
        layout.SPEED,
    log:
        layout.log("measure_speed", "{model}"),
    benchmark:
        layout.benchmark("measure_speed", "{model}")
    conda:
        "../envs/torch.yaml"
    threads: JOBS["threads"]
    resources:
        gpu=1,
        mem_mb=memory,
        runtime=time_limit("measure_speed"),
    params:
        dataset_folder=subpath(input.rows, parent=True),
        strategies=SUITE.of_heads,
        levels=setting("random", "levels"),
        metrics=lambda w: SUITE.metrics_of_speed(w.model),
        generation=lambda w: SUITE.generation(w.model),
        bench=SUITE.loading,
    script:
        "../scripts/measure_speed.py"
