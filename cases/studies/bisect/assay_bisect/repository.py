"""The user's repository, read only, and a repository of our own that borrows its objects: work trees hang on
that one, so that neither the user's checkout nor his list of work trees is touched."""
import hashlib
import os
import shutil
import subprocess
import threading

from .problems import Infrastructure, Usage


def environment():
    """Without what an outer git (a hook, `git bisect run`) says of its own repository."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k.startswith("GIT_CONFIG")}
    return kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def git(where, *arguments, check=True, text=True):
    done = subprocess.run(["git", "-C", where, *arguments], capture_output=True, text=text, env=environment(),
                          check=False,
                          stdin=subprocess.DEVNULL)
    if check and done.returncode:
        raise Infrastructure(f"git {' '.join(arguments)}: {str(done.stderr).strip()}")
    return done.stdout if check else done


class Repository:
    def __init__(self, source):
        if not os.path.isdir(source):
            raise Usage(f"--repository {source}: there is no such folder")
        found = git(source, "rev-parse", "--git-common-dir", check=False)
        if found.returncode:
            raise Usage(f"--repository {source}: not a git repository")
        self.source = os.path.realpath(os.path.join(source, found.stdout.strip()))
        self.own = None
        self._tree = {}
        self._trees = threading.Lock()  # git reads the list of trees, half-made ones too, and dies of them

    def name(self):
        parts = [p for p in self.source.split(os.sep) if p not in (".git", "")]
        return f"{parts[-1].removesuffix('.git')}-{hashlib.sha256(self.source.encode()).hexdigest()[:8]}"

    def commit(self, text, option):
        found = git(self.source, "rev-parse", "--verify", "--quiet", "--end-of-options", text + "^{commit}",
                    check=False)
        if found.returncode:
            raise Usage(f"{option} {text}: no commit of {self.source} has this name")
        return found.stdout.strip()

    def subject(self, commit):
        return git(self.source, "log", "-1", "--format=%s", commit).strip()

    def describe(self, commit):
        return git(self.source, "log", "-1", "--format=%h %cs %an: %s", commit).strip()

    def merge_bases(self, a, b):
        return git(self.source, "merge-base", "--all", a, b, check=False).stdout.split()

    def between(self, old, new, first_parent=False):
        """([commit], {commit: [parent]}): the ancestors of `new` that are none of `old`, ancestors first."""
        options = ["--first-parent"] if first_parent else []
        lines = git(self.source, "rev-list", "--topo-order", "--reverse", "--parents", *options, new,
                    "^" + old).splitlines()
        parents = {}
        for line in lines:
            commit, *own = line.split()
            parents[commit] = own[:1] if first_parent else own
        return list(parents), parents

    def touching(self, old, new, paths):
        """The commits between the ends that may differ under `paths` from their first parent; merges are
        always named."""
        plain = git(self.source, "log", "--format=%H", "--no-merges", "--full-history", new, "^" + old, "--",
                    *paths)
        return set(plain.split()) | set(git(self.source, "rev-list", "--merges", new, "^" + old).split())

    def tree(self, commit, paths=()):
        """A digest of what a build may read: the tree, or what stands under `paths`."""
        if (commit, paths) not in self._tree:
            if paths:
                listing = git(self.source, "ls-tree", "-r", "--full-tree", commit, "--", *paths)
                found = hashlib.sha256(listing.encode()).hexdigest()
            else:
                found = git(self.source, "rev-parse", commit + "^{tree}").strip()
            self._tree[commit, paths] = found
        return self._tree[commit, paths]

    def trees(self, commits):
        """The trees of many commits by one call of git."""
        text = "".join(c + "^{tree}\n" for c in commits)
        done = subprocess.run(["git", "-C", self.source, "cat-file", "--batch-check=%(objectname)"],
                              input=text, text=True,
                              capture_output=True, env=environment(), check=True)
        for commit, tree in zip(commits, done.stdout.split()):
            self._tree[commit, ()] = tree

    def borrow(self, state):
        """Makes our own repository in the folder `state`, or takes the one that is there."""
        self.own = os.path.join(state, "repository")
        if not os.path.exists(os.path.join(self.own, "ready")):
            shutil.rmtree(self.own, ignore_errors=True)
            git("/", "init", "-q", "--bare", "--template=", self.own)
            os.makedirs(os.path.join(self.own, "objects", "info"), exist_ok=True)
            with open(os.path.join(self.own, "objects", "info", "alternates"), "w") as f:
                f.write(os.path.join(self.source, "objects") + "\n")
            if os.path.exists(os.path.join(self.source, "shallow")):
                shutil.copy(os.path.join(self.source, "shallow"), self.own)
            with open(os.path.join(self.own, "ready"), "w") as f:
                f.write(self.source + "\n")
        # for git describe
        git(self.own, "fetch", "-q", "--no-auto-gc", self.source, "+refs/tags/*:refs/tags/*", check=False)

    def check_out(self, commit, folder, keep_ignored=False):
        """The folder becomes a clean work tree of the commit, whatever it was before; one at a time."""
        with self._trees:
            self._check_out(commit, folder, keep_ignored)

    def _check_out(self, commit, folder, keep_ignored):
        for _ in (1, 2):
            if os.path.isdir(folder):
                private = git(folder, "rev-parse", "--absolute-git-dir", check=False).stdout.strip()
                if private.startswith(os.path.realpath(self.own)):
                    lock = os.path.join(private, "index.lock")
                    if os.path.exists(lock):  # whoever held it was killed: the state's own lock is ours
                        os.unlink(lock)
                    done = git(folder, "checkout", "-q", "--force", "--detach", commit, check=False)
                    if done.returncode == 0:
                        done = git(folder, "clean", "-ffdq" + ("" if keep_ignored else "x"), check=False)
                    if done.returncode == 0:
                        return
                remove(folder)
            git(self.own, "worktree", "prune")
            done = git(self.own, "worktree", "add", "-q", "--force", "--detach", folder, commit, check=False)
            if done.returncode == 0:
                return
        raise Infrastructure(f"git worktree add {folder} {commit}: {done.stderr.strip()}")


def remove(folder):
    """The folder with all that is in it, also where a build has taken the right to write from a folder."""
    def allow(function, path, _):
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
        function(path)
    if os.path.lexists(folder):
        shutil.rmtree(folder, onerror=allow)
