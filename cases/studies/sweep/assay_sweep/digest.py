"""The sha256 of model files, which are read once: gigabytes of a model that a whole sweep names in each of
its rows."""
import functools
import hashlib
import os

BLOCK = 1 << 20  # bytes that are read at a time


def of_file(path):
    """In hexadecimal; the file is read."""
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            total.update(block)
    return total.hexdigest()


@functools.lru_cache(maxsize=None)
def _known(path, size, modified):
    return of_file(path)


def of_model(path):
    """Of a model that was given, read again only when its size or its time of modification has changed; ""
    where the server that
    is running has its own."""
    if not path:
        return ""
    stat = os.stat(path)
    return _known(os.path.realpath(path), stat.st_size, stat.st_mtime_ns)
