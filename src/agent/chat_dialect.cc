#include "agent/chat_dialect.h"

#include "agent/chat_stream.h"
#include "agent/json_reading.h"
#include "agent/messages_dialect.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;

json::array functions(const json::array& tools) {
  json::array result;
  for (const json::value& tool : tools) {
    const json::object* definition = tool.if_object();
    if (definition == nullptr) continue;
    const json::object* schema = find_object(*definition, "input_schema");
    json::object function{{"name", find_text(*definition, "name")},
                          {"description", find_text(*definition, "description")},
                          {"parameters", schema != nullptr ? *schema : json::object{}}};
    result.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  return result;
}

}  // namespace

std::vector<ModelDialect::Header> ChatDialect::headers(const Secret& key) const {
  return {{"authorization", "Bearer " + key.reveal()}};
}

json::object ChatDialect::request(const TurnRequest& turn) const {
  json::array messages;
  messages.reserve(turn.messages.size() + 1);
  messages.push_back(json::object{{"role", "system"}, {"content", turn.system}});
  for (const json::value& message : turn.messages) messages.push_back(message);
  json::object body{{"model", turn.model},
                    // Newer models refuse max_tokens; servers that do not know this name ignore it.
                    {"max_completion_tokens", turn.max_tokens},
                    {"stream", true},
                    {"stream_options", {{"include_usage", true}}},
                    {"messages", std::move(messages)}};
  if (!turn.tools.empty()) {
    body["tools"] = functions(turn.tools);
    if (turn.tool_choice == ToolChoice::none) body["tool_choice"] = "none";
  }
  return body;
}

std::unique_ptr<TurnReader> ChatDialect::reader() const { return std::make_unique<ChatReader>(); }

void ChatDialect::add_words(json::array& messages, std::string_view words) const {
  messages.push_back(json::object{{"role", "user"}, {"content", words}});
}

// A tool's message is text only: pictures follow as something that the user shows.
void ChatDialect::add_replies(json::array& messages, std::span<const ToolReply> replies) const {
  json::array pictures;
  for (const ToolReply& reply : replies) {
    messages.push_back(json::object{{"role", "tool"}, {"tool_call_id", reply.id}, {"content", reply.text}});
    for (const Image& image : reply.images) {
      json::object source{{"url", "data:" + image.mime + ";base64," + to_base64(image.bytes)}};
      pictures.push_back(json::object{{"type", "image_url"}, {"image_url", std::move(source)}});
    }
  }
  if (!pictures.empty()) messages.push_back(json::object{{"role", "user"}, {"content", std::move(pictures)}});
}

json::object ChatDialect::without_calls(const json::object& message) const {
  const std::string_view text = find_text(message, "content");
  if (text.empty()) return {};
  return {{"role", "assistant"}, {"content", text}};
}

std::unique_ptr<ModelDialect> make_dialect(ApiKind api) {
  switch (api) {
    case ApiKind::anthropic:
      return std::make_unique<MessagesDialect>();
    case ApiKind::openai:
      return std::make_unique<ChatDialect>();
  }
  return nullptr;
}

}  // namespace hutch::agent
