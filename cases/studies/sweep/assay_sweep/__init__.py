"""assay sweep: long-context retrieval measured at the kernel and on engines. README.md says what each part is
for."""
