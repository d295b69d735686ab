"""The laboratory on top: command line, experiments, tables, figures and replay."""
