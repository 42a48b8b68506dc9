// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "cupti/buffers.hpp"
#include "cupti/client.hpp"
#include "cupti/delivery.hpp"
#include "cupti/library.hpp"
#include "cupti/spin_lock.hpp"
#include "tests/catch.hpp"
#include "tests/support/cupti_records.hpp"

namespace gpumemtrace::cupti::cupti_client_test {
namespace {

using test_support::call_record;
using test_support::copy_record;
using test_support::CuptiRecord;
using trace::ActivityDomain;

bool owns_copy(Client& client, std::uint64_t time, std::uint32_t context = 0) {
  CuptiRecord record = copy_record(1, time, 64);
  record.put(layouts::Memcpy::kContext, context);
  return client.owns(record.raw(), time);
}

bool owns_call(Client& client, std::uint64_t time, CallbackId function) {
  return client.owns(call_record(Kind::kRuntime, 1, time, function).raw(), time);
}

TEST_CASE("a record is the client's if its kind was on at the record's time", "[unit]") {
  static Client client;
  client.forget_all();
  CHECK_FALSE(owns_copy(client, 100));
  client.switch_kind(Kind::kMemcpy, {100, kEverywhere, true});
  client.switch_kind(Kind::kMemcpy, {200, kEverywhere, false});
  client.switch_kind(Kind::kMemcpy, {300, kEverywhere, true});
  CHECK_FALSE(owns_copy(client, 99));
  CHECK(owns_copy(client, 100));
  CHECK(owns_copy(client, 199));
  CHECK_FALSE(owns_copy(client, 200));
  CHECK_FALSE(owns_copy(client, 299));
  CHECK(owns_copy(client, 1000));
  CHECK_FALSE(client.owns(CuptiRecord(Kind::kMemset, 88).raw(), 150));
}

TEST_CASE("a kind may be on for one context alone, or for all but one", "[unit]") {
  static Client client;
  client.forget_all();
  client.switch_kind(Kind::kMemcpy, {100, 7, true});
  CHECK(owns_copy(client, 150, 7));
  CHECK_FALSE(owns_copy(client, 150, 8));
  client.switch_kind(Kind::kMemcpy, {200, kEverywhere, true});
  client.switch_kind(Kind::kMemcpy, {300, 8, false});
  CHECK(owns_copy(client, 250, 8));
  CHECK(owns_copy(client, 350, 7));
  CHECK_FALSE(owns_copy(client, 350, 8));
}

TEST_CASE("of a domain's kind and a function of it, the last switch decides", "[unit]") {
  static Client client;
  client.forget_all();
  client.switch_function(ActivityDomain::kRuntime, 31, {100, kEverywhere, true});
  CHECK(owns_call(client, 150, 31));
  CHECK_FALSE(owns_call(client, 150, 32));
  client.switch_kind(Kind::kRuntime, {200, kEverywhere, true});
  client.switch_function(ActivityDomain::kRuntime, 31, {300, kEverywhere, false});
  CHECK(owns_call(client, 250, 31));
  CHECK_FALSE(owns_call(client, 350, 31));
  CHECK(owns_call(client, 350, 32));
  client.switch_kind(Kind::kRuntime, {400, kEverywhere, true});
  CHECK(owns_call(client, 450, 31));
  client.switch_kind(Kind::kRuntime, {500, kEverywhere, false});
  CHECK_FALSE(owns_call(client, 550, 31));
}

// The times at which the program switches kinds and functions on or off are 0 until the recorder
// shares the CUPTI library with the program.
TEST_CASE("a kind overrides the functions that were switched before it, without times, too",
          "[unit]") {
  static Client client;
  client.forget_all();
  client.switch_function(ActivityDomain::kRuntime, 31, {0, kEverywhere, false});
  client.switch_function(ActivityDomain::kDriver, 31, {0, kEverywhere, true});
  client.switch_kind(Kind::kRuntime, {0, kEverywhere, true});
  CHECK(owns_call(client, 150, 31));
  client.switch_function(ActivityDomain::kRuntime, 31, {0, kEverywhere, false});
  CHECK_FALSE(owns_call(client, 150, 31));
  client.switch_function(ActivityDomain::kRuntime, 31, {0, kEverywhere, true});
  client.switch_kind(Kind::kRuntime, {0, kEverywhere, false});
  CHECK_FALSE(owns_call(client, 150, 31));
  CHECK(client.owns(call_record(Kind::kDriver, 1, 150, 31).raw(), 150));
}

TEST_CASE("with another clock only what is on now is known", "[unit]") {
  static Client client;
  client.forget_all();
  client.switch_kind(Kind::kMemcpy, {1000, kEverywhere, true});
  client.switch_kind(Kind::kRuntime, {1000, kEverywhere, true});
  client.switch_function(ActivityDomain::kRuntime, 31, {1100, kEverywhere, false});
  client.switch_function(ActivityDomain::kDriver, 276, {1100, kEverywhere, true});
  client.forget_times();
  CHECK(owns_copy(client, 1));
  CHECK(owns_call(client, 1, 32));
  CHECK_FALSE(owns_call(client, 1, 31));
  CHECK(client.owns(call_record(Kind::kDriver, 1, 1, 276).raw(), 1));
  client.switch_kind(Kind::kMemcpy, {5, kEverywhere, false});
  CHECK(owns_copy(client, 4));
  CHECK_FALSE(owns_copy(client, 6));
  client.switch_kind(Kind::kRuntime, {6, kEverywhere, true});
  CHECK(owns_call(client, 7, 31));
}

TEST_CASE("more switches than are remembered leave the newest right", "[unit]") {
  static Client client;
  client.forget_all();
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    client.switch_kind(Kind::kMemcpy, {i * 10, kEverywhere, i % 2 == 1});
  }
  CHECK_FALSE(owns_copy(client, 10'000));
  CHECK(owns_copy(client, 9'995));
  CHECK_FALSE(owns_copy(client, 9'985));
}

TEST_CASE("a context keeps its state however often another is switched", "[unit]") {
  static Client client;
  client.forget_all();
  client.switch_kind(Kind::kMemcpy, {5, 7, true});
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    client.switch_kind(Kind::kMemcpy, {i * 10, 8, i % 2 == 1});
  }
  CHECK(owns_copy(client, 10'000, 7));
  CHECK_FALSE(owns_copy(client, 10'000, 8));
  CHECK(owns_copy(client, 9'995, 8));
  CHECK_FALSE(owns_copy(client, 10'000, 9));
}

TEST_CASE("a context keeps its state when the clock is exchanged", "[unit]") {
  static Client client;
  client.forget_all();
  client.switch_kind(Kind::kMemcpy, {1000, 8, true});
  client.switch_kind(Kind::kMemcpy, {1100, kEverywhere, false});
  client.switch_kind(Kind::kMemcpy, {1200, 7, true});
  client.forget_times();
  CHECK(owns_copy(client, 1, 7));
  CHECK_FALSE(owns_copy(client, 1, 8));
  client.switch_kind(Kind::kMemcpy, {5, kEverywhere, false});
  CHECK(owns_copy(client, 4, 7));
  CHECK_FALSE(owns_copy(client, 6, 7));
}

TEST_CASE("certainty ends where a switch lies before the record", "[unit]") {
  static Client client;
  client.forget_all();
  const CuptiRecord record = copy_record(1, 100, 64);
  CHECK(client.is_certain(record.raw(), 100));
  client.switch_kind(Kind::kMemcpy, {200, kEverywhere, true});
  CHECK(client.is_certain(record.raw(), 100));
  CHECK_FALSE(client.is_certain(record.raw(), 300));
}

TEST_CASE("the time of a call is known until its place is needed", "[unit]") {
  CallTimes times;
  std::uint64_t start = 5;
  CHECK_FALSE(times.find(1, start));
  REQUIRE(times.reserve());
  times.note(1, 100);
  times.note(2, 200);
  CHECK(times.find(1, start));
  CHECK(start == 100);
  times.note(1 + (1u << 16), 300);
  start = 5;
  CHECK_FALSE(times.find(1, start));
  CHECK(start == 5);
  CHECK(times.find(2, start));
  times.forget();
  CHECK_FALSE(times.find(2, start));
}

TEST_CASE("held records come back one by one until they are decided", "[unit]") {
  HeldRecords held;
  REQUIRE(held.reserve());
  for (std::uint32_t i = 1; i <= 3; ++i) CHECK(held.hold(copy_record(i, i, i).raw()));
  std::vector<std::uint32_t> seen;
  held.review(false, [&](const RawRecord& record, std::uint64_t) {
    seen.push_back(correlation_of(record));
    return correlation_of(record) == 2;
  });
  CHECK(seen == std::vector<std::uint32_t>{1, 2, 3});
  seen.clear();
  held.review(true, [&](const RawRecord& record, std::uint64_t) {
    seen.push_back(correlation_of(record));
    CHECK(record.size == 96);
    return false;
  });
  CHECK(seen == std::vector<std::uint32_t>{2});
  held.review(true, [&](const RawRecord&, std::uint64_t) -> bool {
    FAIL("nothing is held");
    return false;
  });
}

TEST_CASE("what is held after a round's end belongs to the next one, and keeps its round",
          "[unit]") {
  HeldRecords held;
  REQUIRE(held.reserve());
  const auto rounds = [&] {
    std::vector<std::uint64_t> seen;
    held.review(true, [&](const RawRecord&, std::uint64_t round) {
      seen.push_back(round);
      return true;
    });
    return seen;
  };
  REQUIRE(held.hold(copy_record(1, 1, 1).raw()));
  const std::uint64_t first = held.end_round();
  REQUIRE(held.hold(copy_record(2, 2, 2).raw()));
  CHECK(rounds() == std::vector<std::uint64_t>{first, first + 1});
  CHECK(held.end_round() == first + 1);
  CHECK(rounds() == std::vector<std::uint64_t>{first, first + 1});
  REQUIRE(held.hold(copy_record(3, 3, 3).raw()));
  CHECK(rounds() == std::vector<std::uint64_t>{first, first + 1, first + 2});
}

TEST_CASE("no more is held than there is room for", "[unit]") {
  HeldRecords held;
  REQUIRE(held.reserve());
  constexpr std::size_t kRoom = std::size_t{4} << 20;  // each record takes its size and 16 bytes
  const std::size_t each = copy_record(1, 1, 1).raw().size + 16;
  std::size_t count = 0;
  while (count * each <= kRoom && held.hold(copy_record(1, 1, 1).raw())) ++count;
  CHECK(count == kRoom / each);
  std::size_t seen = 0;
  held.review(true, [&](const RawRecord&, std::uint64_t) {
    ++seen;
    return false;
  });
  CHECK(seen == count);
  CHECK(held.hold(copy_record(1, 1, 1).raw()));
}

TEST_CASE("a held record that finds no room again is decided at once", "[unit]") {
  HeldRecords held;
  REQUIRE(held.reserve());
  REQUIRE(held.hold(copy_record(1, 1, 1).raw()));
  const std::uint64_t round = held.end_round();
  std::vector<std::uint64_t> rounds;
  held.review(true, [&](const RawRecord&, std::uint64_t of) {
    rounds.push_back(of);
    while (held.hold(copy_record(2, 2, 2).raw())) {
    }
    return true;
  });
  CHECK(rounds == std::vector<std::uint64_t>{round, HeldRecords::kEndedRound});
}

// Runs `check` in a forked child for at most 10 s. False if it failed or did not return.
template <class Check>
bool succeeds_in_child(Check&& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    _exit(check() ? 0 : 1);
  }
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST_CASE("a lock lets one thread in at a time", "[unit]") {
  constexpr int kThreads = 4;
  constexpr int kRounds = 10'000;
  SpinLock lock;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kRounds; ++n) {
        const SpinGuard guard(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count == kThreads * kRounds);
}

TEST_CASE("a forked child is not kept out by what its parent held", "[unit]") {
  SpinLock lock;
  lock.lock();
  CHECK(succeeds_in_child([&] {
    lock.free_in_child();
    const SpinGuard guard(lock);
    return true;
  }));
  HeldRecords held;
  REQUIRE(held.reserve());
  REQUIRE(held.hold(copy_record(1, 1, 1).raw()));
  bool got_in = false;
  held.review(true, [&](const RawRecord&, std::uint64_t) {
    got_in = succeeds_in_child([&] {
      held.free_in_child();
      held.forget();
      REQUIRE(held.hold(copy_record(2, 2, 2).raw()));
      std::uint32_t seen = 0;
      held.review(true, [&](const RawRecord& record, std::uint64_t) {
        seen = correlation_of(record);
        return false;
      });
      return seen == 2;
    });
    return false;
  });
  CHECK(got_in);
}

TEST_CASE("buffers of ours are told from others and come back as they were filled", "[unit]") {
  static Buffers buffers;
  CHECK(buffers.take() == nullptr);
  REQUIRE(buffers.reserve());
  std::uint8_t foreign = 0;
  CHECK_FALSE(buffers.is_ours(&foreign));
  std::set<std::uint8_t*> taken;
  while (std::uint8_t* buffer = buffers.take()) {
    CHECK(buffers.is_ours(buffer));
    taken.insert(buffer);
  }
  CHECK(taken.size() == Buffers::kCount);
  Buffers::Filled filled;
  CHECK_FALSE(buffers.take_filled(filled));
  std::uint8_t* const one = *taken.begin();
  one[0] = 42;
  buffers.completed(one, 1, 2, false);
  REQUIRE(buffers.take_filled(filled));
  CHECK(filled.bytes == one);
  CHECK(filled.bytes[0] == 42);
  CHECK(filled.valid_bytes == 1);
  CHECK(filled.library == 2);
  CHECK(buffers.take() == nullptr);
  buffers.release(filled);
  CHECK(buffers.take() == one);
  buffers.completed(one, 0, 0, false);  // an empty buffer is free at once
  CHECK(buffers.take() == one);
  buffers.completed(one, 8, 0, true);
  CHECK_FALSE(buffers.take_filled(filled));
}

TEST_CASE("threads that take and fill buffers never share one", "[unit]") {
  static Buffers buffers;
  REQUIRE(buffers.reserve());
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> sum_in{0};
  std::uint64_t sum_out = 0;
  std::vector<std::thread> threads;
  for (std::uint8_t i = 1; i <= 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 2000; ++n) {
        std::uint8_t* const buffer = buffers.take();
        if (buffer == nullptr) continue;
        buffer[0] = i;
        sum_in += i;
        buffers.completed(buffer, 1, 0, false);
      }
    });
  }
  std::thread reader([&] {
    Buffers::Filled filled;
    for (;;) {
      const bool last = stop.load();
      while (buffers.take_filled(filled)) {
        sum_out += filled.bytes[0];
        buffers.release(filled);
      }
      if (last) return;
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  reader.join();
  CHECK(sum_out == sum_in.load());
}

}  // namespace
}  // namespace gpumemtrace::cupti::cupti_client_test
