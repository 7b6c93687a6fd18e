/* The library that generating.cpp brings along. */
int brought_factor(void) { return 2; }
int brought_other(void) { return 1 + 1; }
