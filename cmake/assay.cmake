# What every directory of the project uses: one target for flags, one function per kind of target.
include_guard(GLOBAL)

set(ASSAY_ORPHANS FATAL_ERROR CACHE STRING "What a source file that no list names is: FATAL_ERROR, or WARNING in the middle of work")

add_library(assay_flags INTERFACE)
target_compile_features(assay_flags INTERFACE cxx_std_20)
target_include_directories(assay_flags INTERFACE ${PROJECT_SOURCE_DIR})
set(assay_flag_list
  $<$<BOOL:${ASSAY_WERROR}>:-Werror>
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wpedantic -Wno-psabi
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # g++ 12 sees overlaps in "text" + std::string that are not there (PR105651)
  # std::stable_sort of libstdc++ 12 calls what C++17 deprecates, and clang says so of every caller; g++ still looks.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  # The reference is only true if the compiler keeps every rounding that is written: a*b+c stays two roundings
  # unless std::fma is spelt out. Never add -ffast-math: NaN compares would vanish.
  -ffp-contract=off -fno-fast-math
  # g++ 12 takes {double(float(a)), double(float(b))} for {a, b}: its vectoriser of straight code drops both conversions.
  # The self-test refuses a build that does (reference/self_test_checks.hpp: two_conversions).
  $<$<CXX_COMPILER_ID:GNU>:-fno-tree-slp-vectorize>)
if(ASSAY_SANITIZER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND assay_flag_list -Wno-maybe-uninitialized)  # g++ 12 with -fsanitize=address sees it in <regex> (PR105562)
endif()
target_compile_options(assay_flags INTERFACE ${assay_flag_list})

# The standard headers, parsed once: a third of the time of a build. Not under a compiler launcher such as ccache, which
# would keep no object that uses them.
set(precompile ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(precompile OFF)
endif()
option(ASSAY_PRECOMPILE "Parse the standard headers once for all files" ${precompile})
if(ASSAY_PRECOMPILE)
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cpp "")
  add_library(assay_precompiled STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cpp)
  set_target_properties(assay_precompiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(assay_precompiled PRIVATE assay_flags fmt::fmt)
  target_precompile_headers(assay_precompiled PRIVATE ${CMAKE_CURRENT_LIST_DIR}/precompiled.hpp)
  # And one with more of them, optimised as tests and the studies' programs are.
  function(assay_precompiled_more name library)
    add_library(${name} STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cpp)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(${name} PRIVATE assay_flags fmt::fmt ${library})
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    target_precompile_headers(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/precompiled.hpp ${ARGN})
  endfunction()
  if(BUILD_TESTING)
    assay_precompiled_more(assay_precompiled_test GTest::gtest <gtest/gtest.h>)
  endif()
  assay_precompiled_more(assay_precompiled_program CLI11::CLI11 <CLI/CLI.hpp>)
endif()
# assay_precompiled_headers(targets...): for targets in C++ that link fmt, and libraries of position independent code.
function(assay_precompiled_headers)
  assay_precompiled_from(assay_precompiled ${ARGN})
endfunction()
function(assay_precompiled_from headers)
  if(ASSAY_PRECOMPILE)
    foreach(target IN LISTS ARGN)
      target_precompile_headers(${target} REUSE_FROM ${headers})
      # What the headers were parsed with; a target that does not link fmt would refuse them.
      target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
      # Precompiled, the standard headers are no system headers to g++ 12, and it sees overflows in std::string that are not
      # there (PR105329, PR105651). A build without precompiled headers keeps these warnings.
      target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow -Wno-array-bounds>)
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "EXECUTABLE")  # code as that of the libraries, or the headers do not fit
        target_compile_options(${target} PRIVATE -fPIC)
      endif()
    endforeach()
  endif()
endfunction()

