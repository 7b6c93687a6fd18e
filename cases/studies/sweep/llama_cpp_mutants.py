"""Plants one-line faults into llama.cpp's CPU attention, chosen when a server starts, and says in how many nights a sweep reports them.

    llama_cpp_mutants.py patch FOLDER           changes the two files of a llama.cpp of early 2025 (794fe23): build it with shared
                                                libraries, and start the sweep with MUTANT=N and --library FOLDER/build/bin
    llama_cpp_mutants.py nights GOOD MUTANT     stores of the unchanged build and of a mutant: the same cells and seeds

A night replays three of the seeds that both stores have: all choices of three are as many nights. The threshold is that of a night of
SERIES series, of which this is one.
"""
import itertools
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from assay_sweep import line, regression, store  # noqa: E402

SERIES = 40  # more than the nightly suite of the engine has
CHOSEN = """#include <stdlib.h>
static int chosen(const char * name, int fallback) { const char * text = getenv(name); return text ? atoi(text) : fallback; }
static int mutant(void) { static int m = -1; if (m < 0) { m = chosen("MUTANT", 0); } return m; }
static int mutant_at(void) { static int at = -1; if (at < 0) { at = chosen("MUTANT_AT", 480); } return at; }
#define MUTANT mutant()
"""
ATTENTION = ("ggml/src/ggml-cpu/ggml-cpu.c", "static void ggml_compute_forward_flash_attn_ext_f16(")
Q4_0 = ("ggml/src/ggml-quants.c", "void dequantize_row_q4_0(")
LOOP = "for (int64_t ic = 0; ic < nek1; ++ic) {\n"
# (file and function, text, what replaces it): 0 is the unchanged arithmetic.
FAULTS = [
    # 1: 64 cells are skipped. 2: the last cell of each page of 256.
    (ATTENTION, LOOP, LOOP + "if (MUTANT == 1 && ic >= mutant_at() && ic < mutant_at() + 64) continue;\n"
                             "if (MUTANT == 2 && ic % 256 == 255) continue;\n"),
    # 3: the mask is one cell off, so that the own token is never seen.
    (ATTENTION, "(mp[ic])", "(mp[MUTANT == 3 && ic + 1 < nek1 ? ic + 1 : ic])"),
    # 4: K's cell number loses a bit. 5: a page's first cell has the V of the cell before. 6: one page of 64
    # has V of the page before.
    (ATTENTION, "( ic*nbk1", "((MUTANT == 4 ? (ic & ~(int64_t) 512) : ic)*nbk1"),
    (ATTENTION, "(ic*nbv1",
     "((MUTANT == 5 && ic >= 256 ? ic - (ic % 256 == 0) : MUTANT == 6 && ic/64 == 7 ? ic - 64 : ic)*nbv1"),
    # 7: V is not rescaled at a new maximum. 8: the sum is not.
    (ATTENTION, "ggml_vec_scale_f16(D, VKQ16, ms);", "if (MUTANT != 7) ggml_vec_scale_f16(D, VKQ16, ms);"),
    (ATTENTION, "ggml_vec_scale_f32(D, VKQ32, ms);", "if (MUTANT != 7) ggml_vec_scale_f32(D, VKQ32, ms);"),
    (ATTENTION, "S = S*ms + vs;", "S = (MUTANT == 8 ? S : S*ms) + vs;"),
    # 9: the softmax's scale is a tenth too small.
    (ATTENTION, "s = s*scale;", "s = s*(MUTANT == 9 ? 0.9f*scale : scale);"),
    # 10: the halves are merged with weights 1/2 and 1; only where V is not f16.
    (ATTENTION, "v_to_float(v_data, V32, D);",
     "if (MUTANT == 10 && ic == nek1/2) ggml_vec_scale_f32(D, VKQ32, 0.5f);\nv_to_float(v_data, V32, D);"),
    # V in q4_0. 11: a wrong zero point. 12: one block's scale is halved. 13: one block's upper nibbles are
    # its lower ones.
    (Q4_0, "const float d = GGML_FP16_TO_FP32(x[i].d);",
     "const float d = GGML_FP16_TO_FP32(x[i].d)*(MUTANT == 12 && i == 2 ? 0.5f : 1.0f);"),
    (Q4_0, "(x[i].qs[j] & 0x0F) - 8", "(x[i].qs[j] & 0x0F) - (MUTANT == 11 ? 7 : 8)"),
    (Q4_0, "(x[i].qs[j] >>   4) - 8",
     "(MUTANT == 13 && i == 1 ? x[i].qs[j] & 0x0F : x[i].qs[j] >> 4) - (MUTANT == 11 ? 7 : 8)"),
]


def patch(folder):
    for name, function in (ATTENTION, Q4_0):
        path = os.path.join(folder, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        begin = text.index(function)
        end = text.index("\n}\n", begin)
        body = text[begin:end]
        for of, old, new in FAULTS:
            if of == (name, function):
                if body.count(old) != 1:
                    sys.exit(f"{path}: '{old}' stands {body.count(old)} times in {function}: another version of llama.cpp")
                body = body.replace(old, new)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[:begin] + CHOSEN + body + text[end:])


def nights(good_path, mutant_path):
    def rows(path):
        return {row["cell"]: row for _, row in store.Store(path).lines() if "cell" in row and "bits" in row}
    good, now = rows(good_path), rows(mutant_path)
    threshold = SERIES * regression.NIGHTS / regression.ERROR
    for series in sorted({line.without(cell, "seed") for cell in now}):
        pairs = [(good[cell], row) for cell, row in now.items() if line.without(cell, "seed") == series
                 and cell in good]
        chosen = list(itertools.combinations(pairs, 3))
        reported = sum(regression.paired_e(night)[0] >= threshold for night in chosen)
        lost, gained = regression.paired_e(pairs)[1:]
        print(f"{series}: right {sum(a['right'] for a, _ in pairs)} and {sum(b['right'] for _, b in pairs)} of "
              f"{sum(b['needles'] for _, b in pairs)}; lost {lost}, gained {gained}; reported in {reported} of {len(chosen)} nights; "
              f"where: {regression.located(pairs)}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "patch":
        patch(sys.argv[2])
    elif len(sys.argv) == 4 and sys.argv[1] == "nights":
        nights(*sys.argv[2:])
    else:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
