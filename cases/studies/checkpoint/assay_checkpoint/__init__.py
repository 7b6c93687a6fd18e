"""assay checkpoint: what a quantised checkpoint says that it is, and what its bytes are."""
