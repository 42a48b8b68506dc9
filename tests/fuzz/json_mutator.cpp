// SPDX-License-Identifier: Apache-2.0
// Changes one value of a JSON document, so that mutations get behind the parser: another type,
// another number, a key less, a row more. Every fourth time the bytes themselves are changed.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using Json = nlohmann::ordered_json;

void collect(Json& node, std::vector<Json*>& nodes) {
  nodes.push_back(&node);
  if (!node.is_structured()) return;
  for (Json& child : node) collect(child, nodes);
}

Json other_value(std::mt19937_64& random) {
  switch (random() % 10) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return random() % 1000;
    case 3:
      return ~std::uint64_t{0} >> random() % 64;
    case 4:
      return -static_cast<std::int64_t>(random() % 1000);
    case 5:
      return std::bit_cast<double>(random());
    case 6:
      return std::string(random() % 64, static_cast<char>(random()));
    case 7:
      return Json::array();
    case 8:
      return Json::object();
    default:
      return 1e300;
  }
}

void change(Json& document, std::mt19937_64& random) {
  std::vector<Json*> nodes;
  collect(document, nodes);
  Json& node = *nodes[random() % nodes.size()];
  const bool has_rows = node.is_structured() && !node.empty();
  switch (random() % 4) {
    case 0:
      if (has_rows)
        node.erase(std::next(node.begin(), static_cast<std::ptrdiff_t>(random() % node.size())));
      break;
    case 1:
      if (node.is_array() && !node.empty()) node.push_back(Json(node[random() % node.size()]));
      break;
    case 2:
      node = Json(*nodes[random() % nodes.size()]);
      break;
    default:
      node = other_value(random);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  std::mt19937_64 random(seed);
  Json document = Json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) change(document, random);
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_size) return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
