"""On the path of what `assay watch` starts, in front of the machine's own sitecustomize, which is run as
ever."""
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [place for place in sys.path if os.path.abspath(place or os.curdir) != _here]
_own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401
except ImportError:
    sys.modules["sitecustomize"] = _own
try:
    from assay.watching import inject
    inject.install()
except Exception as why:  # noqa: BLE001  the program runs unwatched
    print(f"assay watch: {why}", file=sys.stderr)
