"""Who may use whom: every include of every language, every path in CMake that names another folder's source,
and every link between libraries. One table for all three. And folders beside each other do not use each other
in a circle."""
import os
import re

from rules.tree import CPP, GLSL, LAYERS, circle

# Folder or file, what its files may use of the project, and what its tests may use besides. The longest entry
# that fits a file decides. DIR/ is everything below, DIR/* the files of DIR itself, OWN the folder that the
# file belongs to.
TABLE = """
reference                                reference/*
reference/CMakeLists.txt                 reference/
reference/bench_reference.cpp            reference/
reference/real                           reference/* OWN
reference/formats                        reference/* reference/real/ OWN
reference/arithmetic                     reference/* reference/formats/ reference/real/ OWN
reference/inputs                         reference/* reference/ops/* OWN
reference/replay                         reference/* reference/formats/ reference/arithmetic/ OWN
reference/ops                            reference/* reference/real/ reference/formats/ reference/arithmetic/ reference/replay/ OWN
reference/ops/formula                    reference/* reference/real/ reference/formats/ reference/arithmetic/ reference/ops/* OWN
reference/ops/attention/value            reference/* reference/real/ reference/formats/ reference/ops/attention/* reference/ops/attention/value/ | reference/ops/
reference/ops/attention/emulated         reference/* reference/formats/ reference/arithmetic/ reference/ops/attention/emulated/
reference/ops/attention/limits           reference/* reference/formats/ reference/arithmetic/ reference/ops/attention/ | reference/ops/
backends                                 backends/assay_backend.h backends/plugin/ OWN
backends/cuda                            backends/assay_backend.h backends/plugin/ OWN backends/gpu/
backends/emulated                        backends/assay_backend.h backends/plugin/ OWN reference/
backends/example                         backends/include/ OWN
backends/include                         OWN
backends/formula                         backends/assay_backend.h backends/plugin/ OWN backends/emulated/tensors.hpp reference/
backends/formula/CMakeLists.txt          backends/plugin/ OWN backends/emulated/ reference/
backends/hip                             backends/assay_backend.h backends/plugin/ OWN backends/gpu/
backends/hip/CMakeLists.txt              backends/plugin/ OWN backends/gpu/ backends/cuda/
backends/museum                          backends/assay_backend.h backends/plugin/ OWN backends/cpu/
backends/vulkan/testing                  backends/assay_backend.h backends/plugin/ OWN harness/testing/
harness                                  harness/* harness/worker/ reference/* reference/inputs/ reference/ops/* reference/ops/formula/library.hpp | cases/* harness/testing/
harness/CMakeLists.txt                   harness/ reference/ cases/*
harness/testing                          OWN
harness/culprit                          harness/* harness/worker/ reference/ OWN                             | harness/testing/
harness/worker                           backends/assay_backend.h reference/mix.hpp OWN | harness/testing/
harness/fuzz                             harness/* harness/worker/ reference/ OWN
harness/worker/hostile/hostile_subjects.py backends/adapters/python/assay_subjects.py
harness/library                          harness/* reference/* reference/formats/format.hpp reference/ops/formula/library.hpp cases/lists.hpp OWN | harness/testing/
harness/library/CMakeLists.txt           harness/* cases/* OWN                                                | harness/testing/
harness/python                           harness/python/ reports/page/
harness/witness                          harness/worker/ OWN
harness/cli                              harness/* harness/culprit/ harness/worker/ reference/ reports/* OWN | harness/testing/
harness/cli/CMakeLists.txt               harness/* harness/culprit/ harness/python/ reports/* reports/page/ cases/* cases/attribution/ cases/laws/ OWN
harness/cli/faulty_stages.cpp            backends/assay_backend.h
harness/cli/faulty_softmax.cpp           backends/assay_backend.h
harness/cli/repro_test.py                 backends/adapters/python/assay_subjects.py
harness/cli/repro_run_test.py             backends/adapters/python/assay_subjects.py
harness/cli/contract_test.py              backends/adapters/python/assay_subjects.py
harness/cli/main.cpp                     harness/* reference/ops/formula/library.hpp OWN cases/lists.hpp cases/laws/laws.hpp cases/attribution/report.hpp
reports                                  harness/* harness/worker/printable.hpp reference/* reports/*
cases                                    harness/* reference/ cases/* cases/fills/ cases/faults/
cases/attribution                        harness/* harness/culprit/ harness/worker/ reference/ OWN            | cases/* cases/studies/museum/ harness/testing/
cases/corpus                             OWN
cases/fills                              reference/ OWN                                                      | harness/* cases/*
cases/faults                             reference/ OWN                                                      | harness/* cases/*
cases/laws                               harness/* reference/ OWN                                            | cases/*
cases/laws/lawless.cpp                   backends/assay_backend.h
cases/studies/identify/scheduled.cpp   backends/assay_backend.h
cases/properties                         harness/ reference/ cases/* cases/faults/ OWN
cases/properties/violating.cpp           backends/assay_backend.h OWN
cases/properties/short_sighted.cpp       backends/assay_backend.h
cases/pairs                              backends/adapters/python/assay_subjects.py backends/assay_backend.h OWN
cases/studies/pairs/pairs_test.py        backends/adapters/python/assay_subjects.py OWN
cases/studies                            harness/* harness/cli/program.hpp reference/ reports/file.hpp reports/page_text.hpp cases/* OWN
cases/studies/bisect                     OWN backends/include/ backends/assay_backend.h
cases/studies/attribution                harness/* harness/cli/program.hpp reference/ cases/* cases/attribution/ cases/studies/museum/* cases/studies/mutants/* OWN
cases/studies/attribution/misplaced.hpp  backends/assay_backend.h
cases/studies/attribution/misplaced.cpp  cases/studies/attribution/misplaced.hpp
cases/studies/attribution/misplaced_rows.cpp  cases/studies/attribution/misplaced.hpp
cases/studies/cascade                    harness/* harness/cli/program.hpp harness/worker/ reference/ reports/file.hpp reports/page_text.hpp OWN | harness/testing/
cases/studies/identify/flashinfer_subjects.py backends/adapters/python/assay_subjects.py
cases/studies/identify/gemm_subjects.py  backends/adapters/python/assay_subjects.py backends/adapters/python/pytorch_units.py
cases/studies/identify/moe_subjects.py   backends/adapters/python/assay_subjects.py backends/adapters/python/pytorch_units.py
cases/studies/identify/triton_subjects.py backends/adapters/python/assay_subjects.py backends/adapters/python/pytorch_units.py
cases/studies/lanes                      reference/ backends/hip/ OWN
cases/studies/museum                     harness/* harness/cli/program.hpp reference/ reports/file.hpp cases/* cases/studies/mutants/* OWN
cases/studies/mutants/CMakeLists.txt     harness/ reference/ reports/file.hpp cases/ backends/cpu/ backends/plugin/ OWN
cases/studies/mutants/self/CMakeLists.txt harness/ reference/ cases/ OWN
cases/studies/mutants/mutant_list_fuzz.cpp harness/fuzz/fuzz.hpp OWN
cases/studies/mutants/command.cpp        harness/* harness/cli/program.hpp reference/ reports/page_text.hpp cases/studies/museum/museum.hpp OWN
cases/studies/mutants/no_simd.cpp        backends/cpu/engine.hpp
cases/studies/mutants/plugin.cpp         backends/assay_backend.h OWN
cases/studies/properties                 harness/* harness/cli/program.hpp reference/ reports/file.hpp cases/* cases/laws/laws.hpp cases/studies/cascade/ OWN | harness/testing/
cases/studies/properties/CMakeLists.txt  harness/* reference/ reports/ cases/ OWN
cases/studies/silicon                    reference/ OWN
cases/studies/silicon/amd_device.cu      reference/ OWN backends/hip/layouts.hpp
cases/studies/sweep                      harness/* harness/cli/program.hpp reference/ reports/file.hpp reports/page/ cases/* OWN
cases/studies/sweep/assay_sweep/checkpoint.py harness/python/assay/tensors.py
cases/studies/checkpoint/assay_checkpoint harness/python/ OWN
cases/studies/checkpoint/checkpoint_test.py harness/python/ OWN
cases/studies/checkpoint/packers_test.py harness/python/ OWN
"""
# backends/emulated is the reference's own models of matrix units, run as a subject, and backends/formula the
# formulas of its ops; both read a call's tensors alike. backends/gpu holds the sources that
# cuda and hip both compile (hip mapped to CUDA links cuda's objects of them), and cases/studies/lanes runs
# hip's lane by lane; which lane of an AMD unit holds what is told once, in backends/hip/layouts.hpp. An
# exhibit of the museum is a kernel of backends/cpu with one old defect; a mutant is one compiled again.
# harness/cli is the program: its main.cpp alone knows what cases/ lists, and studies, programs of their own,
# share program.hpp with it. A subject in Python, hostile or not, is written against assay_subjects.py as a
# plug-in in C is against assay_backend.h.


