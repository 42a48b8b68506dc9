// SPDX-License-Identifier: Apache-2.0
#include "bench/results.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace gpumemtrace::bench {
namespace {

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json json = {
      {"what", row.what}, {"unit", row.unit}, {"measured", row.measured}};
  json["at_most"] = row.at_most ? nlohmann::ordered_json(*row.at_most) : nullptr;
  json["at_least"] = row.at_least ? nlohmann::ordered_json(*row.at_least) : nullptr;
  json["reached"] = nullptr;
  if (row.at_most) json["reached"] = row.measured <= *row.at_most;
  if (row.at_least) json["reached"] = row.measured >= *row.at_least;
  json["beside"] = row.beside;
  json["context"] = row.context;
  return json;
}

}  // namespace

void print_rows(const std::vector<Row>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Row& row : rows) json.push_back(to_json(row));
  std::printf("%s\n", json.dump(2).c_str());
}

void say(const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); }

}  // namespace gpumemtrace::bench
