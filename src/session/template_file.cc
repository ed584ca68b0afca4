#include "session/template_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "session/template_requirement.h"
#include "session/toml.h"

namespace hutch {

namespace {

constexpr std::size_t kLargestFile = 256 * 1024;
constexpr std::size_t kMostEntries = 500;

// One TOML table being read: keeps where we are for the messages.
class Reader {
 public:
  Reader(const toml::table& table, std::string_view origin) : table_(table), origin_(origin) {}

  [[nodiscard]] Error fault(const toml::node& node, std::string_view what) const {
    return at(node.source().begin.line, what);
  }
  [[nodiscard]] Error at(std::uint32_t line, std::string_view what) const {
    return make_error(ErrorCode::invalid_argument, fmt::format("{}:{}: {}", origin_, line, what));
  }

  Result<void> only(std::span<const std::string_view> known) const {
    for (const auto& [key, node] : table_) {
      if (std::ranges::find(known, key.str()) != known.end()) continue;
      return at(key.source().begin.line,
                fmt::format("unknown key '{}' (known keys: {})", key.str(), fmt::join(known, ", ")));
    }
    return {};
  }

  Result<void> text(std::string_view key, std::string& value) const {
    const auto* node = table_.get(key);
    if (node == nullptr) return {};
    const auto* found = node->as_string();
    if (found == nullptr) return fault(*node, fmt::format("'{}' must be a string", key));
    value = found->get();
    return {};
  }

  // A list of strings, each of which `check` accepts.
  Result<void> texts(std::string_view key, Result<void> (*check)(std::string_view),
                     std::vector<std::string>& values) const {
    const auto* node = table_.get(key);
    if (node == nullptr) return {};
    const auto* list = node->as_array();
    if (list == nullptr) return fault(*node, fmt::format("'{}' must be a list of strings", key));
    if (list->size() > kMostEntries)
      return fault(*node, fmt::format("'{}' has more than {} entries", key, kMostEntries));
    values.clear();
    for (const auto& item : *list) {
      const auto* found = item.as_string();
      if (found == nullptr) return fault(item, fmt::format("'{}' must be a list of strings", key));
      if (auto good = check(found->get()); !good) {
        return fault(item, good.error().message).with_hint(good.error().hint);
      }
      values.push_back(found->get());
    }
    return {};
  }

  Result<void> variables(std::string_view key, Variables& values) const {
    const auto* node = table_.get(key);
    if (node == nullptr) return {};
    const auto* found = node->as_table();
    if (found == nullptr) return fault(*node, fmt::format("'{}' must be a table of strings", key));
    for (const auto& [name, item] : *found) {  // toml++ keeps tables sorted by key
      const auto* value = item.as_string();
      if (value == nullptr) return fault(item, fmt::format("{} must be a string", name.str()));
      if (auto good = check_variable(name.str(), value->get()); !good) return fault(item, good.error().message);
      values.emplace_back(name.str(), value->get());
    }
    return {};
  }

  Result<void> count(std::string_view key, std::uint64_t& value) const {
    const auto* node = table_.get(key);
    if (node == nullptr) return {};
    const auto* found = node->as_integer();
    if (found == nullptr || found->get() < 0) return fault(*node, fmt::format("'{}' must be a number", key));
    value = static_cast<std::uint64_t>(found->get());
    return {};
  }

  [[nodiscard]] std::uint32_t line_of(std::string_view key) const {
    const auto* node = table_.get(key);
    return node == nullptr ? 1 : node->source().begin.line;
  }

 private:
  const toml::table& table_;
  std::string_view origin_;
};

Result<toml::table> parse(std::string_view text, std::string_view origin) {
  if (text.size() > kLargestFile) {
    return make_error(ErrorCode::limit, fmt::format("{}: larger than {} KiB", origin, kLargestFile / 1024));
  }
  auto parsed = toml::parse(text);
  if (!parsed) {
    return make_error(ErrorCode::invalid_argument, fmt::format("{}:{}: {}", origin, parsed.error().source().begin.line,
                                                               parsed.error().description()));
  }
  return std::move(parsed).table();
}

Result<void> anything(std::string_view /*text*/) { return {}; }

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

Result<TemplateFile> parse_template_file(std::string_view name, std::string_view text, std::string_view origin) {
  static constexpr std::array<std::string_view, 6> kKeys = {"description", "environment", "interpreter",
                                                            "packages",    "preload",     "python"};
  HUTCH_TRY(check_template_name(name));
  HUTCH_TRY(const auto table, parse(text, origin));
  const Reader reader(table, origin);
  HUTCH_TRY(reader.only(kKeys));
  TemplateFile file;
  file.name = name;
  file.origin = origin;
  HUTCH_TRY(reader.text("description", file.description));
  HUTCH_TRY(reader.text("interpreter", file.interpreter));
  HUTCH_TRY(reader.text("python", file.python));
  HUTCH_TRY(reader.texts("packages", check_requirement, file.packages));
  HUTCH_TRY(reader.texts("preload", check_module, file.preload));
  HUTCH_TRY(reader.variables("environment", file.environment));
  if (file.interpreter.empty() || (!file.interpreter.starts_with('/') && file.interpreter.contains('/'))) {
    return reader.at(reader.line_of("interpreter"), "'interpreter' must be an absolute path or a plain name");
  }
  if (auto met = python_meets({}, file.python); !met) {
    return reader.at(reader.line_of("python"), met.error().message).with_hint(met.error().hint);
  }
  return file;
}

std::string format_manifest(const TemplateManifest& manifest) {
  std::string text = "# Written by `hutch template build`.\n";
  text += fmt::format("fingerprint = {}\n", quote(manifest.fingerprint));
  text += fmt::format("built_at = {}\n", quote(manifest.built_at));
  text += fmt::format("size = {}\n", manifest.size.count);
  text += fmt::format("cjk_font = {}\n", quote(manifest.cjk_font));
  text += "packages = [\n";
  for (const auto& package : manifest.packages) text += fmt::format("  {},\n", quote(package));
  text += "]\n\n[environment]\n";
  for (const auto& [name, value] : manifest.environment) text += fmt::format("{} = {}\n", name, quote(value));
  return text;
}

Result<TemplateManifest> parse_manifest(std::string_view text, std::string_view origin) {
  HUTCH_TRY(const auto table, parse(text, origin));
  const Reader reader(table, origin);
  TemplateManifest manifest;
  HUTCH_TRY(reader.text("fingerprint", manifest.fingerprint));
  HUTCH_TRY(reader.text("built_at", manifest.built_at));
  HUTCH_TRY(reader.count("size", manifest.size.count));
  HUTCH_TRY(reader.text("cjk_font", manifest.cjk_font));
  HUTCH_TRY(reader.texts("packages", anything, manifest.packages));
  HUTCH_TRY(reader.variables("environment", manifest.environment));
  if (manifest.fingerprint.empty()) return reader.at(1, "'fingerprint' is missing");
  return manifest;
}

}  // namespace hutch
