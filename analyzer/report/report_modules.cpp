// SPDX-License-Identifier: Apache-2.0
// The framework's peaks by the layers of the model that allocated their blocks.
#include "analyzer/report/category_sums.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/report/tensor_layer.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct LayerSums {
  Tally tally;
  CategorySums categories;

  void add(Category category, const Tally& more) {
    tally.merge(more);
    categories.add(category, more.bytes);
  }
};
// The layer's path by classes from the model on, and its name if that is known.
using SumsByLayers = std::map<std::pair<std::string, std::string>, LayerSums>;

// By the stack of each block; blocks that the program named by the layer that it gave.
SumsByLayers sum_by_layers(const ReportContext& context, const ReportProcess& process,
                           const Account& account) {
  SumsByLayers sums;
  const ProcessModel& model = process.model();
  Holders by_stack;
  if (account.peak.is_restored() || model.program().tensor_names().empty()) {
    by_stack = model.holders().at(account.peak, account.level, account.device);
  } else {
    for (const auto& [holder, tally] : model.holders().named_at(account.peak, account.device)) {
      const auto& [key, named] = holder;
      const TensorName first =
          named == 0 ? TensorName() : model.program().tensor_names().names(named).front();
      if (first.layer == 0) {
        by_stack[key].merge(tally);
        continue;
      }
      const Steps& texts = model.program().steps();
      sums[{texts.name_of(first.layer), layer_of_tensor(texts.name_of(first.name))}].add(
          key.guess.category, tally);
    }
  }
  for (const auto& [identity, tally] : context.tally(process, by_stack)) {
    sums[{identity.layers, {}}].add(identity.guess.category, tally);
  }
  return sums;
}

}  // namespace

std::vector<rows::Module> report_modules(const ReportContext& context) {
  std::vector<rows::Module> list;
  for (const ReportProcess& process : context.processes()) {
    const ProcessModel& model = process.model();
    for (const Account& account : model.accounts().accounts()) {
      if (account.level != Level::kFramework || !account.peak.happened()) continue;
      for (const auto& [layer, sums] : sum_by_layers(context, process, account)) {
        const auto& [path, name] = layer;
        list.push_back({{process.id, context.device_id(process, account.device)},
                        "peak",
                        rows::text_or_none(path),
                        rows::text_or_none(name),
                        sums.tally.bytes,
                        sums.tally.count,
                        sums.categories.row()});
      }
    }
  }
  sort_rows(list, &rows::Module::bytes);
  return list;
}

}  // namespace gpumemtrace::analyzer
