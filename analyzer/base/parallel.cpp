// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gpumemtrace::analyzer {
namespace {

namespace fs = std::filesystem;

// True on a thread on which in_parallel() must not start others: it does a part of divided work, or
// a OneThread lives there.
thread_local bool is_at_work = false;

std::size_t processors_bound_to() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // sched_getaffinity() fails if the machine has more processors than a cpu_set_t can name.
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::thread::hardware_concurrency();
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

// The path of this process's control group (version 2), relative to the root group; empty if there
// is none.
fs::path control_group() {
  constexpr std::string_view kVersion2 = "0::/";
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kVersion2)) return fs::path("/") / line.substr(kVersion2.size());
  }
  return {};
}

// The number of processors that the quotas of the control group and of all groups around it allow,
// at least 1; the largest number if there is no quota.
std::size_t processors_of_quota() {
  std::size_t least = ~std::size_t{0};
  const fs::path all = "/sys/fs/cgroup";
  for (fs::path group = control_group().relative_path();; group = group.parent_path()) {
    std::ifstream file(all / group / "cpu.max");
    std::size_t quota_us = 0;
    std::size_t period_us = 0;
    // The content "max 100000" means that there is no quota.
    if (file >> quota_us >> period_us && period_us != 0) {
      least = std::min(least, std::max<std::size_t>(quota_us / period_us, 1));
    }
    if (group.empty()) return least;
  }
}

// Hands out the indexes of the work to threads, and keeps the exception of the smallest index.
class DividedWork {
 public:
  DividedWork(std::size_t count, const std::function<void(std::size_t)>& work)
      : count_(count), work_(work) {}

  void do_some() {
    is_at_work = true;
    for (std::size_t i = next_++; i < count_; i = next_++) {
      try {
        work_(i);
      } catch (...) {
        keep(i, std::current_exception());
      }
    }
    is_at_work = false;
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void keep(std::size_t index, std::exception_ptr error) {
    next_ = count_;
    const std::lock_guard lock(mutex_);
    if (error_ && failed_ < index) return;
    failed_ = index;
    error_ = std::move(error);
  }

  std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::size_t failed_ = 0;
};

}  // namespace

std::size_t usable_processors() {
  static const std::size_t kOfQuota = processors_of_quota();
  return std::max<std::size_t>(std::min(processors_bound_to(), kOfQuota), 1);
}

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  const bool divides = count > 1 && !is_at_work;
  const std::size_t threads = divides ? std::min(count, usable_processors()) : 1;
  if (threads == 1) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  DividedWork parts(count, work);
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < threads) others.emplace_back([&parts] { parts.do_some(); });
    } catch (const std::system_error&) {
      // The system allows no more threads: those that were started do the work.
    }
    parts.do_some();
  }
  parts.rethrow();
}

OneThread::OneThread() : was_at_work_(std::exchange(is_at_work, true)) {}

OneThread::~OneThread() { is_at_work = was_at_work_; }

}  // namespace gpumemtrace::analyzer
