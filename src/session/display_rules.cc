#include "session/display_rules.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace hutch {
namespace {

constexpr std::size_t kMostId = 256;
constexpr std::size_t kMostMetadata = 64U << 10;
constexpr std::size_t kMostChanges = 100;
constexpr std::size_t kMostChangeText = 512;
constexpr std::size_t kMostDirectory = 4'096;

struct MimeType {
  std::string_view name;
  MimeContent content;
  std::array<std::string_view, 2> beginnings = {};  // of a file of this type
};

constexpr MimeType kTypes[] = {
    {"text/plain", MimeContent::text},
    {"text/html", MimeContent::text},
    {"text/markdown", MimeContent::text},
    {"text/latex", MimeContent::text},
    {"image/svg+xml", MimeContent::text},
    {"application/javascript", MimeContent::text},
    {"application/mathml+xml", MimeContent::text},
    {"image/png", MimeContent::binary, {"\x89PNG\r\n\x1a\n"}},
    {"image/jpeg", MimeContent::binary, {"\xff\xd8\xff"}},
    {"image/gif", MimeContent::binary, {"GIF87a", "GIF89a"}},
    {"image/webp", MimeContent::binary, {"RIFF"}},
    {"application/pdf", MimeContent::binary, {"%PDF-"}},
    {"application/json", MimeContent::json},
    {"application/geo+json", MimeContent::json},
    {"application/vnd.plotly.v1+json", MimeContent::json},
    {"application/vnd.vega.v5+json", MimeContent::json},
    {"application/vnd.vegalite.v4+json", MimeContent::json},
    {"application/vnd.vegalite.v5+json", MimeContent::json},
    {"application/vnd.vegalite.v6+json", MimeContent::json},
    {"application/vnd.bokehjs_load.v0+json", MimeContent::json},
    {"application/vnd.bokehjs_exec.v0+json", MimeContent::json},
    {"application/vnd.jupyter.widget-view+json", MimeContent::json},
    {"application/vnd.hutch.table+json", MimeContent::json},
    {"application/vnd.hutch.chart+json", MimeContent::json},
};

const MimeType* find(std::string_view mime) {
  const auto found = std::ranges::find(kTypes, mime, &MimeType::name);
  return found == std::end(kTypes) ? nullptr : found;
}

bool begins_as_it_should(const MimeType& type, std::string_view data) {
  return std::ranges::any_of(type.beginnings,
                             [&](std::string_view one) { return !one.empty() && data.starts_with(one); });
}

// The bytes that a text grows by as JSON, where each control character may take six.
std::size_t escapes_of(std::string_view text) {
  std::size_t bytes = 0;
  for (const char c : text) {
    const bool quoted = c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t';
    const bool control = static_cast<unsigned char>(c) < 0x20;
    bytes += quoted ? 1 : control ? 5 : 0;
  }
  return bytes;
}

}  // namespace

std::optional<MimeContent> mime_content(std::string_view mime) {
  const MimeType* type = find(mime);
  return type != nullptr ? std::optional(type->content) : std::nullopt;
}

bool tidy_display(wire::Display& display) {
  display.id = clean_utf8(display.id).substr(0, kMostId);
  display.id.resize(complete_utf8_prefix(display.id));
  if (display.metadata.size() > kMostMetadata || !is_utf8(display.metadata)) display.metadata.clear();
  std::set<std::string_view> seen;
  std::erase_if(display.items, [&](auto& item) {
    const MimeType* type = find(item.first);
    if (type == nullptr || !seen.insert(type->name).second) return true;
    if (type->content == MimeContent::binary) return !begins_as_it_should(*type, item.second);
    if (type->content == MimeContent::json) return !is_utf8(item.second);
    if (!is_utf8(item.second)) item.second = clean_utf8(item.second);
    return false;
  });
  return display.kind == wire::DisplayKind::clear || !display.items.empty();
}

wire::Changes tidy_changes(wire::Changes changes) {
  const auto cut = [](std::string& text, std::size_t most) {
    if (text.size() > most) text.resize(most);
  };
  changes.more = changes.more || changes.variables.size() > kMostChanges;
  if (changes.variables.size() > kMostChanges) changes.variables.resize(kMostChanges);
  if (changes.packages.size() > kMostChanges) changes.packages.resize(kMostChanges);
  for (auto& variable : changes.variables) {
    for (auto* text : {&variable.name, &variable.type, &variable.summary}) cut(*text, kMostChangeText);
  }
  for (auto& package : changes.packages) cut(package, kMostChangeText);
  cut(changes.directory, kMostDirectory);
  return changes;
}

std::size_t weight(const wire::Display& display) {
  std::size_t bytes = sizeof(display) + display.id.size() + display.metadata.size();
  for (const auto& [mime, data] : display.items) bytes += mime.size() + data.size();
  return bytes;
}

std::size_t weight_in_json(const wire::Display& display) {
  std::size_t bytes = weight(display);
  for (const auto& [mime, data] : display.items) {
    if (mime_content(mime) == MimeContent::text) bytes += escapes_of(data);
  }
  return bytes;
}

std::string_view plain_text(const wire::Display& display) {
  for (const auto& [mime, data] : display.items) {
    if (mime == "text/plain") return data;
  }
  return "";
}

bool DisplayBudget::take(const wire::Display& display) {
  constexpr DisplayCaps kCaps;
  if (left_out_ > 0) {
    ++left_out_;
    return false;
  }
  bytes_ += weight_in_json(display) * places_of(display);
  if (++count_ <= kCaps.count && bytes_ <= kCaps.total.count) return true;
  left_out_ = 1;
  return false;
}

// Where it stands at the end, by the rules of FinalDisplays.
std::size_t DisplayBudget::places_of(const wire::Display& display) {
  if (display.kind == wire::DisplayKind::clear) {
    if (!display.wait) shown_.clear();
    clear_first_ = display.wait;
    return 1;
  }
  if (std::exchange(clear_first_, false)) shown_.clear();
  if (display.id.empty()) return 1;
  if (display.kind == wire::DisplayKind::display) ++shown_[display.id];
  const auto found = display.kind == wire::DisplayKind::update ? shown_.find(display.id) : shown_.end();
  return found == shown_.end() ? 1 : found->second;
}

}  // namespace hutch
