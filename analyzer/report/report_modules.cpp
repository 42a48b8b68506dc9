// SPDX-License-Identifier: Apache-2.0
// The framework's peaks by the layers of the model that allocated their blocks.
#include "analyzer/report/category_sums.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct LayerSums {
  Tally tally;
  CategorySums categories;
};

}  // namespace

std::vector<rows::Module> report_modules(const ReportContext& context) {
  std::vector<rows::Module> list;
  for (const ReportProcess& process : context.processes()) {
    const ProcessModel& model = process.model();
    for (const Account& account : model.accounts().accounts()) {
      if (account.level != Level::kFramework || !account.peak.happened()) continue;
      std::map<std::string, LayerSums> by_layers;
      const Holders holders = model.holders_at(account.peak, account.level, account.device);
      for (const auto& [identity, tally] : context.tally(process, holders)) {
        LayerSums& sums = by_layers[identity.layers];
        sums.tally.merge(tally);
        sums.categories.add(identity.verdict.category, tally.bytes);
      }
      for (const auto& [layers, sums] : by_layers) {
        list.push_back({process.id, context.device_id(process, account.device), "peak",
                        rows::text_or_none(layers), std::nullopt, sums.tally.bytes,
                        sums.tally.count, sums.categories.row()});
      }
    }
  }
  sort_rows(list, &rows::Module::bytes);
  return list;
}

}  // namespace gpumemtrace::analyzer
