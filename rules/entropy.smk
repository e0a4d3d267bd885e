"""Attention entropy: shards of rows, merged."""


rule entropy:
    input:
        SUITE.of_each(layout.ENTROPY),


rule entropy_shard:
    input:
        rows=layout.ROWS,
        splits=layout.SPLITS,
        checkpoint=layout.CHECKPOINT,
        code=code_for_model("entropy_shard"),
    output:
        shard=layout.ENTROPY_SHARD,
        mean=layout.PUBLISHED_SHARD,
    log:
        layout.log("entropy_shard", "{model}/{first}-{last}"),
    benchmark:
        layout.benchmark("entropy_shard", "{model}/{first}-{last}")
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
        bench=lambda w: SUITE.bench(w.model),
        epsilon=SETTINGS["scores"]["entropy"]["epsilon"],
        variant=SETTINGS["scores"]["entropy"]["variant"],
    script:
        "../scripts/entropy_shard.py"


rule merge_entropy:
    input:
        shards=lambda w: SUITE.shards(w.model),
        checkpoint=layout.CHECKPOINT,
        code=code_for_model("merge_entropy"),
    output:
        entropy=layout.ENTROPY,
        diagnostics=layout.DIAGNOSTICS,
    log:
        layout.log("merge_entropy", "{model}"),
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
