#include "api/display_json.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/base64.h"
#include "base/utf8.h"
#include "session/display_rules.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostDepth = 64;

std::optional<json::value> parse(const std::string& text) {
  json::parse_options options;
  options.max_depth = kMostDepth;
  boost::system::error_code failed;
  json::value value = json::parse(text, failed, {}, options);
  return failed ? std::nullopt : std::optional(std::move(value));
}

json::object mime_object(const wire::Display& display) {
  json::object result;
  for (const auto& [mime, data] : display.items) {
    const auto content = mime_content(mime);
    if (!content) continue;
    if (*content == MimeContent::binary) {
      result[mime] = base64_encode(data);
    } else if (*content == MimeContent::text) {
      result[mime] = data;
    } else if (auto value = parse(data)) {
      result[mime] = std::move(*value);
    }
  }
  return result;
}

std::string_view name_of(wire::VariableChange change) {
  switch (change) {
    case wire::VariableChange::created:
      return "created";
    case wire::VariableChange::changed:
      return "changed";
    case wire::VariableChange::removed:
      return "removed";
  }
  return "changed";
}

}  // namespace

std::string_view name_of(wire::DisplayKind kind) {
  switch (kind) {
    case wire::DisplayKind::display:
      return "display";
    case wire::DisplayKind::result:
      return "result";
    case wire::DisplayKind::update:
      return "display_update";
    case wire::DisplayKind::clear:
      return "clear_output";
  }
  return "display";
}

json::object display_object(const wire::Display& display) {
  auto metadata = parse(display.metadata);
  return {{"mime", mime_object(display)},
          {"metadata", metadata && metadata->is_object() ? std::move(*metadata) : json::value(json::object{})},
          {"id", display.id.empty() ? json::value(nullptr) : json::value(display.id)}};
}

FinalDisplays::FinalDisplays(const std::vector<wire::OutputEvent>& events) {
  bool clear_first = false;
  for (const auto& event : events) {
    if (!event.display) continue;
    const auto& display = *event.display;
    if (display.kind == wire::DisplayKind::clear) {
      if (!display.wait) displays.clear();
      clear_first = display.wait;
      continue;
    }
    if (std::exchange(clear_first, false)) displays.clear();
    if (display.kind == wire::DisplayKind::result) {
      result = &display;
    } else if (display.kind == wire::DisplayKind::display) {
      displays.push_back(&display);
    } else if (!display.id.empty()) {
      for (auto& one : displays) {
        if (one->id == display.id) one = &display;
      }
    }
  }
}

void FinalDisplays::add_to(json::object& run) const {
  run["result"] = result != nullptr ? json::value(display_object(*result)) : json::value(nullptr);
  json::array shown;
  for (const auto* display : displays) shown.push_back(display_object(*display));
  run["displays"] = std::move(shown);
}

std::optional<std::size_t> FinalDisplays::index_of(const wire::Display& display) const {
  const auto found = std::ranges::find(displays, &display);
  return found == displays.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - displays.begin()));
}

json::value changes_value(const std::optional<wire::Changes>& changes) {
  if (!changes) return nullptr;
  json::array variables;
  for (const auto& variable : changes->variables) {
    variables.push_back(json::object{{"name", clean_utf8(variable.name)},
                                     {"change", name_of(variable.change)},
                                     {"type", clean_utf8(variable.type)},
                                     {"summary", clean_utf8(variable.summary)}});
  }
  json::array packages;
  for (const auto& package : changes->packages) packages.emplace_back(clean_utf8(package));
  return json::object{
      {"variables", std::move(variables)},
      {"more", changes->more},
      {"cwd", changes->directory.empty() ? json::value(nullptr) : json::value(clean_utf8(changes->directory))},
      {"packages", std::move(packages)}};
}

}  // namespace hutch
