"""The HTML report of a finished suite."""


rule report:
    input:
        SUITE.fill(layout.REPORT),


rule write_report:
    input:
        rules.datasets.input,
        rules.tables.input,
        rules.figures.input,
        rules.verdict.input,
        rules.reproduction.input,
        captions=[os.path.relpath(path) for path in sorted(ROOT.glob("report/*.rst"))],
        code=code("write_report"),
    output:
        report=layout.REPORT,
        config=layout.CONFIGURATION,
    log:
        layout.log("write_report"),
    localrule: True
    conda:
        "../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        config={key: value for key, value in config.items() if key not in MACHINE},
        snakefile=os.path.relpath(workflow.main_snakefile),
        targets=["datasets", "tables", "figures", "verdict", "reproduction"],
    script:
        "../scripts/write_report.py"
