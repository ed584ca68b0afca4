#include "api/notebook.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "api/notebook_text.h"
#include "base/id.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMajor = 4;
constexpr std::int64_t kMinor = 5;
constexpr std::size_t kLongestId = 64;

Error refusal(std::string message) { return make_error(ErrorCode::invalid_argument, std::move(message)); }

Error broken_json(std::string_view text, std::size_t at, const boost::system::error_code& failed) {
  const auto line = 1 + std::ranges::count(text.substr(0, std::min(at, text.size())), '\n');
  const std::string_view rest = text.substr(std::min(at, text.size()));
  Error error = refusal(fmt::format("not a notebook: line {} is not valid JSON: {}", line, failed.message()));
  if (failed == json::error::too_deep) {
    return refusal(fmt::format("the notebook is nested more than {} deep, at line {}", kMostNotebookDepth, line));
  }
  if (rest.starts_with("NaN") || rest.starts_with("Inf") || rest.starts_with("-Inf")) {
    return std::move(error).with_hint("NaN and Infinity are not JSON; clear the notebook's outputs, which hold them");
  }
  return error;
}

Result<std::int64_t> number_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_int64()) {
    return refusal(fmt::format("not a notebook: {} is not a whole number", name));
  }
  return value->get_int64();
}

Result<void> check_version(const json::object& document) {
  HUTCH_TRY(const auto major, number_of(document, "nbformat"));
  if (major < kMajor) {
    return refusal(fmt::format("the notebook is in format {}, and only 4.0 to 4.5 can be read", major))
        .with_hint("convert it first: jupyter nbconvert --to notebook --nbformat 4 NOTEBOOK.ipynb");
  }
  HUTCH_TRY(const auto minor, number_of(document, "nbformat_minor"));
  if (major > kMajor || minor < 0 || minor > kMinor) {
    return refusal(fmt::format("the notebook is in format {}.{}, and only 4.0 to 4.5 can be read", major, minor))
        .with_hint("save it with an older Jupyter, or with a format of at most 4.5");
  }
  return {};
}

// An object that may be missing, and is put in its place then.
bool has_object(json::object& in, std::string_view name) {
  auto& value = in[name];
  if (value.is_null()) value = json::object{};
  return value.is_object();
}

Result<void> check_code(json::object& cell, const std::string& where) {
  auto& outputs = cell["outputs"];
  if (outputs.is_null()) outputs = json::array{};
  if (!outputs.is_array()) return refusal(where + ": outputs is not an array");
  for (const auto& output : outputs.get_array()) {
    const auto* type = output.is_object() ? output.get_object().if_contains("output_type") : nullptr;
    if (type == nullptr || !type->is_string()) return refusal(where + ": an output has no output_type");
  }
  const auto& count = cell["execution_count"];
  if (!count.is_null() && !(count.is_int64() && count.get_int64() >= 0)) {
    return refusal(where + ": execution_count is neither a whole number nor null");
  }
  return {};
}

Result<void> check_cell(json::value& value, std::size_t index) {
  const std::string where = fmt::format("not a notebook: cell {}", index + 1);
  auto* cell = value.if_object();
  if (cell == nullptr) return refusal(where + " is not an object");
  const auto* type = cell->if_contains("cell_type");
  if (type == nullptr || !type->is_string()) return refusal(where + " has no cell_type");
  const std::string name(type->get_string());  // a copy: what is added below moves everything
  if (name != "code" && name != "markdown" && name != "raw") {
    return refusal(where + " has the unknown cell_type " + printable(name.substr(0, 40)));
  }
  const auto* source = cell->if_contains("source");
  std::string text;
  if (source == nullptr || !join_lines(*source, text)) {
    return refusal(where + ": source is neither a text nor a list of lines");
  }
  if (!has_object(*cell, "metadata")) return refusal(where + ": metadata is not an object");
  if (name == "code") HUTCH_TRY(check_code(*cell, where));
  (*cell)["source"] = lines_of(text);
  return {};
}

