"""The commits between two ends as a graph, and the sets that a search needs of it.

Commit i of `commits` stands behind all of its ancestors. `ancestors[i]` is the set of i and its ancestors
among them, as the bits of an integer. The commit that brought a change is unknown: it is `h`, and commit c
shows the change just when h is in `ancestors[c]`."""


class History:
    def __init__(self, commits, parents):
        """commits: names, ancestors first. parents: name -> names, of which those that are no commits here
        are old."""
        self.commits = list(commits)
        self.index = {name: i for i, name in enumerate(self.commits)}
        self.parents = [[self.index[p] for p in parents[name] if p in self.index] for name in self.commits]
        self.ancestors = []
        for i, own in enumerate(self.parents):
            bits = 1 << i
            for parent in own:
                if parent >= i:
                    raise ValueError(f"{self.commits[i]} stands in front of its parent {self.commits[parent]}")
                bits |= self.ancestors[parent]
            self.ancestors.append(bits)

    def __len__(self):
        return len(self.commits)

    def everything(self):
        return (1 << len(self.commits)) - 1


def members(bits):
    """The numbers of the bits that are set, in ascending order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def intervals(bits):
    """[(first, end)...]: the runs of bits that are set. Sets of ancestors are few and long ones."""
    found, at = [], 0
    while bits:
        skip = (bits & -bits).bit_length() - 1
        bits >>= skip
        at += skip
        length = (~bits & (bits + 1)).bit_length() - 1
        found.append((at, at + length))
        bits >>= length
        at += length
    return found
