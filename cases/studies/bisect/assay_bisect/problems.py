"""What can go wrong besides the kernels that are judged: each has an exit code of its own."""

GREEN, SEVERAL, USAGE, NOTHING, CANNOT_RUN = 0, 1, 2, 3, 125  # the exit codes of `assay bisect --help`


class Usage(Exception):
    """Asked for what cannot be: says what was got, where, and what is allowed."""


class NoDifference(Exception):
    """Both ends show the same: there is nothing to bisect."""


class Infrastructure(Exception):
    """The machine failed, not a commit: no answer is taken from it, and the same command goes on from here."""


class Untestable(Exception):
    """This commit cannot answer: it does not build, or its plug-in does not run the case."""
