// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/partial_file.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <new>
#include <utility>

#include "analyzer/base/input_error.hpp"
#include "analyzer/json/report_json.hpp"
#include "analyzer/json/row_values.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/input_file.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;
using analyzer::rows::Partial;

// A file may unpack to kMostGrowth times its size, or to kAlwaysAllowedBytes if that is more.
// Reports of many equal ranks grow a hundredfold; a file that grows far more is no report.
constexpr std::size_t kMostGrowth = 2000;
constexpr std::size_t kAlwaysAllowedBytes = std::size_t{1} << 30;
constexpr std::string_view kSkippedMagic = "\x50\x2a\x4d\x18";
constexpr std::string_view kFrameMagic = "\x28\xb5\x2f\xfd";

// A frame that zstd skips: its magic number, the length of its content in four bytes, the content.
std::string skipped_frame(std::string_view content) {
  std::string frame(kSkippedMagic);
  for (std::size_t byte = 0; byte < sizeof(std::uint32_t); ++byte) {
    frame += static_cast<char>(content.size() >> (8 * byte) & 0xff);
  }
  return frame.append(content);
}

void append_packed(std::string_view text, std::string& bytes) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                        ZSTD_freeCCtx);
  if (context == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  const std::size_t begin = bytes.size();
  bytes.resize(begin + ZSTD_compressBound(text.size()));
  const std::size_t size = ZSTD_compress2(context.get(), bytes.data() + begin, bytes.size() - begin,
                                          text.data(), text.size());
  if (ZSTD_isError(size) != 0) throw Failure(format_text("zstd: {}", ZSTD_getErrorName(size)));
  bytes.resize(begin + size);
}

}  // namespace

bool has_partial_name(const fs::path& path) {
  const std::string name = path.string();
  return name.ends_with(kPartialSuffix) || name.ends_with(".part.json");
}

bool is_partial_report(const fs::path& path) {
  constexpr std::size_t kMarkSearchBytes = 256;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  if (has_partial_name(path)) return true;
  std::ifstream file(path, std::ios::binary);
  std::string begin(kMarkSearchBytes, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin.find(kPartialMark) != std::string::npos;
}

std::string partial_file_bytes(const Partial& partial) {
  std::string bytes = skipped_frame(kPartialMark);
  append_packed(analyzer::to_text(partial), bytes);
  return bytes;
}

std::string unpacked_partial(std::string bytes) {
  if (!bytes.starts_with(kSkippedMagic) && !bytes.starts_with(kFrameMagic)) return bytes;
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                             ZSTD_freeDStream);
  if (stream == nullptr) throw std::bad_alloc();
  const std::size_t most_bytes = std::max(kAlwaysAllowedBytes, kMostGrowth * bytes.size());
  std::string text;
  std::string buffer(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  std::size_t wanted = 0;  // zstd's return value, which is 0 between two frames
  bool may_have_more = true;
  while (in.pos < in.size || may_have_more) {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    wanted = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(wanted) != 0 || out.pos > most_bytes - text.size()) {
      throw analyzer::InputError("it is damaged");
    }
    text.append(buffer, 0, out.pos);
    may_have_more = out.pos == out.size && wanted != 0;
  }
  if (wanted != 0) throw analyzer::InputError("its end is missing");
  return text;
}

Partial read_partial(const fs::path& path) {
  try {
    const std::string text = unpacked_partial(text_of_file(path));
    const auto mark = analyzer::row_of_text<analyzer::FileMark>(text, "partial report");
    if (mark.format != Partial::kFormat || mark.version != Partial::kVersion) {
      throw Failure(
          format_text("{} is no partial report of version {}; make one with `gpumemtrace analyze "
                      "--partial TRACE -o {}`",
                      path.string(), Partial::kVersion, path.filename().string()));
    }
    Partial partial = analyzer::partial_of_text(text);
    partial.source = path.string();
    for (analyzer::rows::PartialProcess& process : partial.processes) {
      const fs::path trace = process.path;
      if (!trace.has_parent_path()) process.path = (path.parent_path() / trace).string();
    }
    return partial;
  } catch (const analyzer::InputError& error) {
    throw Failure(
        format_text("{} is no complete partial report ({}); make it again with "
                    "`gpumemtrace analyze --partial`",
                    path.string(), error.what()));
  }
}

}  // namespace gpumemtrace::tools
