"""Figures, each drawn from the results it needs."""


rule figures:
    input:
        [
            SUITE.fill(layout.FIGURE, figure=f, kind=kind)
            for f in SUITE.figures
            for kind in suite.PAGES
        ],


rule draw_figure:
    input:
        needs=lambda w: SUITE.needs_of(suite.draws(w.figure), w.suite),
        code=lambda w: code("draw_figure", suite.draws(w.figure)),
    output:
        png=report(
            layout.fill(layout.FIGURE, kind="png"),
            caption="../report/described.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        pdf=layout.fill(layout.FIGURE, kind="pdf"),
    log:
        layout.log("draw_figure", "{figure}"),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        results=lambda w: SUITE.results_of(suite.draws(w.figure), w.suite),
        settings=lambda w: SUITE.shown(suite.draws(w.figure)),
        dpi=SETTINGS["figures"]["dpi"],
        caption=lambda w: caption(suite.draws(w.figure)),
    script:
        "../scripts/draw_figure.py"


# Neither outputs nor results as inputs: it runs whenever it is asked for, also while a run that makes them goes on.
rule preview:
    input:
        code=code("preview"),
    log:
        layout.log("preview", suite=SUITE.name),
    localrule: True
    conda:
        "../envs/plots.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        trajectories=SUITE.trajectories(),
        runs=SETTINGS["runs"],
        now={m: {s: SUITE.belonging(m, s) for s in SUITE.ranked} for m in MODELS},
        units=SUITE.units,
        models=SUITE.titles,
        strategies=SUITE.strategies_of(suite.draws("PruningResults"), SUITE.name),
        settings=SUITE.shown(suite.draws("PruningResults")),
        dpi=SETTINGS["figures"]["dpi"],
        outputs=[SUITE.fill(layout.PREVIEW, kind=kind) for kind in suite.PAGES],
    script:
        "../scripts/preview.py"
