/* A shared library that is no plug-in. */
int assay_not_a_backend(void) { return 0; }
