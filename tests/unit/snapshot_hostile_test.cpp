// SPDX-License-Identifier: Apache-2.0
// Files that are no snapshots, and snapshots that are made to do harm. Pickles are written as
// opcodes here: ] list, } dictionary, ( mark, e append all, u set all, a append, s set, . stop, K
// byte, N none, \x8c text, \x94 store, h use what was stored, \x85 tuple of one.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/snapshot/read_snapshot.hpp"
#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/source_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace gpumemtrace::tests::snapshot_hostile_test {
namespace {

using namespace std::string_literals;
using analyzer::InputError;
using analyzer::snapshot::read_snapshot;
using analyzer::snapshot::Snapshot;

const std::string kProtocol = "\x80\x04"s;

std::string text(const std::string& content) {
  return "\x8c" + std::string(1, static_cast<char>(content.size())) + content;
}

std::string repeated(std::size_t count, const std::string& part) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += part;
  return all;
}

// A snapshot without segments, but with one more key.
std::string with_key(const std::string& key, const std::string& value) {
  return kProtocol + "}(" + text(key) + value + text("segments") + "]u.";
}

std::string snapshot_file(const std::string& name) {
  std::ifstream file(tests::source_file("tests/data/snapshots/" + name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Pickles {
 public:
  Snapshot read(const std::string& content) const {
    return read_snapshot(folder_.write("snapshot.pickle", content));
  }
  std::string error(const std::string& content) const {
    return error_of<InputError>([&] { return read(content); });
  }

 private:
  TemporaryFolder folder_{place_in_memory()};
};

const std::string kFrame = "}(" + text("name") + text("f") + text("filename") + text("a.py") +
                           text("line") + "K\x01" + "u";

std::string event(const std::string& action, const std::string& more = "") {
  return "}(" + text("action") + text(action) + text("addr") + "K\x01" + text("size") + "K\x02" +
         more + "u";
}

}  // namespace

TEST_CASE("a pickle that names, calls or builds an object is refused", "[unit]") {
  const std::vector<std::pair<char, std::string>> refused = {
      {'c', "GLOBAL"},        {'\x93', "STACK_GLOBAL"},
      {'R', "REDUCE"},        {'b', "BUILD"},
      {'i', "INST"},          {'o', "OBJ"},
      {'\x81', "NEWOBJ"},     {'\x92', "NEWOBJ_EX"},
      {'P', "PERSID"},        {'Q', "BINPERSID"},
      {'\x82', "EXT1"},       {'\x83', "EXT2"},
      {'\x84', "EXT4"},       {'\x97', "NEXT_BUFFER"},
      {'0', "POP"},           {'2', "DUP"},
      {'I', "INT"},           {'L', "LONG"},
      {'\x8b', "LONG4"},      {'F', "FLOAT"},
      {'S', "STRING"},        {'V', "UNICODE"},
      {'d', "DICT"},          {'l', "LIST"},
      {'g', "GET"},           {'p', "PUT"},
      {'B', "BINBYTES"},      {'\x8f', "EMPTY_SET"},
      {'\x96', "BYTEARRAY8"}, {'\xff', "Unknown opcode 255"}};
  const Pickles pickles;
  for (const auto& [opcode, name] : refused) {
    // The refused opcode stands first in the pickle, then in the value of a key that is not used.
    CHECK(contains(pickles.error(kProtocol + opcode + "os\nsystem\n."), name + " at offset 2: "));
    CHECK(contains(pickles.error(with_key("x", std::string(1, opcode) + "os\nsystem\n")),
                   name + " at offset 7: "));
  }
}

TEST_CASE("other protocols and other files are refused", "[unit]") {
  const Pickles pickles;
  CHECK(contains(pickles.error(""), "PROTO at offset 0: the file ends before that"));
  CHECK(contains(pickles.error("(dp0\nS'segments'\np1\n."), "so it is no pickle"));
  CHECK(contains(pickles.error("\x80\x01]."s), "protocol 1 is not read, only 2 to 5"));
  CHECK(contains(pickles.error("\x80\x06]."s), "protocol 6 is not read, only 2 to 5"));
  CHECK(contains(pickles.error(kProtocol + "K\x01."), "segments is not what PyTorch writes"));
  CHECK(contains(pickles.error(kProtocol + "}" + text("a") + "K\x01s."), "no segments"));
  CHECK(contains(pickles.error(kProtocol + "]..\n"), "STOP at offset 3: there is more after it"));
  CHECK(contains(error_of<InputError>([] { return read_snapshot("/nowhere/at.all"); }),
                 "Cannot open /nowhere/at.all"));
}

TEST_CASE("a snapshot with a call at any place is refused", "[unit]") {
  const std::string whole = snapshot_file(GENERATE("python4.pickle", "cpp.pickle"));
  const std::string call = "cos\nsystem\n\x8c\x04true\x85R";
  const Pickles pickles;
  for (std::size_t place = 0; place < whole.size(); ++place) {
    if (!contains(pickles.error(whole.substr(0, place) + call + whole.substr(place)),
                  " at offset ")) {
      FAIL_CHECK("at " << place);
    }
  }
}

TEST_CASE("a snapshot that is cut anywhere is refused", "[unit]") {
  const std::string whole = snapshot_file(GENERATE("python4.pickle", "cpp.pickle"));
  const Pickles pickles;
  REQUIRE(pickles.read(whole).segments.size() == 3);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    if (!contains(pickles.error(whole.substr(0, bytes)), " at offset ")) {
      FAIL_CHECK("cut after " << bytes);
    }
  }
}

TEST_CASE("a length beyond the file is refused before memory is taken", "[unit]") {
  const Pickles pickles;
  const std::string huge = "\xff\xff\xff\xff\xff\xff\xff\x7f"s;
  for (const std::string& opcode :
       {"\x8d" + huge, "\x95" + huge, "X\xff\xff\xff\xff"s, "\x8c\xff"s, "\x8a\xff"s}) {
    CHECK(contains(pickles.error(kProtocol + opcode), " at offset 2: the file ends before that"));
  }
  CHECK(contains(pickles.error(kProtocol + "]r\xff\xff\xff\x7f."s),
                 "LONG_BINPUT at offset 3: its number is not the next one"));
}

TEST_CASE("a number above 64 bits is refused", "[unit]") {
  const Pickles pickles;
  const std::string digits = repeated(8, "\xff");
  const auto read = [&](const std::string& number) {
    return pickles.read(
        with_key("device_traces", "](](" + event("alloc", text("stream") + number) + "ee"));
  };
  CHECK(read("\x8a\x09" + digits + "\x00"s).events.front().stream == UINT64_MAX);
  CHECK(read("\x8a\x00"s).events.front().stream == 0);
  CHECK(read("\x8a\x01\xff"s).events.front().stream == UINT64_MAX);  // the number -1
  CHECK(contains(error_of<InputError>([&] { return read("\x8a\x09" + digits + "\x01"); }),
                 "a number above 64 bits is refused"));
}

TEST_CASE("a value that contains itself is refused", "[unit]") {
  const Pickles pickles;
  for (const std::string& cycle :
       {"]\x94h\x00"s + "a", "]\x94(h\x00"s + "e", "]\x94]\x94h\x00"s + "aa",
        "}\x94" + text("a") + "h\x00"s + "s", "]\x94(h\x00\x85"s + "e"}) {
    CHECK(contains(pickles.error(kProtocol + cycle + "."), "it changes a value that is in use"));
    CHECK(contains(pickles.error(with_key("x", cycle)), "it changes a value that is in use"));
  }
}

TEST_CASE("opcodes without their values are refused", "[unit]") {
  const Pickles pickles;
  CHECK(contains(pickles.error(kProtocol + "e."), "APPENDS at offset 2: there is no MARK"));
  CHECK(contains(pickles.error(kProtocol + "](a."), "APPEND at offset 4: values are missing"));
  CHECK(contains(pickles.error(kProtocol + "](K\x01\x86."),
                 "TUPLE2 at offset 6: values are missing"));
  CHECK(contains(pickles.error(kProtocol + "](K\x01" + "s."),
                 "SETITEM at offset 6: values are missing"));
  CHECK(
      contains(pickles.error(kProtocol + "(K\x01u."), "SETITEMS at offset 5: values are missing"));
  CHECK(contains(pickles.error(kProtocol + "}(Nu."), "SETITEMS at offset 5: a key has no value"));
  CHECK(contains(pickles.error(kProtocol + "](N."), "STOP at offset 5: values before it are left"));
  CHECK(contains(pickles.error(kProtocol + "\x94."), "MEMOIZE at offset 2: values are missing"));
  CHECK(contains(pickles.error(kProtocol + "h\x00."s), "BINGET at offset 2: nothing was stored"));
  CHECK(contains(pickles.error(kProtocol + "]Ns."), "values are missing"));
  CHECK(contains(pickles.error(kProtocol + "K\x01Na."), "APPEND at offset 5: there is no list"));
  CHECK(
      contains(pickles.error(kProtocol + "]NNs."), "SETITEM at offset 5: there is no dictionary"));
}

TEST_CASE("nesting and sharing cost no more than the file", "[unit]") {
  const Pickles pickles;
  CHECK(contains(pickles.error(kProtocol + repeated(100000, "](")), "values are nested too deep"));
  CHECK(contains(pickles.error(kProtocol + repeated(100000, "]")), "the file ends before that"));
  // Each list holds the list before it ten times: 10^20 values for a reader that visits them all.
  std::string laughs = "]\x94";
  for (char level = 0; level < 20; ++level) {
    laughs += "]\x94(" + repeated(10, "h"s + level) + "e";
  }
  CHECK(pickles.read(with_key("x", "](" + laughs + "e")).unknown_keys.at("snapshot.x") == 1);
  CHECK(contains(pickles.error(with_key("device_traces", "](" + laughs + "e")),
                 "device_traces is not what PyTorch writes"));
}

TEST_CASE("a list of frames that grows one by one costs no more than the file", "[unit]") {
  const Pickles pickles;
  const auto stack = [](std::size_t frames) {
    return "](" + kFrame + "\x94" + "e" + repeated(frames, "h\x00"s + "a");
  };
  const auto trace = [](const std::string& frames) {
    return "](](" + event("alloc", text("frames") + frames) + "ee";
  };
  const Snapshot snapshot = pickles.read(with_key("device_traces", trace(stack(200))));
  CHECK(snapshot.stack(snapshot.events.front().stack).size() == 201);
  CHECK(contains(pickles.error(with_key("device_traces", trace(stack(20000)))),
                 "a value grows in too many pieces"));
}

TEST_CASE("a row that lacks what it must have is refused by its key", "[unit]") {
  const Pickles pickles;
  const auto error = [&](const std::string& row) {
    return pickles.error(with_key("device_traces", "](](" + row + "ee"));
  };
  CHECK(contains(error("}(" + text("action") + text("alloc") + text("addr") + "K\x01u"),
                 "device_traces is not what PyTorch writes: the size of one event is missing"));
  CHECK(contains(error(event("alloc", text("stream") + text("first"))), "the stream of one event"));
  CHECK(contains(error(event("alloc", text("frames") + "](Ne")), "the frames of one event"));
  CHECK(contains(error("N"), "device_traces is not what PyTorch writes"));
  CHECK(contains(pickles.error(kProtocol + "}" + text("segments") + "](Nes."),
                 "segments is not what PyTorch writes"));
}

TEST_CASE("rows that are complete do not change", "[unit]") {
  const Pickles pickles;
  CHECK(contains(pickles.error(with_key("device_traces",
                                        "](](" + event("alloc") + text("size") + "K\x03s" + "ee")),
                 "there is no dictionary that it can extend"));
}

TEST_CASE("a snapshot without history has segments only", "[unit]") {
  const Pickles pickles;
  // The pickle is a list of segments, as torch.cuda.memory_snapshot() returns it; here it is empty.
  CHECK(pickles.read(kProtocol + "].").segments.empty());
  const Snapshot snapshot = pickles.read(with_key("device_traces", "](]]e"));
  CHECK(snapshot.device_traces.size() == 2);
  CHECK(snapshot.events.empty());
  CHECK_FALSE(snapshot.ring_overflowed);
  CHECK_FALSE(snapshot.has_host_memory);
}

TEST_CASE("events of Python's batches of a thousand are in one trace", "[unit]") {
  const Pickles pickles;
  const std::string traces = "](](" + repeated(1000, event("alloc")) + "e(" +
                             repeated(1000, event("alloc")) + "e" + event("alloc") + "a](" +
                             event("oom", text("device_free") + "K\x07") + "ee";
  const Snapshot snapshot = pickles.read(with_key("device_traces", traces));
  REQUIRE(snapshot.device_traces.size() == 2);
  CHECK(snapshot.events_of(snapshot.device_traces[0]).size() == 2001);
  CHECK(snapshot.events_of(snapshot.device_traces[1]).front().address == 7);
}

TEST_CASE("frames that an unknown key shares with known ones are understood", "[unit]") {
  const Pickles pickles;
  const Snapshot snapshot =
      pickles.read(kProtocol + "}(" + text("from_the_future") + "](" + kFrame + "\x94" + "e" +
                   text("segments") + "]" + text("device_traces") + "](](" +
                   event("alloc", text("frames") + "](h\x00"s + "e") + "eeu.");
  const auto stack = snapshot.stack(snapshot.events.front().stack);
  REQUIRE(stack.size() == 1);
  CHECK(snapshot.text(snapshot.frame({stack[0]}).file) == "a.py");
  CHECK(snapshot.unknown_keys.at("snapshot.from_the_future") == 1);
}

TEST_CASE("a block without address begins where the one before it ends", "[unit]") {
  const Pickles pickles;
  const std::string block = "}(" + text("size") + "K\x08" + text("state") + text("inactive") + "u";
  const Snapshot snapshot =
      pickles.read(kProtocol + "](}(" + text("address") + "K\x10" + text("total_size") + "K\x10" +
                   text("blocks") + "](" + block + block + "eue.");
  CHECK(snapshot.blocks.at(0).address == 16);
  CHECK(snapshot.blocks.at(1).address == 24);
  CHECK_FALSE(snapshot.blocks.at(0).requested_bytes);
}

TEST_CASE("a snapshot that went through JSON has a list for the pair that names a pool", "[unit]") {
  const Pickles pickles;
  const Snapshot snapshot = pickles.read(with_key(
      "device_traces", "](](" + event("alloc", text("pool_id") + "](K\x03K\x01" + "e") + "ee"));
  CHECK(snapshot.pool(snapshot.events.front().pool) == analyzer::snapshot::Pool{3, 1});
}

TEST_CASE("a dictionary may grow key by key", "[unit]") {
  const Pickles pickles;
  const Snapshot snapshot =
      pickles.read(kProtocol + "}" + text("segments") + "]s" + text("allocator_settings") + "}" +
                   text("a") + "K\x01s" + text("b") + "}" + text("c") + "K\x02" + "ss" + "s" +
                   text("device_traces") + "](]es.");
  CHECK(snapshot.device_traces.size() == 1);
  REQUIRE(snapshot.settings.size() == 2);
  CHECK(snapshot.text(snapshot.settings[1].name) == "b.c");
}

TEST_CASE("names of unknown keys are counted up to a bound", "[unit]") {
  const Pickles pickles;
  std::string unknown;
  for (int i = 0; i < 200; ++i) unknown += text("key" + std::to_string(i)) + "N";
  const Snapshot snapshot =
      pickles.read(with_key("device_traces", "](](" + event("alloc", unknown) + "ee"));
  CHECK(snapshot.unknown_keys.size() == Snapshot::kUnknownNames + 1);
  CHECK(snapshot.unknown_keys.at("...") == 100);
}

}  // namespace gpumemtrace::tests::snapshot_hostile_test
