#include "api/notebook_markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <optional>

#include "api/notebook_text.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kFarthest = 2'000;  // bytes from the beginning of a mark to its end
constexpr int kMostNested = 8;

constexpr std::array<std::string_view, 5> kPictures{"image/png", "image/jpeg", "image/gif", "image/webp",
                                                    "image/svg+xml"};

bool is_base64(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '/' ||
           c == '=';
  });
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Where `mark` comes next, at most so far away that looking for it stays cheap.
std::optional<std::size_t> find_near(std::string_view text, std::string_view mark, std::size_t from) {
  const std::size_t found = text.substr(0, from + kFarthest).find(mark, from);
  return found == std::string_view::npos ? std::nullopt : std::optional(found);
}

class Inline {
 public:
  Inline(const json::object* attachments, std::string& html) : attachments_(attachments), html_(html) {}

  void write(std::string_view text, int depth = 0) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t taken = depth < kMostNested ? mark(text, at, depth) : 0;
      if (taken == 0) html_ += escape_html(text.substr(at, 1));
      at += std::max<std::size_t>(taken, 1);
    }
  }

 private:
  // How many bytes a mark that begins here takes; 0 when there is none.
  std::size_t mark(std::string_view text, std::size_t at, int depth) {
    switch (text[at]) {
      case '\\':
        if (at + 1 == text.size() || is_word(text[at + 1]) || static_cast<unsigned char>(text[at + 1]) >= 0x80)
          return 0;
        html_ += escape_html(text.substr(at + 1, 1));
        return 2;
      case '`':
        return code(text, at);
      case '*':
      case '_':
        return emphasis(text, at, depth);
      case '!':
        return text.substr(at).starts_with("![") ? picture(text, at) : 0;
      case '[':
        return link(text, at, depth);
      default:
        return 0;
    }
  }

  std::size_t code(std::string_view text, std::size_t at) {
    const std::size_t ticks = std::min(text.find_first_not_of('`', at), text.size()) - at;
    const auto end = find_near(text, text.substr(at, ticks), at + ticks);
    if (!end) return 0;
    html_ += "<code>" + escape_html(trim(text.substr(at + ticks, *end - at - ticks))) + "</code>";
    return *end + ticks - at;
  }

  std::size_t emphasis(std::string_view text, std::size_t at, int depth) {
    const bool strong = at + 1 < text.size() && text[at + 1] == text[at];
    const std::size_t size = strong ? 2 : 1;
    const auto end = find_near(text, text.substr(at, size), at + size);
    if (!end || *end == at + size) return 0;
    const char first = text[at + size];
    const char last = text[*end - 1];
    if (first == ' ' || first == '\n' || last == ' ' || last == '\n') return 0;
    const bool inside = (at > 0 && is_word(text[at - 1])) || (*end + size < text.size() && is_word(text[*end + size]));
    if (text[at] == '_' && inside) return 0;  // a name like this_one
    html_ += strong ? "<strong>" : "<em>";
    write(text.substr(at + size, *end - at - size), depth + 1);
    html_ += strong ? "</strong>" : "</em>";
    return *end + size - at;
  }

  struct Target {
    std::string_view text, address;
    std::size_t end = 0;
  };

  static std::optional<Target> target(std::string_view text, std::size_t at) {
    const auto middle = find_near(text, "](", at);
    if (!middle) return std::nullopt;
    const auto end = find_near(text, ")", *middle);
    if (!end) return std::nullopt;
    std::string_view address = trim(text.substr(*middle + 2, *end - *middle - 2));
    address = address.substr(0, address.find_first_of(" \n"));  // without a title
    return Target{.text = text.substr(at + 1, *middle - at - 1), .address = address, .end = *end + 1};
  }

  std::size_t link(std::string_view text, std::size_t at, int depth) {
    const auto found = target(text, at);
    if (!found || !(found->address.starts_with("https://") || found->address.starts_with("http://"))) return 0;
    html_ += "<a rel=\"noopener noreferrer nofollow\" href=\"" + escape_html(found->address) + "\">";
    write(found->text, depth + 1);
    html_ += "</a>";
    return found->end - at;
  }

  std::size_t picture(std::string_view text, std::size_t at) {
    constexpr std::string_view kAttached = "attachment:";
    const auto found = target(text, at + 1);
    if (!found || attachments_ == nullptr || !found->address.starts_with(kAttached)) return 0;
    const auto* bundle = attachments_->if_contains(found->address.substr(kAttached.size()));
    if (bundle == nullptr || !bundle->is_object()) return 0;
    for (const auto& [mime, value] : bundle->get_object()) {
      std::string data;
      if (!join_lines(value, data)) continue;
      std::erase(data, '\n');
      const std::string shown = picture_html(mime, data, found->text);
      if (shown.empty()) continue;
      html_ += shown;
      return found->end - at;
    }
    return 0;
  }

  const json::object* attachments_;
  std::string& html_;
};

