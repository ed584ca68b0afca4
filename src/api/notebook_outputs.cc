#include "api/notebook_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "api/display_json.h"
#include "api/notebook_text.h"
#include "base/utf8.h"
#include "session/display_rules.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestBeginning = 400;  // of an error, where nothing else fits
constexpr std::string_view kOwnTypes = "application/vnd.hutch.";
constexpr std::string_view kHeader = "Traceback (most recent call last):\n";
constexpr std::string_view kGroupHeader = "  + Exception Group Traceback (most recent call last):\n";
constexpr std::array<std::string_view, 2> kLinks{
    "\nThe above exception was the direct cause of the following exception:\n\n",
    "\nDuring handling of the above exception, another exception occurred:\n\n"};

// Jupyter keeps these as lists of lines.
bool is_lines(std::string_view mime) {
  return mime.starts_with("text/") || mime == "application/javascript" || mime == "image/svg+xml";
}

// The value of a cell, told to programs beside its text: Jupyter has only the text.
bool is_value_again(const wire::Display& display, std::string_view mime) {
  if (mime != "application/json" || display.kind != wire::DisplayKind::result || display.items.size() != 2)
    return false;
  const std::string_view text = plain_text(display);
  return text.starts_with('[') || text.starts_with('{');
}

// The last line that begins like this.
std::optional<std::size_t> last_line(std::string_view text, std::string_view beginning) {
  for (std::size_t at = text.rfind(beginning); at != std::string_view::npos; at = text.rfind(beginning, at - 1)) {
    if (at == 0 || text[at - 1] == '\n') return at;
  }
  return std::nullopt;
}

// The last line that names this error, with or without the module it is from.
std::optional<std::size_t> last_naming(std::string_view text, std::string_view name) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t newline = end < 2 ? std::string_view::npos : text.rfind('\n', end - 2);
    const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    std::string_view word = text.substr(begin, end - begin);
    word = word.substr(0, word.find_first_of(": \n"));
    if (word == name || (word.ends_with(name) && word[word.size() - name.size() - 1] == '.')) return begin;
    end = begin;
  }
  return std::nullopt;
}

std::optional<std::size_t> last_header(std::string_view text) {
  return std::max(last_line(text, kHeader), last_line(text, kGroupHeader));
}

// Of a worker process, a traceback comes inside the message of another error.
std::size_t with_frame(std::string_view text, std::size_t begin) {
  constexpr std::string_view kQuotes = "\"\"\"\n";
  if (!text.substr(0, begin).ends_with(kQuotes)) return begin;
  const std::size_t quotes = begin - kQuotes.size();
  const std::size_t newline = quotes < 2 ? std::string_view::npos : text.rfind('\n', quotes - 2);
  return newline == std::string_view::npos ? 0 : newline + 1;
}

std::size_t paragraph(std::string_view text) {
  const std::size_t blank = text.size() < 2 ? std::string_view::npos : text.rfind("\n\n", text.size() - 2);
  return blank == std::string_view::npos ? 0 : blank + 2;
}

std::size_t size_of(const json::value& value);

// The memory that it takes, roughly.
std::size_t size_of(const json::object& object) {
  std::size_t bytes = 0;
  for (const auto& [name, member] : object) bytes += sizeof(json::value) + name.size() + size_of(member);
  return bytes;
}

std::size_t size_of(const json::value& value) {
  std::size_t bytes = sizeof(value);
  if (const auto* text = value.if_string()) return bytes + text->size();
  if (const auto* object = value.if_object()) return bytes + size_of(*object);
  if (const auto* array = value.if_array()) {
    for (const auto& item : *array) bytes += size_of(item);
  }
  return bytes;
}

// As a list of lines.
std::size_t size_of_text(std::string_view text) {
  return text.size() + sizeof(json::value) * (1 + static_cast<std::size_t>(std::ranges::count(text, '\n')));
}

json::object stream_output(std::string_view name, std::string_view text) {
  return {{"name", name}, {"output_type", "stream"}, {"text", lines_of(text)}};
}

std::vector<std::string> plain_lines(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<std::string> lines;
  for (;;) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

std::string last_words(const std::string& name, const std::string& value) {
  return value.empty() ? name : name + ": " + value;
}

json::object error_output(const CellError& error) {
  json::array traceback;
  for (const auto& line : error.traceback) traceback.emplace_back(line);
  return {
      {"ename", error.name}, {"evalue", error.value}, {"output_type", "error"}, {"traceback", std::move(traceback)}};
}

std::string beginning_of(const std::string& text) {
  return text.substr(0, complete_utf8_prefix(std::string_view(text).substr(0, kLongestBeginning)));
}

}  // namespace

