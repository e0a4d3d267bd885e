"""Attention entropy: shards of rows, merged."""


rule entropy:
    input:
        SUITE.of_each_run(layout.ENTROPY),


rule entropy_shard:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.own(layout.CHECKPOINT),
        code=code_for_model("entropy_shard"),
    output:
        shard=layout.own(layout.ENTROPY_SHARD),
        mean=layout.own(layout.PUBLISHED_SHARD),
    log:
        layout.own(layout.log("entropy_shard", "{model}/{first}-{last}")),
    benchmark:
        layout.own(layout.benchmark("entropy_shard", "{model}/{first}-{last}"))
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
        bench=lambda w: SUITE.bench(w.model, own=w.own),
        epsilon=SETTINGS["scores"]["entropy"]["epsilon"],
        variant=SETTINGS["scores"]["entropy"]["variant"],
    script:
        "../scripts/entropy_shard.py"


rule merge_entropy:
    input:
        shards=lambda w: SUITE.shards(w.model, own=w.own),
        checkpoint=layout.own(layout.CHECKPOINT),
        code=code_for_model("merge_entropy"),
    output:
        entropy=layout.own(layout.ENTROPY),
        diagnostics=layout.own(layout.DIAGNOSTICS),
    log:
        layout.own(layout.log("merge_entropy", "{model}")),
    localrule: True
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
        entropy=layout.ENTROPY,
        code=code("export_entropy"),
    output:
        layout.PUBLISHED_ENTROPY,
    log:
        layout.log("export_entropy", "{model}_{total}"),
    localrule: True
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    script:
        "../scripts/export_entropy.py"
