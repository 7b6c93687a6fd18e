"""Object files, and the functions in them, from two builds in one plug-in."""
import glob
import os
import shlex
import shutil
import subprocess

from .delta import smallest
from .problems import Infrastructure, Untestable


def parts_of(folder, pattern):
    return {f for f in glob.glob(pattern, root_dir=folder, recursive=True)
            if os.path.isfile(os.path.join(folder, f))}


def link(kept, command, objects, folder, name):
    """Links objects by the user's command; returns the plug-in."""
    out, log = os.path.join(folder, name), os.path.join(folder, "link.log")
    command = command.replace("{out}", shlex.quote(out)).replace("{objects}", shlex.join(objects))
    ended = kept.run(["/bin/sh", "-c", command], folder, log, 600)
    if ended is None:
        raise Infrastructure("linking was ended from outside")
    if ended["ended"] != "exit" or ended["code"] or not os.path.exists(out):
        with open(log, errors="replace") as f:
            lines = f.read().strip().splitlines()
        raise Untestable(f"it does not link: {lines[-1] if lines else ended}")
    return out


def functions_of(path):
    """The names that an object file defines for others."""
    done = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", path],
                          capture_output=True, text=True)
    if done.returncode:
        raise Infrastructure(f"nm {path}: {done.stderr.strip()}")
    return {line.split()[0] for line in done.stdout.splitlines() if line.split()[1:2] and line.split()[1]
            in "TDBRGS"}


def weakened(source, target, names):
    """A copy of an object in which other definitions of these names are preferred to its own."""
    if not shutil.which("objcopy"):
        raise Infrastructure("objcopy is missing; to get it: apt-get install binutils")
    if not names:
        shutil.copy2(source, target)
        return
    words = [f"--weaken-symbol={name}" for name in sorted(names)]
    done = subprocess.run(["objcopy", *words, source, target], capture_output=True, text=True)
    if done.returncode:
        raise Infrastructure(f"objcopy {source}: {done.stderr.strip()}")


def by_function(axis, part, shows, say):
    """{object: [function]} of each object that matters: both of its builds are linked, and of each function
    one is weak, so
    that the other is the one that is called. What the compiler has inlined, or keeps to one file, is not told
    apart."""
    found = {}
    for file in part:
        good, bad = os.path.join(axis.good, file), os.path.join(axis.bad, file)
        if not os.path.exists(good) or not os.path.exists(bad):
            continue
        names = functions_of(good) & functions_of(bad)

        def plugin(chosen, file=file, good=good, bad=bad, names=names):
            folder = axis.folder([file, "functions", *chosen])
            halves = [os.path.join(folder, "good.o"), os.path.join(folder, "bad.o")]
            weakened(good, halves[0], set(chosen))
            weakened(bad, halves[1], names - set(chosen))
            others = [axis.side(f, part) for f in axis.both if f != file
                      and os.path.exists(axis.side(f, part))]
            return link(axis.kept, axis.a.link, others + halves, folder, os.path.basename(axis.a.backend))

        items = sorted(names)
        try:
            apart = len(items) > 1 and shows(plugin(items), f"{file}: all functions") and shows(
                plugin([]), f"{file}: no function") is False
        except Untestable as e:
            say(f"  {file}: {e}")
            apart = False
        if not apart:
            print(f"  {file}: not told apart by function")
            continue
        found[file] = smallest(items, lambda some, file=file,
                               plugin=plugin: shows(plugin(some), f"{file}: {' '.join(some)}"))
        print(f"  {file}: {' '.join(found[file])}")
    return found
