// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cupti/abi.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::simulated_cupti {

using namespace cupti;
using trace::ActivityDomain;

// The environment variables of the simulated CUPTI; README.md lists them.
struct Settings {
  std::uint32_t version = 130001;
  bool held = false;             // another tool is the subscriber
  std::uint64_t late_ns = 0;     // copies and sets run this long after their calls
  std::size_t most_records = 0;  // in one buffer; 0 = as many as its bytes hold
  bool calls_last = false;       // API records come after those of the calls' work
};

struct Callbacks {
  RequestFunction* request = nullptr;
  CompleteFunction* complete = nullptr;
};

// A client's buffer that is being filled with records.
struct Buffer {
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  std::size_t used = 0;
  std::size_t most_records = 0;
  std::size_t records = 0;
  Callbacks callbacks;  // the callbacks of the client that gave the buffer
};

// The functions of a domain whose calls are recorded.
struct SelectedCalls {
  bool whole_kind = false;
  std::set<CallbackId> on;
  std::set<CallbackId> off;
  bool contains(CallbackId function) const {
    return (whole_kind && off.count(function) == 0) || on.count(function) != 0;
  }
};

struct State {
  Settings settings;
  std::mutex mutex;  // guards everything below
  bool registered = false;
  Callbacks callbacks;
  std::set<std::uint32_t> kinds;
  SelectedCalls driver;
  SelectedCalls runtime;
  bool context_exists = false;
  std::atomic<std::uint32_t> correlations{0};
  std::atomic<TimestampFunction*> clock{nullptr};
  std::uint64_t dropped = 0;
  std::map<Attribute, std::size_t> attributes = {{0, 3200000}, {2, 250}, {6, 3}};
  Buffer device_buffer;
  std::map<std::thread::id, Buffer> call_buffers;
  bool subscribed = false;
  std::atomic<bool> has_subscriber_v2{false};

  // A separate thread completes buffers; these variables are its queue.
  std::thread completer;
  std::condition_variable work_came;
  std::condition_variable work_done;
  std::deque<Buffer> completed;
  std::uint64_t completions_wanted = 0;
  std::uint64_t completions_done = 0;
};

State& state();

std::uint64_t timestamp();

// Appends a record to a buffer, and requests a buffer from the client if there is none. Counts a
// drop if the client gives none. The caller holds the lock, which is released during the request.
void append(std::unique_lock<std::mutex>& lock, Buffer& buffer,
            const std::vector<std::uint8_t>& record);

// Gives all buffers to the completing thread and waits until they are completed.
void complete_all(std::unique_lock<std::mutex>& lock);

// Starts to listen to the driver; false if another listener is set.
bool listen_to_driver();
void stop_listening();

}  // namespace gpumemtrace::simulated_cupti
