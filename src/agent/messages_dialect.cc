#include "agent/messages_dialect.h"

#include "agent/json_reading.h"
#include "agent/messages_stream.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;

// The oldest version that has everything we use; newer ones only take things away.
constexpr std::string_view kVersion = "2023-06-01";

json::object text_block(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

json::object image_block(const Image& image) {
  return {{"type", "image"},
          {"source", {{"type", "base64"}, {"media_type", image.mime}, {"data", to_base64(image.bytes)}}}};
}

json::object result_block(const ToolReply& reply) {
  json::array content;
  content.push_back(text_block(reply.text));
  for (const Image& image : reply.images) content.push_back(image_block(image));
  return {{"type", "tool_result"},
          {"tool_use_id", reply.id},
          {"is_error", reply.is_error},
          {"content", std::move(content)}};
}

json::object user_message(json::array content) { return {{"role", "user"}, {"content", std::move(content)}}; }

json::array* last_user_content(json::array& messages) {
  json::object* last = messages.empty() ? nullptr : messages.back().if_object();
  if (last == nullptr || find_text(*last, "role") != "user") return nullptr;
  json::value* content = last->if_contains("content");
  return content != nullptr ? content->if_array() : nullptr;
}

}  // namespace

std::vector<ModelDialect::Header> MessagesDialect::headers(const Secret& key) const {
  return {{"x-api-key", key.reveal()}, {"anthropic-version", std::string(kVersion)}};
}

// No sampling parameters: newer models refuse them.
json::object MessagesDialect::request(const TurnRequest& turn) const {
  json::object body{{"model", turn.model},
                    {"max_tokens", turn.max_tokens},
                    {"system", turn.system},
                    {"stream", true},
                    {"messages", turn.messages}};
  if (!turn.tools.empty()) {
    body["tools"] = turn.tools;  // also when they may not be used: the conversation mentions them
    if (turn.tool_choice == ToolChoice::none) body["tool_choice"] = json::object{{"type", "none"}};
  }
  if (!turn.container.empty()) body["container"] = turn.container;
  return body;
}

std::unique_ptr<TurnReader> MessagesDialect::reader() const { return std::make_unique<MessagesReader>(); }

void MessagesDialect::add_words(json::array& messages, std::string_view words) const {
  if (json::array* content = last_user_content(messages)) {
    content->push_back(text_block(words));
    return;
  }
  json::array content;
  content.push_back(text_block(words));
  messages.push_back(user_message(std::move(content)));
}

void MessagesDialect::add_replies(json::array& messages, std::span<const ToolReply> replies) const {
  json::array content;
  for (const ToolReply& reply : replies) content.push_back(result_block(reply));
  messages.push_back(user_message(std::move(content)));
}

// Calls without results are refused, and so is a message that ends with anything but text.
json::object MessagesDialect::without_calls(const json::object& message) const {
  json::array kept;
  if (const json::array* content = find_array(message, "content")) {
    for (const json::value& block : *content) {
      if (find_text(block.get_object(), "type") != "tool_use") kept.push_back(block);
    }
  }
  const auto ends_well = [&] {
    const json::object& block = kept.back().get_object();
    return find_text(block, "type") == "text" && !find_text(block, "text").empty();
  };
  while (!kept.empty() && !ends_well()) kept.pop_back();
  if (kept.empty()) return {};
  return {{"role", "assistant"}, {"content", std::move(kept)}};
}

}  // namespace hutch::agent
