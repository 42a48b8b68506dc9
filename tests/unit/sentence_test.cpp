// SPDX-License-Identifier: Apache-2.0
#include "analyzer/text/sentence.hpp"

#include "analyzer/rows/leak_rows.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::analyzer::sentence_test {
namespace {

rows::Site site_of(const char* file, std::uint64_t line) {
  rows::Site site;
  site.file = file;
  site.line = line;
  site.language = rows::Language::kPython;
  return site;
}

}  // namespace

TEST_CASE("a name in a sentence is a value in the unit that it says", "[unit]") {
  const Sentence sentence = Sentence()
                                .set("bytes", std::uint64_t{2048})
                                .set("lost_ns", std::uint64_t{1500})
                                .set("count", std::uint64_t{1440})
                                .set("link_share", 0.25)
                                .set("name", "XLA");
  CHECK(sentence("{name}: {bytes}, {lost_ns}, {count}, {link_share}") ==
        "XLA: 2.0 KiB, 1.5 us, 1,440, 25 %");
  CHECK(sentence("{other}") == "{other}");
}

TEST_CASE("a number in a sentence has its noun", "[unit]") {
  const Sentence one = Sentence().set("count", std::uint64_t{1});
  const Sentence many = Sentence().set("count", std::uint64_t{2000});
  CHECK(one("{count|copy|copies} {count?was|were}") == "1 copy was");
  CHECK(many("{count|copy|copies} {count?was|were}") == "2,000 copies were");
}

TEST_CASE("a part of a sentence whose name has no value is left out", "[unit]") {
  Sentence sentence(site_of("/home/me/train.py", 7));
  sentence.set("at", std::optional<rows::CodeLocation>()).set("step", std::uint64_t{3});
  CHECK(sentence("made at {site}[, freed at {at}][ in step {step}].") ==
        "made at train.py:7 in step 3.");
  sentence.set("at", rows::OptionalLocation({site_of("free.py", 9), std::nullopt}));
  CHECK(sentence("made at {site}[, freed at {at}].") == "made at train.py:7, freed at free.py:9.");
  CHECK(Sentence()("made[ at {site}]") == "made");
  CHECK(Sentence()("made at {site}") == "made at a place that is not known");
}

TEST_CASE("the value of a name is no pattern", "[unit]") {
  CHECK(Sentence().set("name", "f[abi:cxx11]{lambda}")("{name}!") == "f[abi:cxx11]{lambda}!");
}

TEST_CASE("a row's fields are values and evidence by their keys", "[unit]") {
  rows::ExitLeak leak;
  leak.bytes = 4096;
  leak.kind = Kind::kManaged;
  const Sentence sentence = Sentence().with(leak);
  CHECK(sentence("{bytes} of {kind} memory[ in step {first_step}]") == "4.0 KiB of managed memory");
  rows::Evidence evidence;
  sentence.add_to(evidence, {"kind", "first_step", "bytes"});
  REQUIRE(evidence.values().size() == 3);
  CHECK(*evidence.find<std::string>("kind") == "managed");
  CHECK(std::holds_alternative<std::monostate>(evidence.values()[1].second));
  CHECK(*evidence.find<std::uint64_t>("bytes") == 4096);
}

}  // namespace gpumemtrace::analyzer::sentence_test
