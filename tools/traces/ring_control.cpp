// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/ring_control.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "trace/own_descriptor.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::string_view kRingSuffix = ".gmt.ring";
constexpr auto kPollInterval = std::chrono::milliseconds(1);

// A ring file's header page, mapped and locked against other callers; released with the object.
class MappedRing {
 public:
  // Throws Failure if the file cannot be opened for writing or is no ring of this version.
  explicit MappedRing(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    const auto fail = [&](const char* reason) {
      throw Failure(
          format_text("cannot use the ring file {}: {}; run ctl as the user of the process "
                      "and with the same version",
                      path, reason));
    };
    if (!file_.is_open()) fail(std::strerror(errno));
    if (file_.bytes() < trace::kRingHeaderBytes) fail("it is too short");
    void* const mapping = mmap(nullptr, trace::kRingHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                               file_.number(), 0);
    if (mapping == MAP_FAILED) fail(std::strerror(errno));
    header_.reset(static_cast<trace::RingHeader*>(mapping));
    if (header_->magic != trace::kRingMagic || header_->version != trace::kFileVersion) {
      fail("it is of another version of gpumemtrace");
    }
    while (flock(file_.number(), LOCK_EX) != 0) {
      if (errno != EINTR) fail(std::strerror(errno));
    }
  }

  trace::RingHeader& header() { return *header_; }

 private:
  struct Unmap {
    void operator()(trace::RingHeader* header) const { munmap(header, trace::kRingHeaderBytes); }
  };

  trace::OwnDescriptor file_;
  std::unique_ptr<trace::RingHeader, Unmap> header_;
};

// The PIDs of a process in the outer PID namespaces and in its own.
std::vector<std::uint32_t> process_ids_of(pid_t pid) {
  std::ifstream status(format_text("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream words(line.substr(6));
    std::vector<std::uint32_t> ids;
    for (std::uint32_t id = 0; words >> id;) ids.push_back(id);
    return ids;
  }
  return {static_cast<std::uint32_t>(pid)};
}

// The ring files that the process has mapped, as paths that are valid in this process.
std::vector<std::string> rings_mapped_by(pid_t pid) {
  std::ifstream maps(format_text("/proc/{}/maps", pid));
  if (!maps) {
    if (errno == ENOENT) throw Failure(format_text("there is no process {}", pid));
    throw Failure(
        format_text("cannot look into process {}: {}; give the id of a running process "
                    "of yours",
                    pid, std::strerror(errno)));
  }
  std::vector<std::string> rings;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path_at = line.find('/');
    if (path_at == std::string::npos || !line.ends_with(kRingSuffix)) continue;
    const std::string path = format_text("/proc/{}/root{}", pid, line.substr(path_at));
    if (std::ranges::find(rings, path) == rings.end()) rings.push_back(path);
  }
  return rings;
}

[[noreturn]] void fail_unrecorded(pid_t pid) {
  throw Failure(
      format_text("process {} is not being recorded: it was not started with the "
                  "recording library, or has not used CUDA yet",
                  pid));
}

// Puts the command into the ring's mailbox and waits until the recording library has answered.
void post(MappedRing& ring, pid_t pid, trace::ControlCommand command, const std::string& text) {
  trace::ControlMailbox& mailbox = ring.header().mailbox;
  mailbox.command = command;
  mailbox.text_bytes = static_cast<std::uint32_t>(text.size());
  std::memcpy(mailbox.text, text.data(), text.size());
  // Release: the acquire load of the library's background thread sees command and text.
  const std::uint32_t request = mailbox.requested.fetch_add(1, std::memory_order_release) + 1;

  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(kControlTimeoutMs);
  // Acquire: pairs with the release store by which the background thread answers.
  while (mailbox.answered.load(std::memory_order_acquire) != request) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw Failure(
          format_text("process {} did not answer within {} ms; it may be stopped or at "
                      "its end",
                      pid, kControlTimeoutMs));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace

void control_recording(pid_t pid, trace::ControlCommand command, const std::string& text) {
  if (text.size() > sizeof(trace::ControlMailbox::text)) {
    throw Failure(format_text("the name is longer than {} bytes; shorten it",
                              sizeof(trace::ControlMailbox::text)),
                  ExitCode::kUsage);
  }
  const std::vector<std::uint32_t> ids = process_ids_of(pid);
  for (const std::string& path : rings_mapped_by(pid)) {
    MappedRing ring(path);
    // A forked child still maps its parent's ring.
    if (std::ranges::find(ids, ring.header().process_id) == ids.end()) continue;
    post(ring, pid, command, text);
    return;
  }
  fail_unrecorded(pid);
}

std::filesystem::path trace_recorded_by(pid_t pid) {
  const std::vector<std::uint32_t> ids = process_ids_of(pid);
  for (const std::string& ring : rings_mapped_by(pid)) {
    std::ifstream file(ring, std::ios::binary);
    std::vector<char> bytes(sizeof(trace::RingHeader));
    if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) continue;
    std::uint32_t process_id = 0;
    std::memcpy(&process_id, bytes.data() + offsetof(trace::RingHeader, process_id),
                sizeof(process_id));
    if (std::ranges::find(ids, process_id) == ids.end()) continue;
    const std::filesystem::path trace = std::filesystem::path(ring).replace_extension();
    // The path through /proc is valid only while the process lives: prefer the same file's own
    // path.
    const std::filesystem::path outside =
        "/" / trace.lexically_relative(format_text("/proc/{}/root", pid));
    std::error_code ignored;
    return std::filesystem::equivalent(trace, outside, ignored) ? outside : trace;
  }
  fail_unrecorded(pid);
}

}  // namespace gpumemtrace::tools
