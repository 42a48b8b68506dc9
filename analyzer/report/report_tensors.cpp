// SPDX-License-Identifier: Apache-2.0
// The framework's peaks by named tensors, and by the layers of the model that allocated their
// blocks.
#include <array>

#include "analyzer/report/category_sums.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxTensors = 100;  // the most rows of tensors[] for each process and device
constexpr std::size_t kMaxOtherNames = 15;

// Fills in the names and sizes of a tensor; `row` has only its process and device.
rows::Tensor describe(rows::Tensor row, const Steps& texts, const std::vector<TensorName>& names,
                      const Tally& tally) {
  const TensorName& first = names.front();
  const std::string name = texts.name_of(first.name);
  row.name = rows::text_or_none(name);
  row.role = name_of(category_of(first.role));
  row.state = rows::text_or_none(texts.name_of(first.state));
  row.layer = rows::text_or_none(layer_of_tensor(name));
  row.path = rows::text_or_none(texts.name_of(first.layer));
  row.bytes = tally.bytes;
  row.requested_bytes = first.bytes * tally.count;
  row.count = tally.count;
  for (std::size_t i = 1; i < names.size() && row.other_names.size() < kMaxOtherNames; ++i) {
    row.other_names.push_back(texts.name_of(names[i].name));
  }
  row.names = names.size();
  return row;
}

// Adds the row to the sum of all tensors that get no rows of their own.
void add_to_rest(rows::Tensor& rest, const rows::Tensor& row) {
  rest.bytes += row.bytes;
  rest.count += row.count;
  rest.names += row.names;
  rest.requested_bytes = rest.requested_bytes.value_or(0) + row.requested_bytes.value_or(0);
}

class PeakTensors {
 public:
  PeakTensors(const ReportContext& context, const ReportProcess& process, const Account& account)
      : texts_(process.model().program().steps()),
        names_(process.model().program().tensor_names()),
        blank_(context.row_on<rows::Tensor>(process, account.device)) {
    std::map<std::uint32_t, Tally> by_names;
    for (const auto& [holder, tally] :
         process.model().holders().named_at(account.peak, account.device)) {
      by_names[holder.second].merge(tally);
    }
    for (const auto& [number, tally] : by_names) add(number, tally);
  }

  // The largest named tensors, then for each role one row for the others, then one for unnamed
  // blocks.
  [[nodiscard]] std::vector<rows::Tensor> rows() {
    sort_rows(tensors_, &rows::Tensor::bytes);
    std::vector<rows::Tensor> list;
    std::map<std::string, rows::Tensor> rests;
    for (rows::Tensor& row : tensors_) {
      if (list.size() < kMaxTensors) {
        list.push_back(std::move(row));
        continue;
      }
      rows::Tensor& rest = rests.try_emplace(*row.role, blank_).first->second;
      rest.role = row.role;
      add_to_rest(rest, row);
    }
    for (auto& [role, rest] : rests) list.push_back(std::move(rest));
    if (unnamed_.count != 0) list.push_back(std::move(unnamed_));
    return list;
  }

 private:
  void add(std::uint32_t number, const Tally& tally) {
    if (number == 0) {
      unnamed_ = blank_;
      unnamed_.bytes = tally.bytes;
      unnamed_.count = tally.count;
      return;
    }
    tensors_.push_back(describe(blank_, texts_, names_.names(number), tally));
  }

  const Steps& texts_;
  const TensorNames& names_;
  rows::Tensor blank_;
  rows::Tensor unnamed_;
  std::vector<rows::Tensor> tensors_;
};

}  // namespace

std::vector<rows::Tensor> report_tensors(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Tensor>& list) {
    const ProcessModel& model = process.model();
    if (model.program().tensor_names().empty()) return;
    for (const Account& account : model.accounts().accounts()) {
      const bool has_blocks = account.level == Level::kFramework && account.peak.happened();
      if (!has_blocks || account.peak.is_restored()) continue;
      for (rows::Tensor& row : PeakTensors(context, process, account).rows()) {
        list.push_back(std::move(row));
      }
    }
  };
  return context.gather<rows::Tensor>(add_rows);
}

namespace {

struct LayerSums {
  Tally tally;
  CategorySums categories;

  void add(Category category, const Tally& more) {
    tally.merge(more);
    categories.add(category, more.bytes);
  }
};
// Sums by path (the classes of the modules from the model down to the layer) and name of the layer;
// the name is empty if it is not known.
using SumsByLayers = std::map<std::pair<std::string, std::string>, LayerSums>;

// Sums the blocks at the peak by layer: the layer that the program gave with a tensor's name, else
// the one that the block's stack shows.
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
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Module>& list) {
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
  };
  return context.gather<rows::Module>(add_rows);
}

}  // namespace gpumemtrace::analyzer
