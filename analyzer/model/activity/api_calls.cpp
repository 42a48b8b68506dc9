// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/activity/api_calls.hpp"

namespace gpumemtrace::analyzer {

void ApiCalls::look_up(std::uint64_t key) {
  const Place* place = places_.find(key);
  latest_.key = key;
  latest_.page = place == nullptr ? 0 : place->page;
}

ApiCalls::Page& ApiCalls::add_page(std::uint64_t activity) {
  if (pages_.is_full()) {
    Place forgotten;
    (void)places_.erase(pages_.find(pages_.first())->key, forgotten);
    // The next page to be forgotten, which has long left the caches.
    __builtin_prefetch(pages_.find(pages_.first() + 1), 1);
  }
  Page& page = pages_.add();
  page.key = key_of(activity);
  page.reason.fill(Unjoined::kCount);
  latest_.key = page.key;
  latest_.page = pages_.last();
  places_.add(page.key)->page = latest_.page;
  return page;
}

}  // namespace gpumemtrace::analyzer
