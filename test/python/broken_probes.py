"""Programs of `syncopate check` with faults that it has to find."""

from syncopate.sim.probe import make_probe


def probe_without_waits(*words, **options):
    """What `make_probe` makes, but for the waits of its commands."""
    program = make_probe(*words, **options)
    for tables in program.tables:
        table = tables["commands"]
        table.values[:, table.columns.index("wait_end")] = 0
        table.values[:, table.columns.index("wait_begin")] = 0
    return program
