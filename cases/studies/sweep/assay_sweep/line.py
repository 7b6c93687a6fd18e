"""Cell lines as text: probe key=value ..., and what of them tells cells of one series apart."""


class LineError(Exception):
    """A line, or an argument, that is none: the program ends with 2."""


def words(cell):
    probe, *pairs = cell.split(" ")
    return probe, dict(pair.split("=", 1) for pair in pairs)


def without(cell, *keys):
    probe, pairs = words(cell)
    return " ".join([probe] + [f"{k}={v}" for k, v in pairs.items() if k not in keys])


def expand(text, defaults, allowed, where="cell"):
    """The cells of a line whose sets multiply, keys in the order of `defaults`; None there: it must be given.
    allowed: {key: function(value) -> canonical text, or ValueError with what is allowed}."""
    probe, *pairs = text.split()
    given = {}
    for pair in pairs:
        key, equals, values = pair.partition("=")
        if not equals or key not in defaults:
            raise LineError(f"{where}: '{pair}': allowed keys: {' '.join(defaults)}")
        if key in given:
            raise LineError(f"{where}: {key} is given twice")
        given[key] = values.split(",")
    cells = [[]]
    for key, fallback in defaults.items():
        values = given.get(key, [fallback])
        if values == [None]:
            raise LineError(f"{where}: {key}= must be given")
        canonical = []
        for value in values:
            try:
                canonical.append(allowed[key](value))
            except ValueError as error:
                raise LineError(f"{where}: {key}={value}: allowed: {error}") from None
        cells = [c + [(key, v)] for c in cells for v in dict.fromkeys(canonical)]
    return [(probe, dict(c)) for c in cells]


def spelt(probe, values, defaults):
    """The one spelling of a cell: keys at their defaults are left out, but for those without one and the
    seed."""
    return " ".join([probe] + [f"{k}={v}" for k, v in values.items() if v != defaults[k] or k == "seed"])
