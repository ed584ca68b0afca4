#include "agent/chat_stream.h"

#include <algorithm>

#include "agent/json_reading.h"
#include "base/utf8.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostCalls = 128;
constexpr std::size_t kMostNameBytes = 256;

StopReason stop_of(std::string_view text) {
  if (text == "stop") return StopReason::answered;
  if (text == "tool_calls" || text == "function_call") return StopReason::tool_use;
  if (text == "length") return StopReason::max_tokens;
  if (text == "content_filter") return StopReason::refusal;
  return StopReason::unknown;
}

}  // namespace

Result<void> ChatReader::feed(const SseEvent& event, TurnListener& listener) {
  if (finished_) return {};
  if (event.data == "[DONE]") {
    finished_ = true;
    return {};
  }
  auto parsed = parse_object(event.data);
  if (!parsed) return std::move(parsed).error().during("read a chunk of the model server");
  const json::object& chunk = *parsed;
  if (const json::value* error = find(chunk, "error")) return fail(*error);
  if (const auto model = find_text(chunk, "model"); !model.empty()) turn_.model = model;
  read_usage(chunk);
  const json::array* choices = find_array(chunk, "choices");
  if (choices == nullptr || choices->empty()) return {};
  const json::object* choice = choices->front().if_object();
  if (choice == nullptr) return {};
  if (const json::object* delta = find_object(*choice, "delta")) read_delta(*delta, listener);
  if (const auto reason = find_text(*choice, "finish_reason"); !reason.empty()) {
    turn_.stop_text = printable(reason.substr(0, 100));
    turn_.stop = stop_of(reason);
  }
  return {};
}

void ChatReader::read_delta(const json::object& delta, TurnListener& listener) {
  if (const auto text = find_text(delta, "content"); !text.empty()) {
    turn_.text += text;
    listener.answer_text(text);
  }
  for (const std::string_view key : {"reasoning_content", "reasoning"}) {  // each is what some servers call it
    const auto text = find_text(delta, key);
    if (text.empty()) continue;
    listener.thinking(text);
    break;
  }
  refusal_ += find_text(delta, "refusal");
  if (const json::array* pieces = find_array(delta, "tool_calls")) read_calls(*pieces);
}

void ChatReader::read_calls(const json::array& pieces) {
  for (const json::value& value : pieces) {
    const json::object* piece = value.if_object();
    Call* call = piece != nullptr ? call_for(*piece) : nullptr;
    if (call == nullptr) continue;
    if (const auto id = find_text(*piece, "id"); !id.empty()) call->id = id.substr(0, kMostNameBytes);
    const json::object* function = find_object(*piece, "function");
    if (function == nullptr) continue;
    const auto name = find_text(*function, "name");
    if (call->name.size() + name.size() <= kMostNameBytes) call->name += name;
    call->arguments += find_text(*function, "arguments");
  }
}

// Without an index a piece belongs to the last call, unless it brings the id of another.
ChatReader::Call* ChatReader::call_for(const json::object& piece) {
  std::uint64_t index = calls_.empty() ? 0 : calls_.size() - 1;
  const auto id = find_text(piece, "id");
  if (find(piece, "index") != nullptr) {
    read_count(piece, "index", index);
  } else if (!calls_.empty() && !id.empty() && id != calls_.back().id) {
    index = calls_.size();
  }
  if (index > calls_.size() || index >= kMostCalls) return nullptr;
  if (index == calls_.size()) calls_.emplace_back();
  return &calls_[index];
}

void ChatReader::read_usage(const json::object& chunk) {
  const json::object* usage = find_object(chunk, "usage");
  if (usage == nullptr) return;
  std::uint64_t prompt = turn_.tokens.input + turn_.tokens.cache_read;
  read_count(*usage, "prompt_tokens", prompt);
  read_count(*usage, "completion_tokens", turn_.tokens.output);
  if (const json::object* details = find_object(*usage, "prompt_tokens_details")) {
    read_count(*details, "cached_tokens", turn_.tokens.cache_read);
  }
  turn_.tokens.cache_read = std::min(turn_.tokens.cache_read, prompt);
  turn_.tokens.input = prompt - turn_.tokens.cache_read;
}

Result<void> ChatReader::fail(const json::value& error) {
  stream_error_.type = "api_error";
  if (const json::string* text = error.if_string())
    stream_error_.message = std::string_view(text->data(), text->size());
  if (const json::object* object = error.if_object()) {
    if (const auto type = find_text(*object, "type"); !type.empty()) stream_error_.type = type;
    stream_error_.message = find_text(*object, "message");
  }
  return make_error(ErrorCode::disconnected, "the model server gave up in the middle of its answer");
}

// The assistant's message with the calls in it. Arguments go back as they came, unless they are no JSON: some servers
// read them, and would refuse the conversation.
json::object ChatReader::take_calls() {
  json::array list;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    Call& call = calls_[i];
    if (call.id.empty()) call.id = "call_" + std::to_string(i);
    auto arguments = parse_object(call.arguments.empty() ? "{}" : call.arguments);
    json::object function{{"name", call.name},
                          {"arguments", arguments && !call.arguments.empty() ? call.arguments : "{}"}};
    list.push_back(json::object{{"id", call.id}, {"type", "function"}, {"function", std::move(function)}});
    turn_.tools.push_back({.id = std::move(call.id),
                           .name = std::move(call.name),
                           .arguments = arguments ? std::move(*arguments) : json::object{},
                           .complete = arguments.has_value()});
  }
  json::object message{{"role", "assistant"}, {"content", nullptr}};
  if (!turn_.text.empty()) message["content"] = turn_.text;
  if (!list.empty()) message["tool_calls"] = std::move(list);
  return message;
}

Result<Turn> ChatReader::take() {
  if (turn_.stop_text.empty()) return make_error(ErrorCode::disconnected, "the model server's answer broke off");
  turn_.message = take_calls();
  if (!turn_.tools.empty() && turn_.stop == StopReason::answered) turn_.stop = StopReason::tool_use;
  if (!refusal_.empty()) {
    turn_.stop = StopReason::refusal;
    turn_.refusal_explanation = std::move(refusal_);
  }
  return std::move(turn_);
}

}  // namespace hutch::agent
