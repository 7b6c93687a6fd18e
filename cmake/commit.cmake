# Writes FILE: the commit that SOURCE stands at, with -dirty when tracked files differ from it; empty outside of git.
set(commit "")
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(text "#define ASSAY_COMMIT \"${commit}\"\n")
if(EXISTS ${FILE})
  file(READ ${FILE} before)
endif()
if(NOT "${text}" STREQUAL "${before}")
  file(WRITE ${FILE} "${text}")
endif()
