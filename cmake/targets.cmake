# SPDX-License-Identifier: Apache-2.0
# The options that every target of ours is compiled with, as one INTERFACE target, and functions
# that make the few kinds of targets there are.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(gpumemtrace_options INTERFACE)
target_include_directories(gpumemtrace_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(gpumemtrace_options INTERFACE
  GPUMEMTRACE_VERSION="${PROJECT_VERSION}" _FILE_OFFSET_BITS=64)
target_compile_options(gpumemtrace_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  # Clang warns of templates of the standard library, of conversions and attributes that GCC does
  # not count, and of two sources in one group that give the same short name to the same type.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations -Wno-sign-conversion>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-unused-lambda-capture -Wno-ignored-attributes>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-shadow>
  $<$<BOOL:${GPUMEMTRACE_WERROR}>:-Werror>)

# Sanitizers of programs.
add_library(gpumemtrace_sanitizers INTERFACE)
if(GPUMEMTRACE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "GPUMEMTRACE_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++.")
  endif()
  set(GPUMEMTRACE_SANITIZE fuzzer-no-link,address,undefined)
  target_compile_definitions(gpumemtrace_sanitizers INTERFACE _GLIBCXX_SANITIZE_VECTOR)
endif()
if(GPUMEMTRACE_SANITIZE)
  # Finds an index that is out of range also where the memory there is valid.
  target_compile_definitions(gpumemtrace_sanitizers INTERFACE _GLIBCXX_ASSERTIONS)
  target_compile_options(gpumemtrace_sanitizers INTERFACE
    -fsanitize=${GPUMEMTRACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    # A fifth of the time to build, for what ends the program anyway or what ASan finds as well.
    -fno-sanitize=null,vptr,object-size
    # The check of function types reads in front of each function, also of those that a test writes into a page of its own.
    $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  target_link_options(gpumemtrace_sanitizers INTERFACE -fsanitize=${GPUMEMTRACE_SANITIZE})
endif()

# Those that the preloaded library can have: no thread sanitizer, and of the undefined-behaviour
# sanitizer the form that needs no library and ends the process by a trap.
add_library(gpumemtrace_recorder_sanitizers INTERFACE)
if(GPUMEMTRACE_SANITIZE MATCHES address)
  target_compile_options(gpumemtrace_recorder_sanitizers INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=address> -fno-omit-frame-pointer)
  target_link_options(gpumemtrace_recorder_sanitizers INTERFACE -fsanitize=address)
endif()
if(GPUMEMTRACE_SANITIZE MATCHES undefined)
  target_compile_options(gpumemtrace_recorder_sanitizers INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=undefined> -fsanitize-undefined-trap-on-error)
endif()

# The files of a folder's rooms, by patterns: what lies in a room is built. The next build finds a
# new one.
function(gpumemtrace_sources variable)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${ARGN})
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# Compiles a library's sources in groups, where GPUMEMTRACE_UNITY asks for it. Most of the time goes
# into headers that all of them include: groups of 36 take a fifth of the time of single files.
function(gpumemtrace_unity target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${GPUMEMTRACE_UNITY} UNITY_BUILD_BATCH_SIZE 36)
endfunction()

# Installs a program or a library without its debug information, which then lies beside it as
# NAME.debug, where debuggers and `gpumemtrace symbolize` find it (gnu-debuglink).
function(gpumemtrace_install target destination)
  install(TARGETS ${target} RUNTIME DESTINATION ${destination}
    LIBRARY DESTINATION ${destination} NAMELINK_SKIP)
  if(NOT CMAKE_OBJCOPY)
    return()
  endif()
  install(CODE "
    set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${destination}/$<TARGET_FILE_NAME:${target}>\")
    execute_process(COMMAND \"${CMAKE_OBJCOPY}\" --only-keep-debug \"\${file}\" \"\${file}.debug\"
      COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND \"${CMAKE_OBJCOPY}\" --strip-unneeded
      \"--add-gnu-debuglink=\${file}.debug\" \"\${file}\" COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD \"\${file}.debug\" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)")
endfunction()

# Links everything but glibc into an executable, so that one build folder runs on other machines.
add_library(gpumemtrace_static_runtime INTERFACE)
if(NOT GPUMEMTRACE_SANITIZE)
  target_link_options(gpumemtrace_static_runtime INTERFACE -static-libstdc++ -static-libgcc)
endif()
