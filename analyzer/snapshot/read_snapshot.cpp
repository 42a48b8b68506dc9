// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/read_snapshot.hpp"

#include <cerrno>
#include <string>
#include <system_error>

#include "analyzer/base/input_error.hpp"
#include "analyzer/snapshot/pickle.hpp"
#include "analyzer/snapshot/snapshot_builder.hpp"
#include "trace/source_files.hpp"

namespace gpumemtrace::analyzer::snapshot {

Snapshot read_snapshot(const std::filesystem::path& path) {
  const trace::UnpackedFile unpacked = trace::open_unpacked(path);
  if (!unpacked.has_room) {
    throw InputError("Cannot unpack " + path.string() +
                     " into the folder for temporary files: there is no room. Set TMPDIR, or "
                     "unpack it yourself.");
  }
  if (!unpacked.file.is_open()) {
    throw InputError("Cannot open " + path.string() + ": " +
                     std::generic_category().message(errno) + ".");
  }
  try {
    const std::uint64_t bytes = unpacked.file.bytes();
    SnapshotBuilder builder(bytes);
    return builder.finish(read_pickle(unpacked.file.number(), bytes, builder));
  } catch (const PickleError& error) {
    throw InputError(path.string() + " is no whole memory snapshot of PyTorch. " + error.what() +
                     ".");
  }
}

}  // namespace gpumemtrace::analyzer::snapshot
