// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/ring_control.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <thread>

#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/base/failure.hpp"

namespace gpumemtrace::tools::ring_control_test {
namespace {

// A ring that this process maps, as the recording library would.
class OwnRing {
 public:
  explicit OwnRing(std::uint32_t process_id) {
    const std::filesystem::path path = folder_.write("job.gmt.ring", "");
    const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(ftruncate(descriptor, trace::kRingHeaderBytes) == 0);
    void* const mapping =
        mmap(nullptr, trace::kRingHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    REQUIRE(mapping != MAP_FAILED);
    header_ = new (mapping) trace::RingHeader;
    header_->process_id = process_id;
  }
  ~OwnRing() { munmap(header_, trace::kRingHeaderBytes); }
  OwnRing(const OwnRing&) = delete;
  OwnRing& operator=(const OwnRing&) = delete;

  trace::ControlMailbox& mailbox() { return header_->mailbox; }

 private:
  tests::TemporaryFolder folder_;
  trace::RingHeader* header_ = nullptr;
};

std::string refusal_of(trace::ControlCommand command, const std::string& text) {
  return tests::error_of<Failure>([&] { control_recording(getpid(), command, text); });
}

std::string not_recorded() {
  return "process " + std::to_string(getpid()) + " is not being recorded";
}

}  // namespace

TEST_CASE("a mark reaches the recorded process with its name", "[unit]") {
  OwnRing ring(static_cast<std::uint32_t>(getpid()));
  trace::ControlMailbox& mailbox = ring.mailbox();
  std::string heard;
  std::thread recorded([&] {
    while (mailbox.requested.load() == 0) std::this_thread::yield();
    heard.assign(mailbox.text, mailbox.text_bytes);
    mailbox.answered.store(mailbox.requested.load());
  });
  control_recording(getpid(), trace::ControlCommand::kMark, "after warm-up");
  recorded.join();
  CHECK(mailbox.command == trace::ControlCommand::kMark);
  CHECK(heard == "after warm-up");
}

TEST_CASE("a process that maps only its parent's ring is not being recorded", "[unit]") {
  const OwnRing ring(static_cast<std::uint32_t>(getppid()));
  CHECK(tests::contains(refusal_of(trace::ControlCommand::kStop, ""), not_recorded()));
}

TEST_CASE("a process without a ring is not being recorded", "[unit]") {
  CHECK(tests::contains(refusal_of(trace::ControlCommand::kStart, ""), not_recorded()));
}

TEST_CASE("the name of a mark must fit the mailbox", "[unit]") {
  const OwnRing ring(static_cast<std::uint32_t>(getpid()));
  CHECK(refusal_of(trace::ControlCommand::kMark, std::string(300, 'x')) ==
        "the name is longer than " + std::to_string(sizeof(trace::ControlMailbox::text)) +
            " bytes; shorten it");
}

}  // namespace gpumemtrace::tools::ring_control_test