bool is_good_id(const json::value& value) {
  const auto* id = value.if_string();
  return id != nullptr && !id->empty() && id->size() <= kLongestId && std::ranges::all_of(*id, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

std::string new_id() { return random_id("").substr(1, 16); }

std::string text_at(const json::object& document, std::string_view object, std::string_view name) {
  const auto* metadata = document.if_contains("metadata");
  const auto* inner =
      metadata != nullptr && metadata->is_object() ? metadata->get_object().if_contains(object) : nullptr;
  const auto* value = inner != nullptr && inner->is_object() ? inner->get_object().if_contains(name) : nullptr;
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

}  // namespace

Result<Notebook> Notebook::read(std::string_view text) {
  if (text.size() > kMostNotebookBytes) {
    return refusal(fmt::format("the notebook is larger than {} MiB", kMostNotebookBytes >> 20))
        .with_hint("clear its outputs first");
  }
  json::parse_options options;
  options.max_depth = kMostNotebookDepth;
  json::parser parser({}, options);
  boost::system::error_code failed;
  const std::size_t read = parser.write_some(text.data(), text.size(), failed);
  if (!failed && read < text.size()) failed = json::error::extra_data;
  if (failed) return broken_json(text, read, failed);
  json::value value = parser.release();
  if (!value.is_object()) return refusal("not a notebook: it is not a JSON object");
  return from_document(std::move(value.get_object()));
}

Result<Notebook> Notebook::from_document(json::object document) {
  HUTCH_TRY(check_version(document));
  if (!has_object(document, "metadata")) return refusal("not a notebook: metadata is not an object");
  auto* cells = document.if_contains("cells");
  if (cells == nullptr || !cells->is_array()) return refusal("not a notebook: it has no list of cells");
  if (cells->get_array().size() > kMostCells) {
    return refusal(fmt::format("the notebook has more than {} cells", kMostCells));
  }
  for (std::size_t i = 0; i < cells->get_array().size(); ++i) HUTCH_TRY(check_cell(cells->get_array()[i], i));
  document["nbformat_minor"] = kMinor;
  Notebook notebook(std::move(document));
  notebook.complete_ids();
  return notebook;
}

Notebook Notebook::make() {
  return Notebook(json::object{
      {"cells", json::array{}},
      {"metadata",
       json::object{
           {"kernelspec", json::object{{"display_name", "Python 3"}, {"language", "python"}, {"name", "python3"}}},
           {"language_info", json::object{{"name", "python"}, {"file_extension", ".py"}}}}},
      {"nbformat", kMajor},
      {"nbformat_minor", kMinor}});
}

void Notebook::complete_ids() {
  std::set<std::string, std::less<>> seen;
  for (auto& cell : cells()) {
    auto& id = (*cell.if_object())["id"];
    if (!is_good_id(id) || !seen.insert(std::string(id.get_string())).second) id = new_id();
  }
}

std::string_view Notebook::type(std::size_t index) const { return cell(index).find("cell_type")->value().get_string(); }

std::string Notebook::source(std::size_t index) const {
  std::string text;
  join_lines(cell(index).find("source")->value(), text);
  return text;
}

bool Notebook::has_tag(std::size_t index, std::string_view tag) const {
  const auto& metadata = cell(index).find("metadata")->value().get_object();
  const auto* tags = metadata.if_contains("tags");
  if (tags == nullptr || !tags->is_array()) return false;
  return std::ranges::any_of(tags->get_array(), [&](const json::value& one) {
    return one.is_string() && std::string_view(one.get_string()) == tag;
  });
}

std::string Notebook::language() const {
  std::string name = text_at(document_, "language_info", "name");
  if (name.empty()) name = text_at(document_, "kernelspec", "language");
  if (name.empty() || name == "ipython") return "python";
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name;
}

std::string Notebook::title() const {
  const auto& metadata = document_.find("metadata")->value().get_object();
  const auto* title = metadata.if_contains("title");
  return title != nullptr && title->is_string() ? std::string(title->get_string()) : "";
}

void Notebook::insert(std::size_t index, const CodeCell& made) {
  json::object metadata;
  if (!made.tag.empty()) metadata["tags"] = json::array{json::value(made.tag)};
  json::object cell{{"cell_type", "code"},
                    {"execution_count", nullptr},
                    {"id", made.id.empty() ? new_id() : made.id},
                    {"metadata", std::move(metadata)},
                    {"outputs", json::array{}},
                    {"source", lines_of(made.source)}};
  cells().insert(cells().begin() + static_cast<std::ptrdiff_t>(index), std::move(cell));
}

void Notebook::set_outputs(std::size_t index, json::array outputs, std::uint32_t execution_count) {
  auto& cell = cells()[index].get_object();
  cell["outputs"] = std::move(outputs);
  cell["execution_count"] = execution_count == 0 ? json::value(nullptr) : json::value(execution_count);
}

std::string Notebook::text() const { return notebook_text(document_); }

}  // namespace hutch
