# SPDX-License-Identifier: Apache-2.0
# Writes SOURCE, which defines kSourceCommit: the commit of the tree FOLDER, "+changes" behind it
# where files differ from it, or "unknown" if there is no git. Run at every build; the file stays as it is
# where nothing changed.
execute_process(
  COMMAND git --no-optional-locks -C ${FOLDER} describe --always --exclude=* --abbrev=12 --dirty=+changes
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
if(NOT result EQUAL 0 OR NOT commit MATCHES "^[0-9a-f]+(\\+changes)?$")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${SOURCE} CONTENT [[
#include "tools/commands/command.hpp"

const char* const gpumemtrace::tools::kSourceCommit = "@commit@";
]] @ONLY)