def _rows():
    for line in TABLE.strip().splitlines():
        words, _, tests = line.partition("|")
        name, *allowed = words.split()
        yield name, allowed, tests.split()


ROWS = {name: (allowed, tests) for name, allowed, tests in _rows()}


def row_of(file):
    fitting = [name for name in ROWS if file == name or file.startswith(name + "/")]
    return max(fitting, key=len) if fitting else None


def own(file):
    parts = os.path.dirname(file).split("/")
    depth = 3 if parts[:2] in (["backends", "adapters"], ["cases", "studies"]) else 2
    return "/".join(parts[:depth]) + "/"


def allowed(user, target, test=False):
    """Whether a file (or a target of a CMakeLists.txt) may use a file, or a folder that ends with a slash."""
    row = row_of(user)
    if row is None:
        return True
    words, tests = ROWS[row]
    for word in words + (tests if test else []):
        word = own(user) if word == "OWN" else word
        folder = os.path.dirname(target) + "/"
        if word.endswith("/*"):
            if folder == word[:-1]:
                return True
        elif word.endswith("/"):
            if folder.startswith(word):
                return True
        elif target == word or target == os.path.dirname(word) + "/":  # linking a folder's library for that file
            return True
    return False


C_INCLUDE = re.compile(r'\s*#\s*(?:include|define\s+HWY_TARGET_INCLUDE)\s*(["<])([^">]+)[">]')
PY_IMPORT = re.compile(r"\s*(?:import|from)\s+([A-Za-z_][\w.]*)")
CMAKE_PATH = re.compile(r'(?:\$\{PROJECT_SOURCE_DIR\}/|\$\{CMAKE_SOURCE_DIR\}/|\$\{CMAKE_CURRENT_(?:SOURCE|LIST)_DIR\}/|\.\./|(?<![\w/.}$-]))'
                        r'[\w.-]+(?:/[\w.-]+)*(?:/\$\{|/)?')
