"""The command `assay` of a wheel: the program in the package, in place of this process."""
import os
import shutil
import sys


def path():
    """The program: $ASSAY_PROGRAM, that of the same wheel or installation, or the first on the PATH."""
    here = os.path.dirname(os.path.realpath(__file__))
    beside = [os.path.join(here, "bin", "assay"), os.path.join(here, *[os.pardir] * 4, "bin", "assay")]
    found = os.environ.get("ASSAY_PROGRAM") or next((p for p in beside if os.path.exists(p)),
                                                    None) or shutil.which("assay")
    if not found:
        raise FileNotFoundError("no program assay: neither in $ASSAY_PROGRAM nor on the PATH")
    return found


def main():
    program = path()
    os.execv(program, [program, *sys.argv[1:]])
