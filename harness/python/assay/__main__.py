"""`python -m assay ...`: the program, where its folder is not on the PATH."""
from assay.program import main

main()
