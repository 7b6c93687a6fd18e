"""What can go wrong besides the kernels that are judged: each has an exit code of its own."""
import json

GREEN, SEVERAL, USAGE, NOTHING, CANNOT_RUN = 0, 1, 2, 3, 125  # the exit codes of `assay bisect --help`


class Usage(Exception):
    """Asked for what cannot be: says what was got, where, and what is allowed."""


def read_state(path, text, is_whole):
    """The object that a search wrote into a file of --state; `is_whole` says of an object whether it is
    one."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not is_whole(found):
        raise Usage(f"{path} is torn, or none of ours: '{text[:60].strip()}'; remove it, and the same command finds it out again")
    return found


class NoDifference(Exception):
    """Both ends show the same: there is nothing to bisect."""


class Infrastructure(Exception):
    """The machine failed, not a commit: no answer is taken from it, and the same command goes on from
    here."""


class Untestable(Exception):
    """This commit cannot answer: it does not build, or its plug-in does not run the case."""
