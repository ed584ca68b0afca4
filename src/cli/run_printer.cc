#include "cli/run_printer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "api/base64.h"
#include "base/utf8.h"
#include "cli/remote.h"

namespace hutch {
namespace {

namespace json = boost::json;

// An event of a finished run names what can still be seen at its end; that is beside the events.
const json::object* resolve(const json::object& run, const json::object& event) {
  if (event.contains("mime")) return &event;
  const auto* index = event.if_contains("display");
  const auto* displays = run.if_contains("displays");
  if (index != nullptr && index->is_int64() && displays != nullptr && displays->is_array()) {
    const auto at = static_cast<std::size_t>(index->get_int64());
    return at < displays->get_array().size() ? displays->get_array()[at].if_object() : nullptr;
  }
  const auto* result = run.if_contains("result");
  return text_at(event, "type") == "result" && result != nullptr ? result->if_object() : nullptr;
}

}  // namespace

void write_out(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

std::string_view name_of(wire::Stream stream) { return stream == wire::Stream::out ? "stdout" : "stderr"; }

bool was_cut(const json::object& run, wire::Stream stream) {
  const auto* truncated = run.if_contains("truncated");
  if (truncated == nullptr || !truncated->is_object()) return false;
  const auto* cut = truncated->get_object().if_contains(name_of(stream));
  return cut != nullptr && cut->is_bool() && cut->get_bool();
}

std::string kept_output(const json::object& run, wire::Stream stream) {
  const std::string name(name_of(stream));
  const auto bytes = base64_decode(text_at(run, name + "_base64"));
  return bytes && !bytes->empty() ? *bytes : text_at(run, name);
}

void RunPrinter::show_text(wire::Stream stream, std::string_view text) {
  shown_[static_cast<std::size_t>(stream)] += text.size();
  write_out(stream == wire::Stream::out ? 1 : 2, text);
}

void RunPrinter::show_display(const json::object& display) {
  ++displays_;
  const auto* mime = display.if_contains("mime");
  if (mime == nullptr || !mime->is_object()) return;
  const std::string text = text_at(mime->get_object(), "text/plain");
  if (!text.empty()) write_out(1, text + "\n");
}

void RunPrinter::show(const json::object& event) {
  const std::string type = text_at(event, "type");
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    bool& cut = cut_[static_cast<std::size_t>(stream)];
    // Half a character at the cut is told in the end, and is whole in the log.
    if (type == name_of(stream) && !cut) show_text(stream, text_at(event, "text"));
    if (type == "truncated" && text_at(event, "stream") == name_of(stream)) cut = true;
  }
  if (type == "result" || type == "display") show_display(event);
}

void RunPrinter::show_missed(const json::object& run) {
  const auto* events = run.if_contains("events");
  if (events == nullptr || !events->is_array()) return;
  std::uint64_t to_skip[2] = {shown_[0], shown_[1]};
  std::uint64_t room[2];  // of a stream that was cut: up to its last whole character
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    std::string kept = kept_output(run, stream);
    if (was_cut(run, stream)) kept.resize(complete_utf8_prefix(kept));
    const std::uint64_t size = clean_utf8(kept).size();
    const auto at = static_cast<std::size_t>(stream);
    room[at] = size - std::min(size, to_skip[at]);
  }
  std::size_t displays_to_skip = displays_;
  for (const auto& value : events->get_array()) {
    if (!value.is_object()) continue;
    const auto& event = value.get_object();
    const std::string type = text_at(event, "type");
    for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
      if (type != name_of(stream)) continue;
      const auto at = static_cast<std::size_t>(stream);
      const std::string text = text_at(event, "text");
      const std::size_t skip = std::min<std::uint64_t>(text.size(), to_skip[at]);
      to_skip[at] -= skip;
      const auto piece = std::string_view(text).substr(skip, room[at]);
      room[at] -= piece.size();
      show_text(stream, piece);
    }
    if (type != "result" && type != "display") continue;
    if (displays_to_skip > 0) {
      --displays_to_skip;
    } else if (const auto* display = resolve(run, event)) {
      show_display(*display);
    }
  }
}

}  // namespace hutch
