// SPDX-License-Identifier: Apache-2.0
// The table of deep learning frameworks and their code.
#include "analyzer/frameworks/frameworks.hpp"

#include <string>

#include "analyzer/owners/owners.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::frameworks_test {

using namespace gpumemtrace::analyzer;

TEST_CASE("no other row takes a framework's code", "[unit]") {
  for (const FrameworkInfo& row : frameworks()) {
    INFO(row.owner);
    CHECK_FALSE(row.name.empty());
    CHECK(is_builtin_owner(row.owner));
    for (const std::string_view library : row.code.libraries) {
      CHECK(owner_of_module("/x/" + std::string(library) + ".so", "/x/train") == row.owner);
    }
    for (const std::string_view folder : row.code.folders) {
      CHECK(owner_of_folder("/x/site-packages" + std::string(folder) + "/ops.py") == row.owner);
    }
    for (const std::string_view space : row.code.namespaces) {
      const std::string function = std::string(space) + "allocate(int)";
      CHECK(owner_of_function(function) == (row.code.is_linked ? row.owner : ""));
      CHECK_FALSE(is_users_function(function));
    }
  }
}

TEST_CASE("advice on recorded blocks has every word", "[unit]") {
  const auto check_word = [](const char* name, std::string_view word) {
    INFO(name);
    CHECK_FALSE(word.empty());
  };
  FrameworkInfo::fields(framework_with_blocks(), check_word);
  CHECK(framework_with_blocks().segment_bytes != 0);
}

TEST_CASE("an owner that is no framework has the advice for CUDA alone", "[unit]") {
  const FrameworkInfo& none = framework_named("cublas");
  CHECK(none.owner.empty());
  CHECK(none.opaque_pool.name.empty());
  CHECK(none.choose_device.find("cudaSetDevice") != std::string_view::npos);
}

}  // namespace gpumemtrace::frameworks_test
