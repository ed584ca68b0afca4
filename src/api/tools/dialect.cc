#include "api/tools/dialect.h"

#include "api/base64.h"
#include "api/json_fields.h"
#include "api/json_text.h"
#include "api/tools/server_blocks.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongestName = 128;
constexpr std::size_t kLongestId = 256;
constexpr std::size_t kDeepest = 32;

// Models' JSON in a string. What cannot be read is theirs to correct, so it becomes an argument that no schema has.
json::object read_arguments(std::string_view text) {
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = kDeepest;
  auto value = json::parse(text.empty() ? "{}" : text, failed, {}, options);
  if (!failed && value.is_object()) return std::move(value.get_object());
  return {{"arguments (not a JSON object)", nullptr}};
}

// An object, or the same as text.
void take_arguments(JsonFields& fields, std::string_view name, json::object& into) {
  const auto* value = fields.value(name);
  if (value == nullptr) return;
  if (value->is_object()) {
    into = value->get_object();
  } else if (value->is_string()) {
    into = read_arguments(std::string_view(value->get_string()));
  } else {
    fields.refuse(fields.full_name(name) + " must be an object, or one written as a string");
  }
}

void take_name(JsonFields& fields, CallAsked& call) {
  if (!fields.text("name", call.name, kLongestName)) fields.refuse("name is missing");
}

Dialect dialect_of(const json::object& body) {
  const auto* type = body.if_contains("type");
  const std::string_view kind = type != nullptr && type->is_string() ? std::string_view(type->get_string()) : "";
  if (kind == "tool_use") return Dialect::anthropic;
  if (kind == "server_tool_use") return Dialect::anthropic_server;
  if (kind == "function_call") return Dialect::openai_responses;
  if (kind == "function" || body.contains("function")) return Dialect::openai_chat;
  return body.contains("functionCall") ? Dialect::gemini : Dialect::plain;
}

json::array content_blocks(const ToolResult& result) {
  json::array blocks{json::object{{"type", "text"}, {"text", json_text(result.structured)}}};
  for (const auto& picture : result.pictures) {
    blocks.push_back(json::object{
        {"type", "image"},
        {"source", {{"type", "base64"}, {"media_type", picture.mime}, {"data", base64_encode(picture.bytes)}}}});
  }
  return blocks;
}

json::array data_urls(const ToolResult& result) {
  json::array images;
  for (const auto& picture : result.pictures) {
    images.push_back(json::object{{"type", "input_image"},
                                  {"image_url", "data:" + picture.mime + ";base64," + base64_encode(picture.bytes)}});
  }
  return images;
}

json::object render_plain(const CallAsked& call, const ToolResult& result) {
  json::array images;
  for (const auto& picture : result.pictures) {
    images.push_back(json::object{{"mime_type", picture.mime}, {"data", base64_encode(picture.bytes)}});
  }
  return {{"name", call.name},
          {"is_error", result.is_error},
          {"text", result.text},
          {"result", result.structured},
          {"images", std::move(images)}};
}

// Text alone, or a list when there are pictures: the older form is understood by all.
json::object render_responses(const CallAsked& call, const ToolResult& result) {
  json::object answer{{"type", "function_call_output"}, {"call_id", call.id}};
  if (result.pictures.empty()) {
    answer["output"] = json_text(result.structured);
    return answer;
  }
  json::array output{json::object{{"type", "input_text"}, {"text", json_text(result.structured)}}};
  for (auto& image : data_urls(result)) output.push_back(std::move(image));
  answer["output"] = std::move(output);
  return answer;
}

}  // namespace

Api<CallAsked> read_call(const json::object& body) {
  CallAsked call{.dialect = dialect_of(body)};
  JsonFields fields(body, "");
  std::string ignored;
  switch (call.dialect) {
    case Dialect::anthropic:
    case Dialect::anthropic_server:
      fields.text("type", ignored, kLongestName);
      if (!fields.text("id", call.id, kLongestId)) fields.refuse("id is missing");
      take_name(fields, call);
      take_arguments(fields, "input", call.arguments);
      if (const auto* caller = fields.value("caller")) call.caller = *caller;
      break;
    case Dialect::openai_responses:
      fields.text("type", ignored, kLongestName);
      if (!fields.text("call_id", call.id, kLongestId)) fields.refuse("call_id is missing");
      take_name(fields, call);
      take_arguments(fields, "arguments", call.arguments);
      break;
    case Dialect::openai_chat:
      fields.text("type", ignored, kLongestName);
      if (!fields.text("id", call.id, kLongestId)) fields.refuse("id is missing");
      if (const auto* function = fields.object("function")) {
        JsonFields inner(*function, "function");
        if (!inner.text("name", call.name, kLongestName)) inner.refuse("function.name is missing");
        take_arguments(inner, "arguments", call.arguments);
        if (auto done = inner.finish_loosely(); !done) return std::unexpected(done.error());
      }
      break;
    case Dialect::gemini:
      if (const auto* function = fields.object("functionCall")) {
        JsonFields inner(*function, "functionCall");
        inner.text("id", call.id, kLongestId);
        if (!inner.text("name", call.name, kLongestName)) inner.refuse("functionCall.name is missing");
        take_arguments(inner, "args", call.arguments);
        if (auto done = inner.finish_loosely(); !done) return std::unexpected(done.error());
      }
      break;
    case Dialect::plain:
      take_name(fields, call);
      take_arguments(fields, "arguments", call.arguments);
      break;
  }
  fields.text("session_id", call.session_id, kLongestId);
  // Providers add fields to their blocks, and callers pass them on whole.
  auto done = call.dialect == Dialect::plain ? fields.finish() : fields.finish_loosely();
  if (!done) return std::unexpected(done.error());
  if (call.dialect == Dialect::anthropic_server) {
    if (auto translated = from_server_tool(call); !translated) return std::unexpected(translated.error());
  }
  return call;
}

json::object render_result(const CallAsked& call, const ToolResult& result) {
  switch (call.dialect) {
    case Dialect::anthropic:
      return {{"type", "tool_result"},
              {"tool_use_id", call.id},
              {"content", content_blocks(result)},
              {"is_error", result.is_error}};
    case Dialect::anthropic_server:
      return server_block(call, result);
    case Dialect::openai_chat:
      return {{"role", "tool"}, {"tool_call_id", call.id}, {"content", json_text(result.structured)}};
    case Dialect::openai_responses:
      return render_responses(call, result);
    case Dialect::gemini: {
      json::object response{{"name", call.name}, {"response", result.structured}};
      if (!call.id.empty()) response["id"] = call.id;
      return {{"functionResponse", std::move(response)}};
    }
    case Dialect::plain:
      break;
  }
  return render_plain(call, result);
}

}  // namespace hutch
