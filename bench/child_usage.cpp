// SPDX-License-Identifier: Apache-2.0
#include "bench/child_usage.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <stdexcept>

#include "bench/results.hpp"

namespace gpumemtrace::bench {

Usage measure_child(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    try {
      work();
      _exit(0);
    } catch (const std::exception& error) {
      say(error.what());
      _exit(1);
    }
  }
  int status = 0;
  rusage usage = {};
  if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
    throw std::runtime_error("the measured process failed");
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), wall.count(),
          static_cast<double>(usage.ru_maxrss) / 1024};
}

}  // namespace gpumemtrace::bench
