// SPDX-License-Identifier: Apache-2.0
#include "preload/ring/control.hpp"

#include "preload/base/sections.hpp"
#include "preload/base/thread_guards.hpp"
#include "preload/base/wait.hpp"

namespace gpumemtrace::preload {
namespace {

// Nothing is recorded before the library's constructor has run.
bool attach_nothing(bool) noexcept { return false; }

[[GPUMEMTRACE_START_DATA]] constinit AttachThread* installed_attach = attach_nothing;

}  // namespace

// `control` lies in initialized data: in .bss, its alignment would make all zeroed data begin at a
// page of its own, one more page that every process touches. The library's constructor puts another
// page in the place of `control`.
[[gnu::section(".data.control")]] constinit Control control;
constinit BackgroundWake background_wake;

[[GPUMEMTRACE_START_CODE]] void install_attach_thread(AttachThread* attach) noexcept {
  installed_attach = attach;
}
bool attach_thread(bool may_start) noexcept { return installed_attach(may_start); }

// Takes back the announcement before it raises the count: if it takes back the announcement of a
// later pause, the new count ends that pause, too.
void BackgroundWake::wake() noexcept {
  const ErrnoKeeper errno_keeper;
  is_announced_.store(false);  // mutant: announcement_taken_back
  count_.fetch_add(1);
  wake_all(count_);
}

void BackgroundWake::sleep(std::uint32_t count, long ns) noexcept {
  wait_for_change(count_, count, ns, ns);
  is_announced_.store(false);
}

}  // namespace gpumemtrace::preload
