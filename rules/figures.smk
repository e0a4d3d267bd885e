"""Figures, each drawn from the results it needs."""


rule figures:
    input:
        expand("figures/{suite}/{figure}.{kind}", suite=SUITE, figure=FIGURES, kind=["png", "pdf"]),


rule draw_figure:
    input:
        needs=lambda wildcards: needs(f"figures.{wildcards.figure.lower()}", wildcards.suite),
        code=lambda wildcards: code("draw_figure", f"figures.{wildcards.figure.lower()}"),
    output:
        png=report(
            "figures/{suite}/{figure}.png",
            caption="../report/described.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        pdf="figures/{suite}/{figure}.pdf",
    log:
        "results/{suite}/logs/draw_figure/{figure}.log",
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        models=titles,
        strategies=lambda wildcards: strategies_for(
            f"figures.{wildcards.figure.lower()}", wildcards.suite
        ),
        settings={
            **SETTINGS["solutions"],
            "columns": SETTINGS["figures"]["columns"],
            "tasks": TASKS,
            "metrics": SETTINGS["metrics"],
        },
        dpi=SETTINGS["figures"]["dpi"],
        caption=lambda wildcards: caption(f"figures.{wildcards.figure.lower()}"),
    script:
        "../scripts/draw_figure.py"
