"""`assay pairs` on five stand-ins of ours, in a repository made here: each parent is wrong, its child is
right. And what is refused.

    pairs_test.py build/assay
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

ASSAY = os.path.abspath(sys.argv[1])
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
ADAPTERS = os.path.join(ROOT, "cases", "pairs", "adapters")

BF16 = '''import math, struct
def float_to_bf16(x):
  {guard}
  u = struct.unpack('I', struct.pack('f', x))[0]
  return struct.unpack('f', struct.pack('I', (u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000))[0]
'''
ROWS = '''import math
KEPT = {{}}
def soft(x):
    largest = {largest}
    weights = [math.exp(min(v - largest, 10.0)) for v in x]
    return [w / math.fsum(weights) for w in weights]
'''
TILES = '''def relu_square(x, y):
    for i in range({end}):
        y[i] = max(x[i], 0.0) ** 2
'''
GEMM = '''static void simd_gemm(float* c, const float* a, const float* b, int m, int k, int n) {{
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int e = 0; e < k; ++e) c[i * n + j] += a[{row} * k + e] * b[e * n + j];
}}
'''
LARGEST = "max(x)"
# name: file, before, after, adapter, op, trigger
STAND_INS = {
    "bf16": ("tinygrad/dtype.py", BF16.format(guard="pass"),
             BF16.format(guard="if not math.isfinite(x): return x"), "tinygrad_bf16.py",
             "quantize", "quantize rows=2 cols=16 to=bf16 fault=nan_all_ones"),
    "overflow": ("kernels/rows.py", ROWS.format(largest="0.0"), ROWS.format(largest=LARGEST), "rows.py",
                 "softmax",
                 "softmax rows=2 cols=64 fill=outlier"),
    "stale": ("kernels/stale.py", ROWS.format(largest="KEPT.setdefault(len(x), max(x))"),
              ROWS.format(largest=LARGEST), "stale.py",
              "softmax", "softmax rows=9 cols=64 fill=outlier"),
    "tail": ("kernels/tiles.py", TILES.format(end="len(x) // 4 * 4"), TILES.format(end="len(x)"), "tiles.py",
             "relu_square.op",
             "relu_square rows=3 cols=7"),
    "gemm": ("src/simd-gemm.h", GEMM.format(row="(j < n / 8 * 8 ? i : 0)"), GEMM.format(row="i"),
             "simd_gemm.cpp", "matmul",
             "matmul m=3 n=11 k=5 a=f32 dtype=f32"),
}
SOFTMAX = '''import theirs
theirs.use()
from kernels.{module} import soft
from assay_subjects import need, subject
@subject(op="softmax", contract="acc=f32 exp_ulp=2", path="soft", device="cpu")
def softmax(call):
    need(call.text("dtype") == "f32" and call.text("mask") == "none", "f32 alone")
    for given, made in zip(call.rows("x"), call.rows("y")):
        made.cast("f")[:] = __import__("array").array("f", soft(given.cast("f").tolist()))
'''
TILED = '''import theirs
theirs.use()
from kernels.tiles import relu_square
from assay_subjects import need, subject
@subject(op="relu_square", contract="acc=f32", path="relu_square", device="cpu")
def relu_square_of_theirs(call):
    need(call.text("dtype") == "f32", "f32 alone")
    for given, made in zip(call.rows("x"), call.rows("y")):
        relu_square(given.cast("f"), made.cast("f"))
'''


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, "-c", "user.name=test", "-c", "user.email=test@localhost",
                           *words], check=True,
                          capture_output=True, text=True).stdout.strip()


def commit(folder, path, text, subject):
    full = os.path.join(folder, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", subject)
    return git(folder, "rev-parse", "HEAD")


def pairs(where, *words):
    done = subprocess.run([ASSAY, "pairs", "--corpus", os.path.join(where, "corpus"), "--python",
                           sys.executable, *words],
                          capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def make(where):
    """The repository, and the corpus of it, whose checksums are what `--sums` prints."""
    mirror, folder = os.path.join(where, "mirror"), os.path.join(where, "mirror", "us+stand-ins")
    corpus = os.path.join(where, "corpus")
    os.makedirs(folder)
    shutil.copytree(os.path.join(ROOT, "cases", "pairs", "ops"), os.path.join(corpus, "ops"))
    os.makedirs(os.path.join(corpus, "adapters"))
    for name in ("theirs.py", "tinygrad_bf16.py", "simd_gemm.cpp"):
        shutil.copy(os.path.join(ADAPTERS, name), os.path.join(corpus, "adapters"))
    for name, text in (("rows", SOFTMAX.format(module="rows")), ("stale", SOFTMAX.format(module="stale")),
                       ("tiles", TILED)):
        with open(os.path.join(corpus, "adapters", name + ".py"), "w", encoding="utf-8") as file:
            file.write(text)
    git(folder, "init", "-q")
    lines = ["seed 1"]
    for name, (path, before, after, adapter, op, trigger) in STAND_INS.items():
        parent = commit(folder, path, before, name)
        child = commit(folder, path, after, name + " mended")
        root = "root=src" if path.startswith("src") else ""
        lines.append(f"{name} repo=us/stand-ins fix={child} parent={parent} license=MIT class=P family={name} paths={path} {root}\n"
                     f"  op={op} adapter={adapter} trigger='{trigger}' sums=SUMS-{name}")
    right = commit(folder, "kernels/rows.py", ROWS.format(largest=LARGEST) + "# a word more\n",
                   "nothing was wrong")
    lines.append(f"sound repo=us/stand-ins fix={right} parent={git(folder, 'rev-parse', 'HEAD^')} license=MIT paths=kernels/rows.py\n"
                 f"  op=softmax adapter=rows.py trigger='softmax rows=2 cols=16' sums=SUMS-sound")
    lines.append(f"candidate repo=us/nowhere fix={right} parent={right}")
    text = "\n".join(lines) + "\n"
    write_list(corpus, text)
    status, said = pairs(where, "--mirror", mirror, "--half", "all", "--sums")
    assert status == 0, said
    for line in said.splitlines():
        name, sums = line.split(" sums=")
        text = text.replace(f"SUMS-{name}", sums)
    write_list(corpus, text)
    return mirror, corpus, text


def write_list(corpus, text):
    with open(os.path.join(corpus, "pairs.list"), "w", encoding="utf-8") as file:
        file.write(text)


def expect(answer, status, *words):
    assert answer[0] == status and all(word in answer[1] for word in words), (status, words, answer)


def main():
    if not shutil.which("git") or not shutil.which("c++"):
        return 77
    with tempfile.TemporaryDirectory() as where:
        mirror, corpus, text = make(where)
        report = os.path.join(where, "report.json")
        answer = pairs(where, "--mirror", mirror, *STAND_INS, "--trigger", "--seeds", "1", "--json", report)
        expect(answer, 0, "trigger: 5 of 5 found", "unwritten: ")
        results = json.load(open(report, encoding="utf-8"))["results"]
        assert all(r["verdict"] == "found" and r["says"] and not r["red_child"] for r in results), results
        for budget in ("2", "20", "200"):  # a loaded machine begins no case in the first
            told = pairs(where, "--mirror", mirror, "tail", "--share", "untold", "--seeds", "2",
                         "--budget", budget)
            if told[0] == 0:
                break
        expect(told, 0, "untold: 1 of 1 found")
        expect(pairs(where, "--mirror", mirror, "sound", "--trigger", "--seeds", "1"), 1, "missed",
               "0 of 1 found")
        listed = pairs(where, "--mirror", mirror, "--half", "all", "--list")
        expect(listed, 0, "no adapter yet", "not in the mirror", "looked at", "untouched")
        half = [line.split()[1] for line in listed[1].splitlines()[:-1]]
        assert half == [line.split()[1] for line in pairs(where, "--half", "all",
                                                          "--list")[1].splitlines()[:-1]]
        expect(pairs(where, "bf16"), 125, "--mirror DIR is missing", "us/stand-ins")
        expect(pairs(where, "bf16", "--mirror", where), 125, "no us+stand-ins under")
        expect(pairs(where, "nobody", "--list"), 2, "no pair nobody")
        expect(pairs(where, "bf16", "--mirror", mirror, "--budget", "0"), 2, "above 0")
        write_list(corpus, text.replace("paths=kernels/tiles.py", "paths=kernels/rows.py"))
        expect(pairs(where, "tail", "--mirror", mirror, "--trigger"), 2, "have the checksum")
        write_list(corpus, text.replace("license=MIT class=P", "colour=red"))
        expect(pairs(where, "tail", "--mirror", mirror), 2, "KEY=VALUE is allowed")
    print("5 stand-ins found, 1 sound pair missed, 6 refusals")
    return 0


sys.exit(main())
