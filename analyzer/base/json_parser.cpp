// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/json_parser.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

namespace gpumemtrace::analyzer {
namespace {

using Library = nlohmann::json;

constexpr std::size_t kMostLevels = 500;

// Removes the part in brackets from the JSON library's errors, which tells users nothing:
// "[json.exception.parse_error.101] parse error at line 1".
std::string without_mark(const std::string& text) {
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

// Passes the JSON library's callbacks on to the receiver.
class Forwarder {
 public:
  using number_integer_t = Library::number_integer_t;
  using number_unsigned_t = Library::number_unsigned_t;
  using number_float_t = Library::number_float_t;
  using string_t = Library::string_t;
  using binary_t = Library::binary_t;

  explicit Forwarder(JsonReceiver& receiver) : receiver_(receiver) {}

  bool null() { return add({}); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t&) { return add(value); }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return false; }  // JSON text has no binary values
  bool start_object(std::size_t) {
    enter();
    receiver_.open_object();
    return true;
  }
  bool start_array(std::size_t) {
    enter();
    receiver_.open_list();
    return true;
  }
  bool key(string_t& name) {
    receiver_.key(std::move(name));
    return true;
  }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  [[noreturn]] bool parse_error(std::size_t, const std::string&, const Library::exception& error) {
    throw JsonError(without_mark(error.what()));
  }

 private:
  bool add(JsonScalar value) {
    receiver_.scalar(std::move(value));
    return true;
  }
  void enter() {
    if (++levels_ > kMostLevels) throw JsonError("it is nested too deeply");
  }
  bool leave() {
    --levels_;
    receiver_.close();
    return true;
  }

  JsonReceiver& receiver_;
  std::size_t levels_ = 0;
};

}  // namespace

void parse_json(std::string_view text, JsonReceiver& receiver) {
  Forwarder forwarder(receiver);
  Library::sax_parse(text, &forwarder);
}

}  // namespace gpumemtrace::analyzer
