// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/dictionary.hpp"

#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

void Dictionary::add(const trace::RecordHeader& record) {
  const std::string_view tail = trace::tail_of(record);
  // Records of these kinds do not change the names of known call sites.
  const bool keeps_site_names = record.kind == trace::RecordKind::kStack ||
                                record.kind == trace::RecordKind::kCode ||
                                record.kind == trace::RecordKind::kUnwrapped;
  if (!keeps_site_names) ++names_version_;
  switch (record.kind) {
    case trace::RecordKind::kModule:
      modules_.add(trace::as<trace::Module>(record), tail);
      runtimes_.reset();
      break;
    case trace::RecordKind::kApiName: {
      const std::size_t zero = tail.find('\0');
      Function function;
      function.symbol = tail.substr(0, zero);
      if (zero != std::string_view::npos) function.runtime_name = tail.substr(zero + 1);
      const auto id = trace::as<trace::ApiName>(record).id;
      functions_[static_cast<std::uint16_t>(id)] = std::move(function);
      break;
    }
    case trace::RecordKind::kText:
      add_text(trace::as<trace::Text>(record));
      break;
    case trace::RecordKind::kUnwrapped:
      ++unwrapped_[std::string(tail)];
      break;
    case trace::RecordKind::kRequester:
      requesters_.insert(trace::as<trace::Requester>(record).caller);
      runtimes_.reset();
      break;
    case trace::RecordKind::kStack:
      python_stacks_.add(record);
      native_stacks_.add(trace::as<trace::Stack>(record));
      break;
    default:
      python_stacks_.add(record);
      break;
  }
}

void Dictionary::add_text(const trace::Text& text) {
  if (text.key == trace::TextKey::kNote) {
    if (text.part == 0 || notes_.empty()) notes_.emplace_back();
    notes_.back() += trace::tail_of(text.record);
    return;
  }
  // Zero bytes separate the arguments of a command line: those at a part's end are kept, because
  // more parts may follow.
  const auto* begin = reinterpret_cast<const char*>(&text + 1);
  const std::size_t bytes = text.record.words * trace::kWordBytes - sizeof text;
  texts_[text.key].try_emplace(text.part, begin, bytes);
}

// The modules whose code asked the driver for its functions, as only a CUDA runtime does.
const std::set<const LoadedModule*>& Dictionary::runtimes() const {
  if (!runtimes_) {
    runtimes_.emplace();
    for (const std::uint64_t caller : requesters_) runtimes_->insert(module_of(caller));
  }
  return *runtimes_;
}

std::string_view Dictionary::function_of(const CallSite& site) const {
  const auto function = functions_.find(site.api);
  if (function == functions_.end()) return "unknown";
  if (site.from_table && !function->second.runtime_name.empty()) {
    const LoadedModule* module = module_of(site.caller);
    if (module != nullptr && runtimes().contains(module)) return function->second.runtime_name;
  }
  return function->second.symbol;
}

SiteName Dictionary::name_of(const CallSite& site) const {
  const LoadedModule* module = module_of(site.caller);
  if (module == nullptr) return {};
  return {function_of(site), module->identity.path, site.caller - module->base};
}

std::vector<std::string> Dictionary::lines(trace::TextKey key) const {
  std::vector<std::string> all;
  const auto found = texts_.find(key);
  if (found == texts_.end()) return all;
  for (const auto& [part, piece] : found->second) all.push_back(piece.substr(0, piece.find('\0')));
  return all;
}

std::string Dictionary::text(trace::TextKey key) const {
  const auto found = texts_.find(key);
  if (found == texts_.end()) return {};
  std::string whole;
  for (const auto& [part, piece] : found->second) whole += piece;
  while (!whole.empty() && whole.back() == '\0') whole.pop_back();
  return whole;
}

}  // namespace gpumemtrace::analyzer
