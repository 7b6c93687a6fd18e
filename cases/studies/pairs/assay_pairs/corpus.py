"""The list of pairs, and the files of a pair as they stand in a local mirror: nothing of theirs is in this
tree."""
import hashlib
import io
import os
import shlex
import subprocess
import tarfile
from dataclasses import dataclass, field

KEYS = ("repo", "fix", "parent", "license", "class", "family", "paths", "sums", "root", "entry", "adapter",
        "op", "flags",
        "python", "shaped", "trigger", "fixes")


class Wrong(Exception):
    """The list, or the command: what was got, and what is allowed."""


class Missing(Exception):
    """What this machine lacks to make a pair."""


@dataclass
class Pair:
    id: str
    words: dict = field(default_factory=dict)
    seed: str = ""

    def __getitem__(self, key):
        return self.words.get(key, "")

    @property
    def half(self):
        """Drawn by the seed and the name alone, before anything of the pair was run; a later pair falls into
        a half likewise."""
        odd = hashlib.sha256(f"{self.seed}:{self.id}".encode()).digest()[0] & 1
        return "untouched" if odd else "looked"

    @property
    def made(self):
        """Whether there is an adapter; without one the line is a candidate."""
        return bool(self["adapter"])


def read(path):
    """A pair is a line, NAME KEY=VALUE ...; an indented line goes on with it."""
    pairs, seed, lines = [], "", []
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if line.strip() and not line.startswith("#"):
            if line[0] == " " and lines:
                lines[-1][1] += line
            else:
                lines.append([number, line])
    for number, line in lines:
        name, *words = shlex.split(line)
        if name == "seed":
            seed = words[0]
            continue
        pair = Pair(name, seed=seed)
        for word in words:
            key, equals, value = word.partition("=")
            if not equals or key not in KEYS:
                raise Wrong(f"{path}:{number}: {word}: KEY=VALUE is allowed, KEY one of {' '.join(KEYS)}")
            pair.words[key] = value
        lacking = [key for key in ("repo", "fix", "parent") if not pair[key]]
        if pair.made:
            lacking += [key for key in ("license", "paths", "sums", "trigger") if not pair[key]]
        if lacking or any(p.id == name for p in pairs):
            raise Wrong(f"{path}:{number}: {name}: "
                        + (f"{' '.join(lacking)} is missing" if lacking else "stands twice"))
        pairs.append(pair)
    return pairs


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, *words], capture_output=True, check=False)


def repository(mirror, pair):
    """Its git directory under the mirror: OWNER+NAME, OWNER/NAME, each bare, with .git behind it, or with a
    folder repo in it."""
    owner, name = pair["repo"].split("/")
    for stem in (f"{owner}+{name}", os.path.join(owner, name)):
        for tail in ("", ".git", "/repo"):
            folder = os.path.join(mirror, stem + tail)
            if os.path.isdir(folder) and any(os.path.exists(os.path.join(folder, sign))
                                             for sign in ("HEAD", ".git")):
                return folder
    raise Missing(f"{pair.id}: no {owner}+{name} under {mirror}: git clone --bare the repository {pair['repo']} there")


def extract(mirror, pair, side, target):
    """The pair's paths at its parent or its child, below `target`, held against the checksum of the list."""
    folder = repository(mirror, pair)
    commit = pair["parent"] if side == "parent" else pair["fix"]
    if git(folder, "cat-file", "-e", commit + "^{commit}").returncode:
        raise Missing(f"{pair.id}: {folder} has no commit {commit}: fetch it")
    if side == "child" and not git(folder, "rev-parse",
                                   commit + "^").stdout.decode().startswith(pair["parent"]):
        raise Wrong(f"{pair.id}: {pair['parent']} is not the first parent of {commit}")
    packed = git(folder, "archive", "--format=tar", commit, "--", *pair["paths"].split(","))
    if packed.returncode:
        raise Missing(f"{pair.id}: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(target, [member for member in archive if member.isfile()])  # no links out of it
    seen, (parent, _, child) = checksum(target), pair["sums"].partition(",")
    wanted = parent if side == "parent" else child
    if wanted != seen:
        raise Wrong(f"{pair.id}: the files of its {side} have the checksum {seen}, and the list says {wanted or 'none'}")


def checksum(folder):
    """The first 16 digits of the SHA-256 of each file's path and bytes, in the order of the paths."""
    digest = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(place, name)
            body = open(path, "rb").read()
            digest.update(f"{os.path.relpath(path, folder)}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()[:16]
