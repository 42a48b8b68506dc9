// SPDX-License-Identifier: Apache-2.0
#include "analyzer/text/names.hpp"

#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The file with its folder, enough to tell files apart: "models/block.py" of
// "/home/me/project/models/block.py".
std::string with_folder(const std::string& path) {
  const std::size_t name = path.rfind('/');
  if (name == std::string::npos || name == 0) return path;
  const std::size_t folder = path.rfind('/', name - 1);
  return folder == std::string::npos ? path : path.substr(folder + 1);
}

// The site's file and line, such as "block.py:12"; else its library; empty if neither is known.
std::string file_and_line(const rows::Site& site, const std::string& file) {
  if (!site.file) return std::string(base_name(site.module.value_or("")));
  return site.line ? file + ':' + std::to_string(*site.line) : file;
}

// The function that the site lies in, else the function of CUDA that it called; empty if neither is
// known.
std::string function_name(const rows::Site& site) {
  if (site.function) return short_function_name(*site.function);
  return site.api ? short_function_name(*site.api) : std::string();
}

// The site in short form, such as "train.py:12 (step)"; empty if nothing is known.
std::string short_name(const rows::Site& site) {
  const std::string line = file_and_line(site, std::string(base_name(site.file.value_or(""))));
  const std::string function = function_name(site);
  if (line.empty() || function.empty()) return line + function;
  return line + " (" + function + ')';
}

}  // namespace

std::string site_text(const std::optional<rows::Site>& site) {
  const std::string name = site ? short_name(*site) : std::string();
  return name.empty() ? "a place that is not known" : name;
}

std::string location_text(const rows::OptionalLocation& location,
                          const std::optional<rows::Site>& own) {
  const bool is_in_python = own && own->language == rows::Language::kPython;
  if (!location || (is_in_python && !location->site.file)) return {};
  const rows::Site& site = location->site;
  if (own && own->file && !site.file && !site.function) return {};
  return site_text(site);
}

std::string at_text(const std::string& location, bool is_partly) {
  return location.empty() ? location : (is_partly ? "some at " : "at ") + location;
}

std::string name_line(const rows::Origin& origin) {
  const std::string name = origin.site ? short_name(*origin.site) : std::string();
  return name.empty() ? origin.owner.value_or("owner not known") : name;
}

std::string name_holder(const rows::Origin& origin) {
  const rows::Site site = origin.site.value_or(rows::Site());
  const std::string function = function_name(site);
  std::string name = file_and_line(site, with_folder(site.file.value_or("")));
  if (!function.empty()) name += (name.empty() ? "" : " in ") + function;
  if (site.node && site.node != site.function && site.node != site.api) {
    name += ", backward of " + *site.node;
  }
  if (name.empty()) return origin.owner.value_or("owner not known");
  return origin.owner ? *origin.owner + " at " + name : name;
}

}  // namespace gpumemtrace::analyzer
