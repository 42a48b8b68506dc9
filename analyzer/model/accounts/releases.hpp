// SPDX-License-Identifier: Apache-2.0
// The call sites that freed a group's memory: the first one, as in a checkpoint, and up to
// kMostOthers others. Several of them may be stacks that end in the same source line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/ledger/releases.hpp"

namespace gpumemtrace::analyzer {

struct Releases : ledger::Releases {
  static constexpr std::size_t kMostOthers = 16;

  std::vector<ledger::CallSite> others;  // call sites other than first_at, each once
  // there were more call sites than `others` lists: over kMostOthers, or a checkpoint did not list
  // them
  bool has_unlisted_sites = false;

  Releases() = default;
  explicit Releases(const ledger::Releases& restored)
      : ledger::Releases(restored), has_unlisted_sites(restored.has_other_sites) {}

  void add_site(const ledger::CallSite& site, std::uint64_t time) {
    ledger::Releases::add_site(site, time);
    add_other(site);
  }
  void merge(const Releases& more) {
    const ledger::CallSite former = first_at;
    ledger::Releases::merge(more);
    has_unlisted_sites = has_unlisted_sites || more.has_unlisted_sites;
    std::erase(others, first_at);
    add_other(former);
    add_other(more.first_at);
    for (const ledger::CallSite& site : more.others) add_other(site);
  }

 private:
  void add_other(const ledger::CallSite& site) {
    if (site == first_at || site == ledger::CallSite{}) return;
    if (std::find(others.begin(), others.end(), site) != others.end()) return;
    if (others.size() == kMostOthers) {
      has_unlisted_sites = true;
    } else {
      others.push_back(site);
    }
  }
};

}  // namespace gpumemtrace::analyzer
