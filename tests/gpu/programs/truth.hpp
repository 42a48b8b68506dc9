// SPDX-License-Identifier: Apache-2.0
// A C++ program's own record of its memory use (its truth), written as checks for compare.py. The
// keys are those of truth.py beside this file; README.md describes them.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace gpumemtrace::gpu_tests {

// The program's own counts of one kind of memory. Not thread-safe.
class KindLedger {
 public:
  void allocate(std::uint64_t bytes) {
    ++allocations_;
    total_bytes_ += bytes;
    live_bytes_ += bytes;
    ++live_count_;
    if (live_bytes_ > peak_bytes_) peak_bytes_ = live_bytes_;
    if (bytes > largest_bytes_) largest_bytes_ = bytes;
  }
  void free(std::uint64_t bytes) {
    ++frees_;
    live_bytes_ -= bytes;
    --live_count_;
  }

  std::uint64_t allocations() const { return allocations_; }
  std::uint64_t frees() const { return frees_; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t live_count() const { return live_count_; }
  std::uint64_t peak_bytes() const { return peak_bytes_; }
  std::uint64_t largest_bytes() const { return largest_bytes_; }

  // Counts the end of a context: all live memory ends with it, without a call that frees.
  void end_with_context() { live_bytes_ = live_count_ = 0; }

 private:
  std::uint64_t allocations_ = 0;
  std::uint64_t frees_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t live_count_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t largest_bytes_ = 0;
};

struct Transfers {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;

  void add(std::uint64_t size_bytes) {
    ++count;
    bytes += size_bytes;
  }
};

// Collects checks and writes them to the file that GPUMEMTRACE_TRUTH names (plus `suffix`).
// Without that variable write() does nothing. Names and sources must need no JSON escapes.
class Truth {
 public:
  explicit Truth(std::string program, std::string suffix = "")
      : program_(std::move(program)), suffix_(std::move(suffix)) {}

  // `more` contains further JSON members of the check, each after a comma: ,"field":"count".
  void check(const std::string& name, const std::string& rows, std::uint64_t value,
             const std::string& more) {
    if (!checks_.empty()) checks_ += ",\n";
    checks_ += R"({"name":")" + name + R"(","rows":")" + rows + R"(","value":)" +
               std::to_string(value) + R"(,"source":"the program's own arithmetic")" + more + "}";
  }

  // Adds one check for each number of a usage row. Driver and pool rows are those of device 0.
  // `staged`: the CUDA runtime's own allocations and frees, besides the program's.
  void usage(const std::string& level, const std::string& kind, const KindLedger& ledger,
             const Transfers& staged = {}) {
    const std::map<std::string, std::uint64_t> fields = {
        {"allocations", ledger.allocations()},           {"frees", ledger.frees()},
        {"allocated_bytes_total", ledger.total_bytes()}, {"peak_bytes", ledger.peak_bytes()},
        {"live_bytes_at_end", ledger.live_bytes()},      {"live_count_at_end", ledger.live_count()},
        {"largest_bytes", ledger.largest_bytes()},
    };
    for (const auto& [field, value] : fields) {
      const bool counts = field == "allocations" || field == "frees";
      const bool sums = field == "allocated_bytes_total" || field == "peak_bytes";
      const std::uint64_t units = counts ? staged.count : sums ? staged.bytes : 0;
      usage_field(level, kind, field, value, units == 0 ? "" : staged_allowance(units));
    }
  }

  static std::string staged_allowance(std::uint64_t units) {
    return R"(,"allow":[{"reason":"staged_by_runtime","units":)" + std::to_string(units) + "}]";
  }

  void usage_field(const std::string& level, const std::string& kind, const std::string& field,
                   std::uint64_t value, const std::string& allowance = "") {
    const std::string combine = field == "largest_bytes" ? R"(,"combine":"max")" : "";
    const bool of_device = level == "driver" || level == "pool";
    check(level + "/" + kind + " " + field, "usage", value,
          R"(,"where":{"level":")" + level + R"(","kind":")" + kind + R"("},"field":")" + field +
              "\"" + combine + (of_device ? R"(,"device":0)" : "") + allowance);
  }

  void write() const {
    const char* path = std::getenv("GPUMEMTRACE_TRUTH");
    if (path == nullptr) return;
    const std::string name = path + suffix_;
    std::FILE* file = std::fopen(name.c_str(), "w");
    if (file == nullptr) {
      std::fprintf(stderr, "cannot write %s; choose a folder that exists\n", name.c_str());
      std::exit(1);
    }
    std::fprintf(file,
                 "{\"format\":\"gpumemtrace-truth\",\"version\":1,\"program\":\"%s\",\"pid\":%d,"
                 "\"versions\":{},\"live_blocks\":[],\"checks\":[\n%s\n]}\n",
                 program_.c_str(), static_cast<int>(getpid()), checks_.c_str());
    std::fclose(file);
  }

 private:
  std::string program_;
  std::string suffix_;
  std::string checks_;
};

}  // namespace gpumemtrace::gpu_tests
