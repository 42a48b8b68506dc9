// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// The truth: a program's record of its own calls, by its own arithmetic, with which tests compare
// the report. README.md in the folder above describes the JSON.

namespace gpumemtrace::programs {

struct KindTruth {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t ended_with_context = 0;
  std::uint64_t failed = 0;
  std::uint64_t allocated_bytes_total = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t live_count = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t largest_bytes = 0;
  bool peak_is_exact = true;
};

struct CopyTruth {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

struct CallTruth {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
};

// Thread-safe: any thread may call any function at any time.
class Truth {
 public:
  void called(const char* symbol, bool succeeded);

  // `level` and `kind` are those of the report: driver/device, pool/stream_ordered and so on.
  void allocated(const std::string& level, const std::string& kind, std::uint64_t bytes);
  void freed(const std::string& level, const std::string& kind, std::uint64_t bytes);
  // Memory that the end of its context freed, not a call.
  void ended_with_context(const std::string& level, const std::string& kind, std::uint64_t bytes);
  void allocation_failed(const std::string& level, const std::string& kind);

  // `count` allocations and as many frees, made by threads at once, so that their peak is unknown.
  void churned(const std::string& level, const std::string& kind, std::uint64_t count,
               std::uint64_t bytes_each);
  void called_often(const char* symbol, std::uint64_t count);

  // `direction` is one of the report's: host_to_device and so on.
  void copied(const std::string& direction, std::uint64_t bytes);
  void set(std::uint64_t bytes);

  // Adds a remark for readers of the numbers, such as a function that was left out.
  void note(const std::string& text);

  // Returns {"truth": {...}} on one line.
  std::string json(const std::string& program) const;

 private:
  struct LevelTruth {
    std::map<std::string, KindTruth> kinds;
    std::uint64_t live_bytes = 0;
    std::uint64_t peak_bytes = 0;
    bool peak_is_exact = true;
  };

  mutable std::mutex mutex_;
  std::map<std::string, CallTruth> calls_;
  std::map<std::string, LevelTruth> levels_;
  std::map<std::string, CopyTruth> copies_;
  CopyTruth sets_;
  std::vector<std::string> notes_;
};

// The truth of this program. Never destroyed: static objects may still use it.
Truth& truth();

}  // namespace gpumemtrace::programs