std::optional<std::size_t> find_traceback(std::string_view text, const wire::PythonError& python) {
  auto begin = last_header(text);
  if (python.traceback.empty()) {  // nothing of the user's is on the stack: a syntax error, or a magic
    const auto naming = last_naming(text, python.name);
    const bool syntax = naming && python.line > 0;
    begin = syntax ? last_line(text.substr(0, *naming), "  File \"") : std::nullopt;
    if (!begin) begin = naming;
  }
  while (begin) {
    const std::string_view before = text.substr(0, *begin);
    const auto link = std::ranges::find_if(kLinks, [&](std::string_view one) { return before.ends_with(one); });
    if (link == kLinks.end()) return begin;
    const std::string_view cause = before.substr(0, before.size() - link->size());
    const auto header = last_header(cause);
    begin = header ? with_frame(cause, *header) : paragraph(cause);
  }
  return begin;
}

std::size_t size_of(const wire::OutputEvent& event) {
  std::size_t size = event.data.size();
  if (!event.display) return size;
  for (const auto& [type, data] : event.display->items) size += type.size() + data.size();
  return size + event.display->metadata.size();
}

wire::OutputEvent left_out() {
  return {.stream = wire::Stream::err,
          .data = "[hutch: these outputs were left out, the notebook would be too large]\n"};
}

void NotebookOutputs::begin(std::size_t cell) {
  cell_ = cell;
  clear_first_ = left_out_ = false;
  outputs_.clear();
  carried_[0].clear();
  carried_[1].clear();
  for (const auto& id : ids_[cell]) {
    if (!id.empty()) shown_in_[id].erase(cell);
  }
  ids_.erase(cell);
  notebook_.set_outputs(cell, {}, 0);
}

void NotebookOutputs::add(const wire::OutputEvent& event) {
  if (event.display) {
    add_display(*event.display);
  } else {
    add_text(event.stream, event.data);
  }
}

bool NotebookOutputs::take(std::size_t bytes) {
  if (bytes > room_ || (share_ && !share_->grow_to(kMostNotebookOutputs - room_ + bytes))) {
    left_out_ = true;
    return false;
  }
  room_ -= bytes;
  return true;
}

void NotebookOutputs::clear_if_due() {
  if (std::exchange(clear_first_, false)) outputs_.clear();
}

void NotebookOutputs::add_text(wire::Stream stream, std::string_view bytes) {
  auto& carried = carried_[static_cast<std::size_t>(stream)];
  std::string text = std::exchange(carried, {});
  text += bytes;
  const std::size_t whole = complete_utf8_prefix(text);
  carried = text.substr(whole);
  text.resize(whole);
  if (!text.empty() && take(size_of_text(text))) append(stream, clean_utf8(text));
}

void NotebookOutputs::append(wire::Stream stream, std::string_view text) {
  clear_if_due();
  const std::string_view name = stream == wire::Stream::out ? "stdout" : "stderr";
  if (outputs_.empty() || outputs_.back().stream != name) outputs_.push_back({.stream = std::string(name)});
  outputs_.back().text += text;
}

void NotebookOutputs::add_display(const wire::Display& display) {
  if (display.kind == wire::DisplayKind::clear) {
    if (!display.wait) outputs_.clear();
    clear_first_ = display.wait;
    return;
  }
  json::object shown = display_object(display);
  json::object data;
  for (auto& [mime, value] : shown["mime"].get_object()) {
    const std::string_view name = mime;
    if (data_ == HutchData::leave_out && (name.starts_with(kOwnTypes) || is_value_again(display, name))) continue;
    data[name] = value.is_string() && is_lines(name) ? json::value(lines_of(value.get_string())) : value;
  }
  json::object output{{"data", std::move(data)}, {"metadata", std::move(shown["metadata"])}};
  const bool is_update = display.kind == wire::DisplayKind::update;
  const auto earlier = shown_as(display.id);
  if (!take(size_of(output) * (earlier.size() + (is_update ? 0 : 1)))) return;
  for (auto* one : earlier) {
    for (const auto& [name, value] : output) (*one)[name] = value;
  }
  if (is_update) return;
  clear_if_due();
  const bool result = display.kind == wire::DisplayKind::result;
  output["output_type"] = result ? "execute_result" : "display_data";
  if (result) output["execution_count"] = nullptr;  // known at the end
  outputs_.push_back({.object = std::move(output), .display_id = display.id});
}

