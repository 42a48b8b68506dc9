// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/output_folder.hpp"

#include <linux/magic.h>

#include "tests/catch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpumemtrace::tools::output_folder_test {

TEST_CASE("a file system of another machine has a name", "[unit]") {
  CHECK(network_file_system_name(NFS_SUPER_MAGIC) == "NFS");
  CHECK(network_file_system_name(V9FS_MAGIC) == "9p");
  CHECK(network_file_system_name(AFS_SUPER_MAGIC) == "AFS");
  CHECK(network_file_system_name(EXT4_SUPER_MAGIC).empty());
  CHECK(network_file_system_name(TMPFS_MAGIC).empty());
  CHECK(network_file_system_of("/proc").empty());
}

TEST_CASE("a folder that is still missing lies where its nearest parent is", "[unit]") {
  const tests::TemporaryFolder folder;
  CHECK(existing_folder(folder.path() / "a" / "b") == folder.path());
  CHECK(existing_folder(folder.path()) == folder.path());
  CHECK(existing_folder("") == ".");
  CHECK(existing_folder("a-folder-that-nobody-made/b") == ".");
}

}  // namespace gpumemtrace::tools::output_folder_test