# assay_drives(TARGET): nothing here takes time: it starts, asks, orders and writes what others compute.
# A third less to compile.
function(assay_drives target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# assay_library(NAME SOURCES a.cpp b.cpp LINK libs...): a static library of this directory.
# Every .cpp of the directory must be listed (tests and benchmarks apart): an orphan stops the configure step.
function(assay_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;ORPHANS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${name} PUBLIC assay_flags ${arg_LINK})
  assay_precompiled_headers(${name})
  assay_no_orphans("*.cpp" ${arg_SOURCES} ${arg_ORPHANS})
endfunction()

# assay_no_orphans(GLOB files...): the files of this directory that match GLOB are exactly the listed ones.
# *_test.cpp and bench_*.cpp belong to assay_test and assay_bench and are checked there by being built.
function(assay_no_orphans glob)
  file(GLOB found RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${glob})
  list(FILTER found EXCLUDE REGEX "(_test|^bench_.*|_main)\\.cpp$")
  foreach(file IN LISTS found)
    if(NOT file IN_LIST ARGN)
      message(${ASSAY_ORPHANS} "${CMAKE_CURRENT_SOURCE_DIR}/${file} is in no list: add it to CMakeLists.txt or delete it")
    endif()
  endforeach()
endfunction()

# assay_no_orphan_folders(): every folder here that has a CMakeLists.txt has been added. Call it after the last one.
function(assay_no_orphan_folders)
  get_property(added DIRECTORY PROPERTY SUBDIRECTORIES)
  get_property(left_out DIRECTORY PROPERTY assay_left_out)
  file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(file IN LISTS found)
    cmake_path(GET file PARENT_PATH folder)
    if(NOT folder IN_LIST added AND NOT folder IN_LIST left_out)
      message(${ASSAY_ORPHANS} "${folder} is in no list: add it to CMakeLists.txt or delete it")
    endif()
  endforeach()
endfunction()

# assay_nightly(TEST FILTER LABELS... TIMEOUT s): TEST.nightly, what of the program TEST matches, with the budget that it has where
# ASSAY_NIGHTLY is set.
function(assay_nightly name filter)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT" "LABELS")
  if(TARGET ${name})
    add_test(NAME ${name}.nightly COMMAND ${name} --gtest_filter=${filter})
    set_tests_properties(${name}.nightly PROPERTIES LABELS "nightly;${arg_LABELS}" ENVIRONMENT ASSAY_NIGHTLY=1 TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()

# assay_test(NAME SOURCES a_test.cpp LABELS truth... LINK libs [TIMEOUT s] [COST s] [NEEDS backends]): one GoogleTest program,
# one ctest test per TEST. It is not there when a backend that it needs by name was not built. COST: what takes long begins first.
function(assay_test name)
  cmake_parse_arguments(arg "WHOLE" "TIMEOUT;COST" "SOURCES;LABELS;LINK;NEEDS" ${ARGN})
  assay_backends_built(runnable ${arg_NEEDS})
  if(NOT BUILD_TESTING OR NOT runnable)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 1200)
  endif()
  if(NOT arg_COST)
    set(arg_COST 0)
  endif()
  if(ASSAY_SANITIZER)  # the same tests at the same sizes, several times slower
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} GTest::gtest_main)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)  # a quarter less to compile; what takes time is linked
  assay_precompiled_from(assay_precompiled_test ${name})
  if(arg_WHOLE)  # start-up dominates: one ctest test for the whole program
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)  # a log cut short by CI still holds the failures
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} COST ${arg_COST})
  else()
    list(GET arg_LABELS 0 first_label)
    gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 600
      PROPERTIES LABELS "${first_label}" TIMEOUT ${arg_TIMEOUT} COST ${arg_COST})
    if(NOT arg_LABELS STREQUAL first_label)  # gtest_discover_tests takes no list as a property: ctest sets the rest
      set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
      file(WRITE ${labels_file} "if(${name}_TESTS)
  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${arg_LABELS}\")
endif()
")
      set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
    endif()
  endif()
endfunction()
