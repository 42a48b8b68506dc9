# SPDX-License-Identifier: Apache-2.0
# The package of find_package(gpumemtrace): the target gpumemtrace::api, which has the header
# gpumemtrace.h and those for Catch2 and GoogleTest, and the function gpumemtrace_check().
include(${CMAKE_CURRENT_LIST_DIR}/gpumemtrace-targets.cmake)
find_program(GPUMEMTRACE_PROGRAM gpumemtrace HINTS ${CMAKE_CURRENT_LIST_DIR}/../../../bin)
include(${CMAKE_CURRENT_LIST_DIR}/gpumemtrace_check.cmake)
