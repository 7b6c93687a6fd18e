"""What a running model computes, judged: see assay.watch and docs/watch.md."""
