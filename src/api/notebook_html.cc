#include "api/notebook_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "api/base64.h"
#include "api/notebook_markdown.h"
#include "api/notebook_text.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::string_view kPolicy =
    "default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'";

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; --dim: #888; --code: #8881; --bad: #d336; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre, code { font: 14px/1.45 ui-monospace, monospace; }
pre { margin: .25rem 0; padding: .5rem .75rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.cell { margin: 1rem 0; }
.code { background: var(--code); border: 1px solid var(--line); border-radius: 6px; }
.count { color: var(--dim); font: 12px ui-monospace, monospace; }
.stderr { border-left: 3px solid var(--bad); }
.error { border-left: 3px solid var(--bad); background: #d331; }
img { max-width: 100%; background: #fff; }
iframe { width: 100%; border: 0; background: #fff; resize: vertical; }
blockquote { border-left: 3px solid var(--line); margin-left: 0; padding-left: 1rem; color: var(--dim); }
)";

// Colours of a terminal mean nothing here.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      plain += text[i];
      continue;
    }
    if (i + 1 >= text.size() || text[i + 1] != '[') continue;
    i += 2;
    while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
  }
  return plain;
}

std::string pre(std::string_view kind, std::string_view text) {
  return fmt::format("<pre class=\"{}\">{}</pre>\n", kind, escape_html(without_escapes(text)));
}

std::string text_at(const json::object& object, std::string_view name) {
  std::string text;
  const auto* value = object.if_contains(name);
  if (value != nullptr) join_lines(*value, text);
  return text;
}

// A frame cannot tell how high it is without a script, so it is guessed.
std::size_t guess_height(std::string_view html) {
  std::size_t rows = 0;
  for (const std::string_view mark : {"<tr", "<p", "<br", "<div", "<li", "<h"}) {
    for (std::size_t at = html.find(mark); at != std::string_view::npos; at = html.find(mark, at + 1)) ++rows;
  }
  return std::clamp<std::size_t>(40 + 26 * rows, 80, 520);
}

std::string frame(std::string_view html) {
  const std::string inside = fmt::format(
      "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"{}\">"
      "<style>body{{font:14px system-ui,sans-serif;margin:4px}}table{{border-collapse:collapse}}"
      "td,th{{padding:2px 8px;text-align:right}}</style>{}",
      kPolicy, html);
  return fmt::format("<iframe sandbox=\"\" loading=\"lazy\" style=\"height:{}px\" srcdoc=\"{}\"></iframe>\n",
                     guess_height(html), escape_html(inside));
}

// The best of what a page without scripts can show.
std::string bundle(const json::object& data) {
  for (const std::string_view mime : {"image/png", "image/jpeg", "image/gif", "image/webp"}) {
    std::string encoded = text_at(data, mime);
    std::erase(encoded, '\n');
    if (auto shown = picture_html(mime, encoded, "output"); !shown.empty()) return shown + "\n";
  }
  if (const auto svg = text_at(data, "image/svg+xml"); !svg.empty()) {
    return picture_html("image/svg+xml", base64_encode(svg), "output") + "\n";
  }
  if (const auto html = text_at(data, "text/html"); !html.empty()) return frame(html);
  if (const auto text = text_at(data, "text/markdown"); !text.empty()) return markdown_html(text, nullptr);
  for (const std::string_view mime : {"text/latex", "text/plain"}) {
    if (const auto text = text_at(data, mime); !text.empty()) return pre("result", text);
  }
  const auto* value = data.if_contains("application/json");
  return value != nullptr ? pre("result", notebook_text(*value)) : "";
}

std::string output_html(const json::object& output) {
  const std::string type = text_at(output, "output_type");
  if (type == "stream") {
    return pre(text_at(output, "name") == "stderr" ? "stderr" : "stdout", text_at(output, "text"));
  }
  if (type == "error") {
    std::string text;
    const auto* lines = output.if_contains("traceback");
    if (lines != nullptr && lines->is_array()) {
      for (const auto& line : lines->get_array()) {
        if (line.is_string()) text += std::string_view(line.get_string()), text += '\n';
      }
    }
    return pre("error", text.empty() ? text_at(output, "ename") + ": " + text_at(output, "evalue") : text);
  }
  const auto* data = output.if_contains("data");
  return data != nullptr && data->is_object() ? bundle(data->get_object()) : "";
}

std::string cell_html(const Notebook& notebook, std::size_t index) {
  const auto& cell = notebook.cell(index);
  const std::string source = notebook.source(index);
  if (notebook.type(index) == "markdown") {
    const auto* attachments = cell.if_contains("attachments");
    return markdown_html(source, attachments != nullptr ? attachments->if_object() : nullptr);
  }
  if (!notebook.is_code(index)) return pre("raw", source);
  const auto* count = cell.if_contains("execution_count");
  const auto* number = count != nullptr ? count->if_int64() : nullptr;
  const auto* unsigned_number = count != nullptr ? count->if_uint64() : nullptr;
  std::string html =
      fmt::format("<div class=\"count\">[{}]</div>\n", number != nullptr            ? std::to_string(*number)
                                                       : unsigned_number != nullptr ? std::to_string(*unsigned_number)
                                                                                    : " ");
  html += pre("code", source);
  for (const auto& output : cell.at("outputs").get_array()) html += output_html(output.get_object());
  return html;
}

// The first heading, if the notebook does not say.
std::string title_of(const Notebook& notebook) {
  if (auto title = notebook.title(); !title.empty()) return title;
  for (std::size_t i = 0; i < notebook.size(); ++i) {
    if (notebook.type(i) != "markdown") continue;
    const std::string source = notebook.source(i);
    if (source.starts_with("# ")) return source.substr(2, std::min(source.find('\n'), source.size()) - 2);
  }
  return "Notebook";
}

}  // namespace

std::string notebook_html(const Notebook& notebook) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
      kPolicy, escape_html(title_of(notebook)), kStyle);
  for (std::size_t i = 0; i < notebook.size(); ++i) {
    html += fmt::format("<section class=\"cell\" id=\"{}\">\n{}</section>\n",
                        escape_html(std::string_view(notebook.cell(i).at("id").get_string())), cell_html(notebook, i));
  }
  return html + "</body>\n</html>\n";
}

}  // namespace hutch
