// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbolize.hpp"

#include <algorithm>

#include "analyzer/snapshot/open_trace.hpp"
#include "analyzer/stacks/module_map.hpp"
#include "analyzer/symbols/symbolizer.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct Places {
  ModuleMap modules;
  NativeStacks stacks;
};

void read_writer(const trace::TraceFile& file, const trace::WriterStream& stream, Places& places) {
  trace::WriterCursor cursor(file, stream);
  while (const trace::RecordHeader* record = cursor.next()) {
    if (record->kind == trace::RecordKind::kModule) {
      places.modules.add(trace::as<trace::Module>(*record), trace::tail_of(*record));
    } else if (record->kind == trace::RecordKind::kStack) {
      places.stacks.add(trace::as<trace::Stack>(*record));
    }
  }
}

Places read_places(const trace::TraceFile& file) {
  Places places;
  // A checkpoint's records are read before all others, because they are older.
  for (const bool checkpoint : {true, false}) {
    for (const trace::WriterStream& stream : file.writers()) {
      if ((stream.writer == trace::kCheckpointWriter) == checkpoint) {
        read_writer(file, stream, places);
      }
    }
  }
  return places;
}

void name_all(const Places& places, Symbolizer& symbolizer) {
  places.stacks.for_each([&](trace::StackId stack) {
    const std::uint64_t time = places.stacks.time_of(stack);
    for (const std::uint64_t address : places.stacks.addresses_of(stack)) {
      // The byte before a return address belongs to the call.
      const LoadedModule* module = address == 0 ? nullptr : places.modules.find(address - 1, time);
      if (module == nullptr) continue;
      (void)symbolizer.frames_at(module->identity, address - 1 - module->base);
    }
  });
}

}  // namespace

SymbolizeResult symbolize(const std::vector<std::filesystem::path>& inputs,
                          const SymbolOptions& options) {
  Symbolizer symbolizer(options);
  try {
    for (const std::filesystem::path& path : trace::find_traces(inputs)) {
      name_all(read_places(*snapshot::open_trace(path)), symbolizer);
    }
  } catch (const trace::TraceError& error) {
    throw InputError(error.what());
  }
  const SideCar& answers = symbolizer.answers();
  return {answers.text(), answers.offset_count(), answers.named_offset_count()};
}

}  // namespace gpumemtrace::analyzer