SOURCE = CPP + GLSL + (".cmake", ".py")


def includes(tree):
    """(file, line, target or None, text): every use of one file by another; None where the path is not one of
    the tree's."""
    modules = {}
    for file in tree.files:
        if file.endswith(".py"):
            modules.setdefault(os.path.basename(file)[:-3], []).append(file)
    for file in tree.sources:
        folder = os.path.dirname(file)
        if file.endswith(GLSL):
            # glslang looks beside the file that includes; nothing else is on its path.
            for number, line in tree.lines(file):
                found = C_INCLUDE.match(line)
                if found:
                    target = os.path.normpath(os.path.join(folder, found[2]))
                    yield file, number, target if tree.has(target) else None, found[2]
        elif file.endswith(CPP):
            for number, line in tree.lines(file):
                found = C_INCLUDE.match(line)
                if not found:
                    continue
                target, top = found[2], found[2].split("/")[0]
                if target.startswith(".") or (found[1] == '"' and "/" not in target):
                    yield file, number, None, target
                elif top in LAYERS:
                    yield file, number, target, target
        elif tree.is_python(file):
            for number, line in tree.lines(file):
                found = PY_IMPORT.match(line)
                name = found[1].split(".")[-1] if found else ""
                if name in modules and os.path.join(folder, name + ".py") not in modules[name]:
                    yield file, number, modules[name][0], name
        elif tree.is_cmake(file):
            yield from _cmake_paths(tree, file, folder)


def _cmake_paths(tree, file, folder):
    for number, line in tree.lines(file):
        for token in CMAKE_PATH.findall(line.split("#")[0]):
            path, variable = (token[:-2], True) if token.endswith("${") else (token, False)
            if path.startswith(("${PROJECT_SOURCE_DIR}/", "${CMAKE_SOURCE_DIR}/")):
                path = path.split("}/", 1)[1]
            elif path.startswith("${"):
                path = os.path.normpath(os.path.join(folder, path.split("}/", 1)[1]))
            elif path.startswith("../"):
                path = os.path.normpath(os.path.join(folder, path))
            elif path.split("/")[0] not in LAYERS or not tree.has(path):
                path = os.path.normpath(os.path.join(folder, path))
            if variable and os.path.isdir(os.path.join(tree.root, path)):
                yield file, number, path.rstrip("/") + "/", token
            elif path.endswith(SOURCE) and path.split("/")[0] in LAYERS and tree.has(path):
                yield file, number, path, token


def _level(path):
    # The program and its library are parts beside the layers.
    return "program/" + path if path.startswith(("harness/cli/", "harness/library/")) else path


def folders_graph(uses):
    """{folder: {part: {part: (file, line)}}}: which parts of each folder use which, by files that are no
    programs."""
    graph = {}
    for file, number, target in uses:
        a, b = _level(file).split("/"), _level(target).split("/")
        common = 0
        while common < min(len(a), len(b)) - 1 and a[common] == b[common]:
            common += 1
        if common < len(a) - 1 and common < len(b) - 1:
            parts = graph.setdefault("/".join(a[:common]), {})
            parts.setdefault(a[common], {}).setdefault(b[common], (file, number))
    return graph


def check(tree):
    uses = []
    for file, number, target, text in includes(tree):
        if target is None:
            how = "there is no such file beside it" if file.endswith(GLSL) else "write the path from the root of the project"
            yield f'{file}:{number}: includes "{text}": {how}'
        elif not allowed(file, target, tree.is_test(file)):
            yield f"{file}:{number}: {row_of(file)} must not include {target}"
        elif not tree.is_cmake(file) and not tree.is_program(file):
            uses.append((file, number, target))
    for folder, parts in sorted(folders_graph(uses).items()):
        found = circle({a: set(b) for a, b in parts.items()})
        if found:
            file, number = parts[found[-2]][found[-1]]
            yield f"{file}:{number}: folders in a circle: {' -> '.join(found)}" + (
                f" in {folder}" if folder else ""
            )
