# Fuzz targets: what reads text is given any text. With -DASSAY_FUZZ=ON (preset fuzz: clang, libFuzzer, AddressSanitizer,
# UndefinedBehaviorSanitizer) each is a program that ci/fuzz runs; in every other build it is a test, which runs its corpus
# and inputs made of it.
include_guard(GLOBAL)
option(ASSAY_FUZZ "Fuzz targets are linked with libFuzzer, which clang has" OFF)
if(ASSAY_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "ASSAY_FUZZ needs clang, for libFuzzer; cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# assay_fuzz(NAME SOURCES NAME_fuzz.cpp LINK libs... RUNS n): the target fuzz_NAME with the seeds of
# harness/fuzz/corpus/NAME. RUNS: how many inputs the test makes of them.
function(assay_fuzz name)
  cmake_parse_arguments(arg "" "RUNS" "SOURCES;LINK" ${ARGN})
  if(NOT BUILD_TESTING AND NOT ASSAY_FUZZ)
    return()
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/harness/fuzz)
  add_executable(fuzz_${name} ${arg_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE assay_flags ${arg_LINK})
  if(ASSAY_FUZZ)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    set_property(GLOBAL APPEND PROPERTY assay_fuzz_targets fuzz_${name})
  else()
    target_sources(fuzz_${name} PRIVATE ${folder}/replay.cpp)
    add_test(NAME fuzz.${name} COMMAND fuzz_${name} ${folder}/corpus/${name} ${arg_RUNS})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS supervision TIMEOUT 600)
  endif()
endfunction()

# assay_fuzz_all(): the target `fuzz` builds every one. Call it after the last assay_fuzz().
function(assay_fuzz_all)
  get_property(targets GLOBAL PROPERTY assay_fuzz_targets)
  if(ASSAY_FUZZ)
    add_custom_target(fuzz DEPENDS ${targets})
  endif()
endfunction()
