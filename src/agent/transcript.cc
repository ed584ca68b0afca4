#include "agent/transcript.h"

#include <fmt/format.h>

namespace hutch::agent {
namespace {

namespace json = boost::json;

// Only in a source of the Messages API and a URL of chat completions is there text of that kind.
bool is_large_image(std::string_view key, const json::string& text) {
  const bool holds_image = key == "data" || (key == "url" && std::string_view(text).starts_with("data:image/"));
  return holds_image && text.size() / 4 * 3 > kLargestKeptImage;
}

}  // namespace

json::value without_large_images(const json::value& value) {
  if (const json::array* list = value.if_array()) {
    json::array result;
    for (const json::value& item : *list) result.push_back(without_large_images(item));
    return result;
  }
  const json::object* object = value.if_object();
  if (object == nullptr) return value;
  json::object result;
  for (const auto& [key, member] : *object) {
    const json::string* text = member.if_string();
    if (text != nullptr && is_large_image({key.data(), key.size()}, *text)) {
      result[key] = fmt::format("[image: about {} bytes]", text->size() / 4 * 3);
    } else {
      result[key] = without_large_images(member);
    }
  }
  return result;
}

void Transcript::begin(const ModelDialect& dialect, const TurnRequest& request) {
  object_ = {{"api", dialect.name()}, {"model", request.model}, {"system", request.system}, {"tools", request.tools}};
}

void Transcript::add_request(const TurnRequest& request, std::string_view words) {
  json::array added;
  for (; messages_seen_ < request.messages.size(); ++messages_seen_) {
    added.push_back(without_large_images(request.messages[messages_seen_]));
  }
  turns_.push_back(json::object{{"max_tokens", request.max_tokens},
                                {"tools_offered", request.tool_choice == ToolChoice::automatic},
                                {"new_messages", std::move(added)}});
  if (!words.empty()) turns_.back().get_object()["words_added"] = words;
}

void Transcript::add_answer(const Turn& turn, double seconds) {
  json::object& entry = turns_.back().get_object();
  entry["response"] = turn.message;
  entry["stop_reason"] = turn.stop_text;
  entry["model"] = turn.model;
  entry["tokens"] = {{"input", turn.tokens.input},
                     {"output", turn.tokens.output},
                     {"cache_read", turn.tokens.cache_read},
                     {"cache_creation", turn.tokens.cache_creation}};
  entry["seconds"] = seconds;
}

void Transcript::add_failure(std::string_view message, double seconds) {
  json::object& entry = turns_.back().get_object();
  entry["error"] = message;
  entry["seconds"] = seconds;
}

json::object Transcript::take() {
  object_["turns"] = std::move(turns_);
  return std::move(object_);
}

}  // namespace hutch::agent
