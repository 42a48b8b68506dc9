// SPDX-License-Identifier: Apache-2.0
// The holders of live memory, for a job that goes on.
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {

std::vector<rows::BlockAt> report_live_memory(const ReportContext& context) {
  std::vector<rows::BlockAt> list;
  for (const ReportProcess& process : context.processes()) {
    const ProcessModel& model = process.model();
    const std::uint64_t now_ns = process.known_time_ns(model.statistics().last_time);
    for (const Account& account : model.accounts().accounts()) {
      if (account.level == Level::kMapping) continue;
      const Holders holders =
          model.holders().at(PeakSnapshot::now(), account.level, account.device);
      for (const auto& [holder, tally] : holders) {
        const Identity identity = context.identity_of(process, holder);
        auto row = context.row_on<rows::BlockAt>(process, account.device);
        row.level = account.level;
        row.bytes = tally.bytes;
        row.start_ns = process.known_time_ns(tally.first_time);
        row.category = holder.guess.category;
        row.category_confidence = holder.guess.confidence;
        row.layers = rows::text_or_none(identity.layers);
        row.origin = origin_of(identity);
        row.at = rows::BlocksAt::kTime;
        row.time_ns = now_ns;
        list.push_back(std::move(row));
      }
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
