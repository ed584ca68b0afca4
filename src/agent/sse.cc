#include "agent/sse.h"

#include <utility>

namespace hutch::agent {

Result<std::vector<SseEvent>> SseDecoder::feed(std::string_view piece) {
  std::vector<SseEvent> events;
  while (!piece.empty()) {
    if (std::exchange(after_return_, false) && piece.front() == '\n') {
      piece.remove_prefix(1);
      continue;
    }
    const std::size_t end = piece.find_first_of("\r\n");
    const std::string_view part = piece.substr(0, end);
    if (line_.size() + event_.data.size() + part.size() > most_bytes_) {
      return make_error(ErrorCode::limit, "an event of the model server is larger than we accept");
    }
    line_ += part;
    if (end == std::string_view::npos) break;
    after_return_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    end_line(events);
  }
  return events;
}

void SseDecoder::end_line(std::vector<SseEvent>& events) {
  std::string_view line = line_;
  if (std::exchange(at_start_, false) && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  if (line.empty()) {
    SseEvent event = std::exchange(event_, {});
    if (std::exchange(has_data_, false)) events.push_back(std::move(event));
  } else if (line.front() != ':') {  // otherwise a comment
    const std::size_t colon = line.find(':');
    std::string_view value = colon == std::string_view::npos ? std::string_view{} : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    take_field(line.substr(0, colon), value);
  }
  line_.clear();
}

// `id` and `retry` are for clients that reconnect, which makes no sense for an answer of a model.
void SseDecoder::take_field(std::string_view name, std::string_view value) {
  if (name == "event") event_.name = value;
  if (name != "data") return;
  if (std::exchange(has_data_, true)) event_.data += '\n';
  event_.data += value;
}

}  // namespace hutch::agent
