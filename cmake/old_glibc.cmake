# SPDX-License-Identifier: Apache-2.0
# Installed files run on every system with glibc 2.28 or a later one, wherever they were built: they
# are linked with symbols of that version (old_glibc/make_stubs.py). If that does not work, they
# need the glibc of the machine that built them, as usual.

add_library(gpumemtrace_old_glibc INTERFACE)
option(GPUMEMTRACE_OLD_GLIBC "Link what is installed for glibc 2.28 and later (x86-64)" ON)
if(NOT GPUMEMTRACE_OLD_GLIBC OR GPUMEMTRACE_SANITIZE OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  return()
endif()

find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(sources ${CMAKE_CURRENT_LIST_DIR}/old_glibc)
set(stubs ${CMAKE_BINARY_DIR}/old_glibc)
# The loader of that time looks for some symbols in libraries that are empty now. Named as options:
# of files CMake would have the program search their folder when it runs.
set(libraries -L${stubs} -Wl,--no-as-needed -l:libdl.so -l:libpthread.so -Wl,--as-needed)
set(program_options -Wl,--wrap=__libc_start_main)
set(check ${stubs}/check)
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${sources}/make_stubs.py ${stubs} 2.28 ${CMAKE_C_COMPILER}
  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
foreach(step
    "${CMAKE_C_COMPILER};-O2;-fPIC;-fno-builtin;-c;${sources}/shims.c;-o;${check}_shims.o"
    "${CMAKE_C_COMPILER};-O2;-fPIC;-c;${sources}/start.c;-o;${check}_start.o"
    "${CMAKE_CXX_COMPILER};-O2;${sources}/check.cpp;${check}_shims.o;${check}_start.o;-o;${check};-static-libstdc++;-static-libgcc;${program_options};${libraries}"
    "${check}")
  if(failed EQUAL 0)
    execute_process(COMMAND ${step} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  endif()
endforeach()
if(NOT failed EQUAL 0)
  message(STATUS "What is installed will need the glibc of this machine: linking for 2.28 does not work here.")
  return()
endif()

add_library(gpumemtrace_old_glibc_shims OBJECT ${sources}/shims.c)
add_library(gpumemtrace_old_glibc_start OBJECT ${sources}/start.c)
target_compile_options(gpumemtrace_old_glibc_shims PRIVATE -Wall -Wextra -fno-builtin)
target_compile_options(gpumemtrace_old_glibc_start PRIVATE -Wall -Wextra)
set(is_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
target_link_libraries(gpumemtrace_old_glibc INTERFACE
  $<TARGET_OBJECTS:gpumemtrace_old_glibc_shims>
  $<${is_program}:$<TARGET_OBJECTS:gpumemtrace_old_glibc_start>>
  ${libraries})
target_link_options(gpumemtrace_old_glibc INTERFACE $<${is_program}:${program_options}>)
