# SPDX-License-Identifier: Apache-2.0
# Adds a test that runs a target under the recorder and judges its GPU memory.
#
#   find_package(gpumemtrace REQUIRED)   # or include(gpumemtrace_check)
#   gpumemtrace_check(my_test)                                    # nothing may be lost
#   gpumemtrace_check(my_test NAME memory_of_my_test
#                     ARGUMENTS --fast
#                     POLICY --max-leak 0 --max-peak 2GiB
#                     SIMULATE)                                   # without a GPU
#
# The test is named <target>.gpu_memory unless NAME says otherwise. POLICY are options of
# `gpumemtrace check`. The program is GPUMEMTRACE_PROGRAM, else what PATH has.
find_program(GPUMEMTRACE_PROGRAM gpumemtrace)

function(gpumemtrace_check target)
  cmake_parse_arguments(PARSE_ARGV 1 check "SIMULATE" "NAME" "ARGUMENTS;POLICY")
  if(check_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "gpumemtrace_check knows no ${check_UNPARSED_ARGUMENTS}; it takes NAME, ARGUMENTS, POLICY and SIMULATE")
  endif()
  if(NOT GPUMEMTRACE_PROGRAM)
    message(FATAL_ERROR "gpumemtrace was not found; set GPUMEMTRACE_PROGRAM to its path")
  endif()
  if(NOT check_NAME)
    set(check_NAME ${target}.gpu_memory)
  endif()
  if(NOT check_POLICY)
    set(check_POLICY --max-leak 0)
  endif()
  set(options --check ${check_POLICY})
  if(check_SIMULATE)
    list(APPEND options --simulate)
  endif()
  add_test(NAME ${check_NAME}
    COMMAND ${GPUMEMTRACE_PROGRAM} run ${options}
      -o ${CMAKE_CURRENT_BINARY_DIR}/gpumemtrace/${check_NAME}/ --
      $<TARGET_FILE:${target}> ${check_ARGUMENTS})
endfunction()