// One line after the other; what belongs together is collected until something else begins.
class Blocks {
 public:
  explicit Blocks(const json::object* attachments) : inline_(attachments, html_) {}

  std::string write(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!fence_.empty()) end_code();
    close();
    return std::move(html_);
  }

 private:
  enum class Kind { none, paragraph, list, numbers, quote, table };

  void line(std::string_view raw) {
    const std::string_view text = trim(raw);
    if (!fence_.empty()) {
      if (text.starts_with(fence_)) return end_code();
      held_ += std::string(raw) + "\n";
      return;
    }
    if (text.empty()) return close();
    if (text.starts_with("```") || text.starts_with("~~~")) {
      close();
      fence_ = text.substr(0, 3);
      return;
    }
    if (heading(text) || rule(text) || item(text)) return;
    if (text.front() == '>') return hold(Kind::quote, trim(text.substr(1)));
    if (text.front() == '|') return hold(Kind::table, text);
    if (kind_ == Kind::list || kind_ == Kind::numbers) return hold(kind_, text);
    hold(Kind::paragraph, text);
  }

  bool heading(std::string_view text) {
    const std::size_t level = text.find_first_not_of('#');
    if (level == 0 || level > 6 || level == std::string_view::npos || text[level] != ' ') return false;
    close();
    html_ += fmt::format("<h{}>", level);
    inline_.write(trim(text.substr(level)));
    html_ += fmt::format("</h{}>\n", level);
    return true;
  }

  bool rule(std::string_view text) {
    if (text.size() < 3 || (text.front() != '-' && text.front() != '*' && text.front() != '_')) return false;
    if (text.find_first_not_of(text.substr(0, 1)) != std::string_view::npos) return false;
    close();
    html_ += "<hr>\n";
    return true;
  }

  bool item(std::string_view text) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const bool number = digits > 0 && digits < 10 && text.substr(digits).starts_with(". ");
    const bool bullet = text.starts_with("- ") || text.starts_with("* ") || text.starts_with("+ ");
    if (!number && !bullet) return false;
    const Kind kind = number ? Kind::numbers : Kind::list;
    if (kind_ != kind) close();
    end_item();
    if (kind_ == Kind::none) html_ += number ? "<ol>\n" : "<ul>\n";
    kind_ = kind;
    held_ = trim(text.substr(number ? digits + 2 : 2));
    return true;
  }

  void hold(Kind kind, std::string_view text) {
    if (kind_ != kind) close();
    kind_ = kind;
    if (!held_.empty()) held_ += '\n';
    held_ += text;
  }

  void end_item() {
    if (held_.empty() || (kind_ != Kind::list && kind_ != Kind::numbers)) return;
    html_ += "<li>";
    inline_.write(held_);
    html_ += "</li>\n";
    held_.clear();
  }

  void end_code() {
    html_ += "<pre><code>" + escape_html(held_) + "</code></pre>\n";
    held_.clear();
    fence_.clear();
  }

  void close() {
    end_item();
    switch (std::exchange(kind_, Kind::none)) {
      case Kind::none:
        break;
      case Kind::paragraph:
        wrap("<p>", "</p>\n");
        break;
      case Kind::quote:
        wrap("<blockquote>", "</blockquote>\n");
        break;
      case Kind::table:
        html_ += "<pre>" + escape_html(held_) + "</pre>\n";
        break;
      case Kind::list:
        html_ += "</ul>\n";
        break;
      case Kind::numbers:
        html_ += "</ol>\n";
        break;
    }
    held_.clear();
  }

  void wrap(std::string_view before, std::string_view after) {
    html_ += before;
    inline_.write(held_);
    html_ += after;
  }

  std::string html_;
  Inline inline_;
  Kind kind_ = Kind::none;
  std::string held_;
  std::string fence_;
};

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '\0':
        escaped += "\xef\xbf\xbd";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string picture_html(std::string_view mime, std::string_view base64, std::string_view description) {
  if (std::ranges::find(kPictures, mime) == kPictures.end() || !is_base64(base64)) return "";
  return fmt::format("<img alt=\"{}\" src=\"data:{};base64,{}\">", escape_html(description), mime, base64);
}

std::string markdown_html(std::string_view text, const json::object* attachments) {
  return Blocks(attachments).write(text);
}

}  // namespace hutch
