// SPDX-License-Identifier: Apache-2.0
// The ranks of trace files, taken from the files' names.
#include "analyzer/job/file_ranks.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include "tests/catch.hpp"

namespace gpumemtrace::analyzer::file_ranks_test {
namespace {

// The ranks of the files as "0 1"; "-" stands for a file without a rank.
std::string ranks_of(const std::vector<std::string>& names) {
  const std::vector<std::filesystem::path> files(names.begin(), names.end());
  std::string text;
  for (const auto& rank : ranks_by_name(files)) {
    text += (text.empty() ? "" : " ") + (rank ? std::to_string(*rank) : "-");
  }
  return text;
}

}  // namespace

TEST_CASE("a file's name says its rank", "[unit]") {
  CHECK(ranks_of({"rank3.pickle"}) == "3");
  CHECK(ranks_of({"a/oom_rank_1.pickle.gz", "a/oom_rank_0.pickle.gz"}) == "1 0");
  CHECK(ranks_of({"snapshot_oom_rank-12.pkl", "Rank7_memory_snapshot.pickle"}) == "12 7");
  CHECK(ranks_of({"node1_local_rank0_rank8.pickle", "node1_local_rank1_rank9.pickle"}) == "8 9");
  CHECK(ranks_of({"job/snapshot_0.pickle", "job/snapshot_1.pickle"}) == "0 1");
  CHECK(ranks_of({"run7_1_of_2.pickle", "run7_0_of_2.pickle"}) == "1 0");
}

TEST_CASE("a rank is not guessed from ambiguous names", "[unit]") {
  CHECK(ranks_of({"snapshot.pickle"}) == "-");
  CHECK(ranks_of({"snapshot_3.pickle"}) == "-");
  CHECK(ranks_of({"local_rank3.pickle"}) == "-");
  CHECK(ranks_of({"xlocal_rank3.pickle"}) == "-");
  CHECK(ranks_of({"frank3.pickle"}) == "-");
  CHECK(ranks_of({"step10/rank0.pickle", "step20/rank0.pickle"}) == "- -");
  CHECK(ranks_of({"rank0_of_rank8.pickle", "rank1.pickle"}) == "- -");
  CHECK(ranks_of({"rank0.pickle", "other_1.pickle"}) == "- -");
  CHECK(ranks_of({"snapshot_100.pickle", "snapshot_200.pickle"}) == "- -");
  CHECK(ranks_of({"snapshot_1.pickle", "snapshot_2.pickle"}) == "- -");
  CHECK(ranks_of({"a/snapshot_0.pickle", "b/snapshot_1.pickle"}) == "- -");
  CHECK(ranks_of({"run0_0.pickle", "run1_1.pickle"}) == "- -");
  CHECK(ranks_of({"train_0.pickle", "eval_1.pickle"}) == "- -");
}

}  // namespace gpumemtrace::analyzer::file_ranks_test
