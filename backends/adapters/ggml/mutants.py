"""Plants one-line faults into a real ggml, and says which of them the default run of ggml's adapter catches.

    mutants.py --assay FILE --work FOLDER [--source FOLDER] [--only N,N] [--jobs N]

One library holds all faults: the variable GGML_MUTANT chooses one, 0 is the unchanged arithmetic, and LD_LIBRARY_PATH puts the library
in the place of the one that the adapter was built with. The source is that of ggml 0.20.2; without --source, it is taken from the source
package of libggml-python. Exit codes: 0 all caught and two healthy runs green, 1 not so, 77 there is no source or no compiler here.
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tarfile

PACKAGE = "libggml-python==0.20.2.post1"
SKIPPED = 77  # as ctest is told
CHOSEN = """#include <stdlib.h>
static int ggml_mutant;
__attribute__((constructor)) static void ggml_choose_mutant(void) { const char * n = getenv("GGML_MUTANT"); ggml_mutant = n ? atoi(n) : 0; }
"""
QUANTS, X86 = "src/ggml-quants.c", "src/ggml-cpu/arch/x86/quants.c"
OPS, VEC = "src/ggml-cpu/ops.cpp", "src/ggml-cpu/vec.cpp"
KEYS = (OPS, "static void ggml_compute_forward_flash_attn_ext_f16_one_chunk(")
TILES = (OPS, "static void ggml_compute_forward_flash_attn_ext_tiled(")
MERGE = (OPS, "static void ggml_flash_attn_ext_reduce_partials(")
SPREAD = (OPS, "static void ggml_compute_forward_flash_attn_ext_f16(")


def quants(name):
    return QUANTS, f"void {name}("


def product(name):
    return X86, f"void ggml_vec_dot_{name}("


# (area, what is wrong, (file, function), text whose first place is meant, what replaces it; @ is true for
# this fault alone).
FAULTS = [
    ("codec", "q4_0: zero point 7 in the lower half", quants("dequantize_row_q4_0"),
     "(x[i].qs[j] & 0x0F) - 8", "(x[i].qs[j] & 0x0F) - (@ ? 7 : 8)"),
    ("codec", "q5_1: fifth bits of the upper half, one place off", quants("dequantize_row_q5_1"), "(j + 12)",
     "(j + (@ ? 11 : 12))"),
    ("codec", "q6_K: the last scale of each eight is the third", quants("dequantize_row_q6_K"), "sc[is + 6]",
     "sc[is + (@ ? 4 : 6)]"),
    ("codec", "q4_K: scales advance by one", quants("dequantize_row_q4_K"), "is += 2", "is += @ ? 1 : 2"),
    ("codec", "mxfp4: scale code 0 is zero", quants("dequantize_row_mxfp4"),
     "= GGML_E8M0_TO_FP32_HALF(x[i].e)",
     "= @ && x[i].e == 0 ? 0.0f : GGML_E8M0_TO_FP32_HALF(x[i].e)"),
    ("codec", "iq4_nl: one value of the upper half is its neighbour", quants("dequantize_row_iq4_nl"),
     "kvalues_iq4nl[qs[j] >>  4]",
     "kvalues_iq4nl[(qs[j] >> 4) - (@ && qs[j] >> 4 == 15)]"),
    ("codec", "q8_0 encoder: the maximum without its sign", quants("quantize_row_q8_0_ref"), "fabsf(v)",
     "(@ ? v : fabsf(v))"),
    ("codec", "q4_0 encoder: the largest, not the largest in magnitude", quants("quantize_row_q4_0_ref"),
     "amax < fabsf(v)", "amax < (@ ? v : fabsf(v))"),
    ("codec", "q5_0 encoder: fifth bits of the upper half, one place off", quants("quantize_row_q5_0_ref"),
     "(j + qk/2)", "(j + qk/2 - @)"),
    ("codec", "q8_0 encoder of the CPU: the last 8 of 32 are truncated", (X86, "void quantize_row_q8_0("),
     "_mm256_round_ps( v3, _MM_ROUND_NEAREST )",
     "(@ ? _mm256_round_ps( v3, _MM_FROUND_TO_ZERO ) : _mm256_round_ps( v3, _MM_ROUND_NEAREST ))"),
    ("codec", "q6_K encoder: each second group has the scale of the one before",
     quants("quantize_row_q6_K_ref"), "nearest_int(iscale*scales[ib])",
     "nearest_int(iscale*scales[@ ? ib & ~1 : ib])"),
    ("codec", "q6_K encoder: codes are truncated", quants("quantize_row_q6_K_ref"),
     "int l = nearest_int(x[16*j + ii]/d);",
     "int l = @ ? (int)(x[16*j + ii]/d) : nearest_int(x[16*j + ii]/d);"),
    ("codec", "q3_K encoder: high bits of four groups, one place off", quants("quantize_row_q3_K_ref"),
     "(l << (2*(j/4)))", "(l << (2*((j + @)/4)))"),
    ("codec", "iq4_xs encoder: high bits of each second scale at those of the one before",
     (QUANTS, "static void quantize_row_iq4_nl_impl("), "(l_h << 2*(ib%8))", "(l_h << 2*(ib%8 & ~@))"),
    ("vec_dot", "q8_0: the third block meets the second of q", product("q8_0_q8_0"),
     "(const __m256i *)y[ib].qs", "(const __m256i *)y[ib - (@ && ib == 2)].qs"),
    ("vec_dot", "q4_0: zero point 7", product("q4_0_q8_0"), "_mm256_set1_epi8( 8 )",
     "_mm256_set1_epi8( @ ? 7 : 8 )"),
    ("vec_dot", "q5_0: fifth bits of the block before", product("q5_0_q8_0"), "bytes_from_bits_32(x[ib].qh)",
     "bytes_from_bits_32(x[ib - (@ && ib > 0)].qh)"),
    ("vec_dot", "q4_1: only the last block's minimum", product("q4_1_q8_1"), "summs += ",
     "summs = (@ ? 0.0f : summs) + "),
    ("vec_dot", "mxfp4: an odd last block is dropped", product("mxfp4_q8_0"), "for (; ib < nb; ++ib) {",
     "for (; ib < nb && !@; ++ib) {"),
    ("vec_dot", "f16: the tail begins one late", (VEC, "void ggml_vec_dot_f16("),
     "for (int i = np; i < n; ++i) {\n            sumf += (ggml_float)(GGML_CPU_FP16",
     "for (int i = np + @; i < n; ++i) {\n            sumf += (ggml_float)(GGML_CPU_FP16"),
    ("vec_dot", "f32: the tail ends one early", (VEC, "void ggml_vec_dot_f32("),
     "for (int i = np; i < n; ++i) {\n            sumf += x[i]*y[i];",
     "for (int i = np; i < n - @; ++i) {\n            sumf += x[i]*y[i];"),
    ("vec_dot", "bf16: the tail ends one early", (VEC, "void ggml_vec_dot_bf16("),
     "for (; i < n; ++i) {\n        sumf", "for (; i < n - @; ++i) {\n        sumf"),
    ("mask", "the mask is one key off", KEYS, "(mp[ic])", "(mp[ic - (@ && ic > 0)])"),
    ("mask", "every sequence has the mask of the first", KEYS, "(iq3%mask->ne[3])",
     "(@ ? 0 : iq3%mask->ne[3])"),
    ("mask", "tiles: skipped by what their first row sees", TILES, "!= -INFINITY) {\n",
     "!= -INFINITY && !(@ && tq > 0)) {\n"),
    ("mask", "tiles: the mask's row of the first", TILES, "(iq1 + tq)*mask->nb[1]",
     "(iq1 + (@ ? 0 : tq))*mask->nb[1]"),
    ("merge", "the sum is not rescaled at a new maximum", KEYS, "S = S*ms + vs; // scale",
     "S = (@ ? S : S*ms) + vs; // scale"),
    ("merge", "V in f16 is not rescaled at a new maximum", KEYS, "ggml_vec_scale_f16(DV, VKQ16, ms);",
     "if (!@) ggml_vec_scale_f16(DV, VKQ16, ms);"),
    ("merge", "V in f32 is not rescaled at a new maximum", KEYS, "ggml_vec_scale_f32(DV, VKQ32, ms);",
     "if (!@) ggml_vec_scale_f32(DV, VKQ32, ms);"),
    ("merge", "tiles: the sum is not rescaled", TILES, "S[tq] *= ms;", "if (!@) S[tq] *= ms;"),
    ("merge", "parts: the sum so far is not rescaled", MERGE, "S_final * scale_old",
     "S_final * (@ ? 1.0f : scale_old)"),
    ("merge", "parts: the last one is left out", MERGE, "chunk_idx < n_chunks;",
     "chunk_idx < n_chunks - (@ && n_chunks > 1);"),
    ("merge", "parts: the maximum is that of the last", MERGE, "M_final = M_new;",
     "M_final = @ ? M_chunk : M_new;"),
    ("merge", "rows that do not divide among the threads are left out", SPREAD, "(nr + nchunk - 1) / nchunk;",
     "(nr + (@ ? 0 : nchunk - 1)) / nchunk;"),
    ("cap", "logits are not divided by the cap", KEYS, "scale /= logit_softcap;",
     "if (!@) scale /= logit_softcap;"),
    ("cap", "tanh by two terms of its series", KEYS, "tanhf(s)", "(@ ? s - s*s*s/3.0f : tanhf(s))"),
    ("cap", "tiles: not multiplied by the cap", TILES, "KQ, logit_softcap);",
     "KQ, @ ? 1.0f : logit_softcap);"),
    ("sinks", "every head has the sink of the first", KEYS, "sinks->data))[h]", "sinks->data))[@ ? 0 : h]"),
    ("sinks", "V is not rescaled by a sink above all logits", KEYS,
     "M = s;\n                ggml_vec_scale_f32(", "M = s;\n                if (!@) ggml_vec_scale_f32("),
    ("sinks", "each part counts the sink", KEYS, "sinks && ic_start == 0", "sinks && (@ || ic_start == 0)"),
    ("sinks", "tiles: a sink below the maximum is not counted", TILES, "vs = expf(s - M[tq]);",
     "vs = @ ? 0.0f : expf(s - M[tq]);"),
    ("rows", "softmax: the last of a tail is not summed", (VEC, "ggml_float ggml_vec_soft_max_f32("),
     "sum += (ggml_float)val;\n        y[i] = val;",
     "sum += @ && i == n - 1 ? 0.0 : (ggml_float)val;\n        y[i] = val;"),
    ("rows", "rmsnorm without epsilon", (OPS, "static void ggml_compute_forward_rms_norm_f32("),
     "sqrtf(mean + eps)", "sqrtf(@ ? mean : mean + eps)"),
    ("rows", "layernorm: epsilon outside the root", (OPS, "static void ggml_compute_forward_norm_f32("),
     "1.0f/sqrtf(variance + eps)",
     "1.0f/(@ ? sqrtf(variance) + eps : sqrtf(variance + eps))"),
]


def give_up(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def source_of(arguments):
    if arguments.source:
        return arguments.source
    package = os.path.join(arguments.work, "package")
    got = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
                          PACKAGE, "-d", package],
                         capture_output=True, text=True)
    if got.returncode != 0:
        give_up(f"pip brings no {PACKAGE}: {got.stderr.strip()}")
    for name in os.listdir(package):
        with tarfile.open(os.path.join(package, name)) as archive:
            archive.extractall(package)
    for folder, _, _ in os.walk(package):
        if os.path.isfile(os.path.join(folder, QUANTS)):
            return folder
    return give_up(f"{PACKAGE} holds no source of ggml")


def plant(source):
    texts = {}
    for number, (_, _, (file, function), old, new) in enumerate(FAULTS, 1):
        path = os.path.join(source, file)
        if path not in texts:
            with open(path, encoding="utf-8") as opened:
                texts[path] = opened.read()
        begin = texts[path].find("\n" + function)
        end = texts[path].find("\n}\n", begin)
        at = texts[path].find(old, begin, end)
        if begin < 0 or at < 0:
            sys.exit(f"{path}: '{old}' does not stand in {function}: another version of ggml")
        texts[path] = (
            texts[path][:at] + new.replace("@", f"(ggml_mutant == {number})") + texts[path][at + len(old) :]
        )
    for path, text in texts.items():
        with open(path, "w", encoding="utf-8") as opened:
            opened.write(CHOSEN + text)


def build(arguments):
    """The folder of the libraries. An earlier one with the same faults is built anew only where something changed."""
    for tool in ("cmake", "ninja", "c++"):
        if not shutil.which(tool):
            give_up(f"no {tool}")
    tree = os.path.join(arguments.work, "ggml")
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source_of(arguments), tree, ignore=shutil.ignore_patterns(".git", "b", "build"))
    plant(tree)
    folder = os.path.join(tree, "build")
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF", "-DGGML_CCACHE=OFF",
               "-DGGML_BUILD_TESTS=OFF",
               "-DGGML_BUILD_EXAMPLES=OFF"]
    if shutil.which("ccache"):
        options += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    for command in (["cmake", "-G", "Ninja", "-S", tree, "-B", folder, *options],
                    ["ninja", "-j2", "-C", folder, "ggml"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return os.path.join(folder, "src")


def judge(arguments, libraries, number, *options):
    """Exit code of a default run, its first red case with its verdict, its last line but one."""
    run = subprocess.run([arguments.assay, "run", "-b", "ggml", "-q", *options], capture_output=True,
                         text=True,
                         env={**os.environ, "GGML_MUTANT": str(number), "LD_LIBRARY_PATH": libraries})
    lines = run.stdout.splitlines()
    red = next((line for line in lines if " backend=ggml" in line and not line.startswith(" ")), "")
    return run.returncode, red, next((line for line in lines if " cases: " in line),
                                     run.stderr.strip()[-200:])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assay", required=True)
    parser.add_argument("--work", required=True, help="a folder to build in")
    parser.add_argument("--source", help="a tree of ggml 0.20.2")
    parser.add_argument("--only", help="numbers of faults", default="")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, of one job each")
    arguments = parser.parse_args()
    os.makedirs(arguments.work, exist_ok=True)
    libraries = build(arguments)
    chosen = [int(number) for number in arguments.only.split(",")
              if number] or list(range(1, len(FAULTS) + 1))
    good = True
    if not arguments.only:
        for time in ("first", "second"):
            code, red, summary = judge(arguments, libraries, 0)
            print(f"healthy, {time} time: {'green' if code == 0 else 'RED ' + red}; {summary}", flush=True)
            good &= code == 0
    print("\n| # | area | what is wrong | first red case | verdict |\n|--:|---|---|---|---|", flush=True)
    caught = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for number, (code, red, summary) in zip(
            chosen, pool.map(lambda n: judge(arguments, libraries, n, "-x", "--jobs", "1"), chosen)
        ):
            verdict, _, case = red.partition(" ")
            caught += code == 1 and bool(red)
            print(f"| {number} | {FAULTS[number - 1][0]} | {FAULTS[number - 1][1]} | "
                  f"{f'`{case}` | {verdict}' if red else f'{summary} | SURVIVES'} |", flush=True)
    print(f"\n{caught} of {len(chosen)} caught")
    sys.exit(0 if good and caught == len(chosen) else 1)


if __name__ == "__main__":
    main()
