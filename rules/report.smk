"""The HTML report of a finished suite."""


rule report:
    input:
        expand("results/{suite}/report.html", suite=SUITE),


rule write_report:
    input:
        rules.datasets.input,
        rules.tables.input,
        rules.figures.input,
        rules.verdict.input,
        captions=[os.path.relpath(path) for path in sorted(ROOT.glob("report/*.rst"))],
        code=code("write_report"),
    output:
        report="results/{suite}/report.html",
        config="results/{suite}/config.yaml",
    log:
        "results/{suite}/logs/write_report.log",
    conda:
        "../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        config={key: value for key, value in config.items() if key not in MACHINE},
        snakefile=os.path.relpath(workflow.main_snakefile),
        targets=["datasets", "tables", "figures", "verdict"],
    script:
        "../scripts/write_report.py"