// Everything that was ever shown under this name, in any cell.
std::vector<json::object*> NotebookOutputs::shown_as(const std::string& display_id) {
  std::vector<json::object*> shown;
  if (display_id.empty()) return shown;
  for (auto& output : outputs_) {
    if (output.display_id == display_id) shown.push_back(&output.object);
  }
  const auto cells = shown_in_.find(display_id);
  if (cells == shown_in_.end()) return shown;
  for (const std::size_t cell : cells->second) {
    const auto& ids = ids_[cell];
    auto& outputs = notebook_.outputs(cell);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == display_id) shown.push_back(&outputs[i].get_object());
    }
  }
  return shown;
}

std::optional<CellError> NotebookOutputs::end(const wire::Record& record) {
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    const std::string rest = std::exchange(carried_[static_cast<std::size_t>(stream)], {});
    if (!rest.empty()) add_text(stream, clean_utf8(rest));
  }
  std::optional<CellError> error;
  json::object told;
  if (record.error) {
    error = describe(*record.error, record.exit_code);
    told = error_output(*error);
    if (!take(size_of(told))) {
      told = error_output({.name = beginning_of(error->name), .value = beginning_of(error->value), .traceback = {}});
    }
  }
  for (const auto& [cut, name] : {std::pair(record.stdout_truncated, "stdout"),
                                  {record.stderr_truncated, "stderr"},
                                  {record.displays_truncated, "the displays"}}) {
    if (cut) append(wire::Stream::err, fmt::format("[hutch: the rest of {} was left out]\n", name));
  }
  if (left_out_) append(wire::Stream::err, "[hutch: outputs were left out, the notebook would be too large]\n");
  if (error) {
    clear_if_due();
    outputs_.push_back({.object = std::move(told)});
  }
  json::array outputs;
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    auto& output = outputs_[i];
    // What stood between two pieces of one stream may have been the traceback.
    if (i + 1 < outputs_.size() && !output.stream.empty() && outputs_[i + 1].stream == output.stream) {
      outputs_[i + 1].text.insert(0, output.text);
      continue;
    }
    if (output.object.contains("execution_count") && record.execution_count != 0) {
      output.object["execution_count"] = record.execution_count;
    }
    outputs.push_back(output.stream.empty() ? std::move(output.object) : stream_output(output.stream, output.text));
    ids.push_back(output.display_id);
    if (!output.display_id.empty()) shown_in_[output.display_id].insert(cell_);
  }
  outputs_.clear();
  if (std::ranges::any_of(ids, [](const auto& id) { return !id.empty(); })) ids_[cell_] = std::move(ids);
  notebook_.set_outputs(cell_, std::move(outputs), record.execution_count);
  return error;
}

CellError NotebookOutputs::describe(const wire::RunError& error, std::int32_t exit_code) {
  std::vector<std::string> traceback;
  if (error.python) traceback = take_traceback(*error.python);
  if (error.python && error.category != "timeout") {
    return {.name = clean_utf8(error.python->name),
            .value = clean_utf8(error.python->value),
            .traceback = std::move(traceback)};
  }
  CellError result{.name = error.code, .value = clean_utf8(error.message), .traceback = std::move(traceback)};
  if (error.category == "timeout") result.name = "TimeoutError";
  if (error.category == "memory_limit") result.name = "MemoryError";
  if (error.category == "system_exit") {
    result.name = "SystemExit";
    result.value = std::to_string(exit_code);
  }
  result.traceback.push_back(last_words(result.name, result.value));
  return result;
}

// What was written last to standard error, as far back as the traceback begins. Made of the error itself where the
// program shows its errors in another way.
std::vector<std::string> NotebookOutputs::take_traceback(const wire::PythonError& python) {
  std::string text;
  for (std::size_t i = outputs_.size(); i > 0 && !outputs_[i - 1].stream.empty(); --i) {
    if (outputs_[i - 1].stream != "stderr") continue;
    text.insert(0, outputs_[i - 1].text);
    const auto begin = find_traceback(text, python);
    if (!begin) continue;
    const std::string traceback = text.substr(*begin);
    outputs_[i - 1].text = text.substr(0, *begin);
    for (std::size_t later = outputs_.size(); later > i; --later) {
      if (outputs_[later - 1].stream == "stderr")
        outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(later - 1));
    }
    if (outputs_[i - 1].text.empty()) outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    return plain_lines(traceback);
  }
  std::vector<std::string> lines{"Traceback (most recent call last):"};
  for (const auto& entry : python.traceback) {
    for (const auto& line : plain_lines(clean_utf8(entry))) lines.push_back("  " + line);
  }
  lines.push_back(clean_utf8(last_words(python.name, python.value)));
  return lines;
}

}  // namespace hutch
