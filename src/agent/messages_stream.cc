#include "agent/messages_stream.h"

#include <algorithm>
#include <array>

#include "agent/json_reading.h"
#include "base/utf8.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostBlocks = 1000;

// Events that matter to us. What else there is, and what will be added, is skipped unread.
constexpr std::array<std::string_view, 7> kEvents = {"message_start",
                                                     "content_block_start",
                                                     "content_block_delta",
                                                     "content_block_stop",
                                                     "message_delta",
                                                     "message_stop",
                                                     "error"};

StopReason stop_of(std::string_view text) {
  if (text == "end_turn" || text == "stop_sequence") return StopReason::answered;
  if (text == "tool_use") return StopReason::tool_use;
  if (text == "max_tokens") return StopReason::max_tokens;
  if (text == "pause_turn") return StopReason::paused;
  if (text == "refusal") return StopReason::refusal;
  if (text == "model_context_window_exceeded") return StopReason::context_exceeded;
  return StopReason::unknown;
}

}  // namespace

Result<void> MessagesReader::feed(const SseEvent& event, TurnListener& listener) {
  if (finished_) return {};
  if (!event.name.empty() && std::ranges::find(kEvents, event.name) == kEvents.end()) return {};
  auto parsed = parse_object(event.data);
  if (!parsed) return std::move(parsed).error().during("read an event of the model server");
  const json::object& data = *parsed;
  const std::string_view type = find_text(data, "type");
  if (type == "message_start") start_message(data);
  if (type == "content_block_start") return start_block(data, listener);
  if (type == "content_block_delta") return change_block(data, listener);
  if (type == "content_block_stop") return end_block(data);
  if (type == "message_delta") change_message(data);
  if (type == "message_stop") finished_ = true;
  if (type == "error") return fail(data);
  return {};
}

void MessagesReader::start_message(const json::object& data) {
  const json::object* message = find_object(data, "message");
  if (message == nullptr) return;
  turn_.model = find_text(*message, "model");
  if (const auto* container = find_object(*message, "container")) turn_.container = find_text(*container, "id");
  read_usage(*message);
}

Result<void> MessagesReader::start_block(const json::object& data, TurnListener& listener) {
  std::uint64_t index = kMostBlocks;
  read_count(data, "index", index);
  const json::object* content = find_object(data, "content_block");
  if (content == nullptr || index != blocks_.size() || index >= kMostBlocks) {
    return make_error(ErrorCode::protocol, "the model server started a block out of order");
  }
  blocks_.push_back({.content = *content});
  if (find_text(*content, "type") == "text" && !find_text(*content, "text").empty()) {
    listener.answer_text(find_text(*content, "text"));
  }
  return {};
}

Result<MessagesReader::Block*> MessagesReader::open_block(const json::object& data) {
  std::uint64_t index = kMostBlocks;
  read_count(data, "index", index);
  if (index >= blocks_.size() || blocks_[index].ended) {
    return make_error(ErrorCode::protocol, "the model server changed a block that is not open");
  }
  return &blocks_[index];
}

Result<void> MessagesReader::change_block(const json::object& data, TurnListener& listener) {
  HUTCH_TRY(Block* const block, open_block(data));
  const json::object* delta = find_object(data, "delta");
  if (delta == nullptr) return {};
  const std::string_view type = find_text(*delta, "type");
  if (type == "text_delta") {
    append_text(block->content, "text", find_text(*delta, "text"));
    listener.answer_text(find_text(*delta, "text"));
  } else if (type == "thinking_delta") {
    append_text(block->content, "thinking", find_text(*delta, "thinking"));
    listener.thinking(find_text(*delta, "thinking"));
  } else if (type == "signature_delta") {
    block->content["signature"] = find_text(*delta, "signature");
  } else if (type == "input_json_delta") {
    block->input_json += find_text(*delta, "partial_json");
  } else if (type == "citations_delta") {
    json::value& citations = block->content["citations"];
    if (!citations.is_array()) citations.emplace_array();
    if (const json::value* citation = find(*delta, "citation")) citations.get_array().push_back(*citation);
  }
  return {};
}

// Arguments that are no JSON are not an error of the protocol: the model wrote them, and is told.
Result<void> MessagesReader::end_block(const json::object& data) {
  HUTCH_TRY(Block* const block, open_block(data));
  block->ended = true;
  if (block->input_json.empty()) return {};
  auto input = parse_object(block->input_json);
  block->input_is_whole = input.has_value();
  if (input) {
    block->content["input"] = std::move(*input);
  } else {
    block->content["input"].emplace_object();
  }
  block->input_json.clear();
  return {};
}

void MessagesReader::change_message(const json::object& data) {
  read_usage(data);
  const json::object* delta = find_object(data, "delta");
  if (delta == nullptr) return;
  if (const auto reason = find_text(*delta, "stop_reason"); !reason.empty()) {
    turn_.stop_text = printable(reason.substr(0, 100));
    turn_.stop = stop_of(reason);
  }
  if (const auto* details = find_object(*delta, "stop_details")) {
    turn_.refusal_category = find_text(*details, "category");
    turn_.refusal_explanation = find_text(*details, "explanation");
  }
  if (const auto* container = find_object(*delta, "container")) turn_.container = find_text(*container, "id");
}

Result<void> MessagesReader::fail(const json::object& data) {
  stream_error_.type = "api_error";
  if (const json::object* error = find_object(data, "error")) {
    if (const auto type = find_text(*error, "type"); !type.empty()) stream_error_.type = type;
    stream_error_.message = find_text(*error, "message");
  }
  return make_error(ErrorCode::disconnected, "the model server gave up in the middle of its answer");
}

// Counts are of the whole message so far, each time.
void MessagesReader::read_usage(const json::object& holder) {
  const json::object* usage = find_object(holder, "usage");
  if (usage == nullptr) return;
  read_count(*usage, "input_tokens", turn_.tokens.input);
  read_count(*usage, "output_tokens", turn_.tokens.output);
  read_count(*usage, "cache_read_input_tokens", turn_.tokens.cache_read);
  read_count(*usage, "cache_creation_input_tokens", turn_.tokens.cache_creation);
}

Result<Turn> MessagesReader::take() {
  if (!finished_) return make_error(ErrorCode::disconnected, "the model server's answer broke off");
  json::array content;
  for (Block& block : blocks_) {
    const std::string_view type = find_text(block.content, "type");
    if (type == "text") turn_.text += find_text(block.content, "text");
    if (type == "tool_use") {
      const json::object* input = find_object(block.content, "input");
      const bool complete = block.ended && block.input_is_whole && input != nullptr;
      turn_.tools.push_back({.id = std::string(find_text(block.content, "id")),
                             .name = std::string(find_text(block.content, "name")),
                             .arguments = complete ? *input : json::object{},
                             .complete = complete});
    }
    content.push_back(std::move(block.content));
  }
  blocks_.clear();
  turn_.message = {{"role", "assistant"}, {"content", std::move(content)}};
  return std::move(turn_);
}

}  // namespace hutch::agent
