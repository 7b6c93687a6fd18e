"""Which commit, flag, source file, object or library turned a kernel's result into another: `assay
bisect`."""
