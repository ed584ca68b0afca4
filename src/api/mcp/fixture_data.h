// What the fixtures say of themselves, as JSON.
#pragma once

namespace hutch::mcp {

inline constexpr char kFixturePicture[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
inline constexpr char kFixtureSound[] = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

// Tools without arguments.
inline constexpr const char* kFixtureTools[] = {"test_simple_text",
                                                "test_image_content",
                                                "test_audio_content",
                                                "test_embedded_resource",
                                                "test_multiple_content_types",
                                                "test_tool_with_logging",
                                                "test_error_handling",
                                                "test_tool_with_progress",
                                                "test_missing_capability",
                                                "test_streaming_elicitation",
                                                "test_logging_tool",
                                                "test_trigger_tool_change",
                                                "test_trigger_prompt_change",
                                                "test_input_required_result_elicitation",
                                                "test_input_required_result_sampling",
                                                "test_input_required_result_list_roots",
                                                "test_input_required_result_request_state",
                                                "test_input_required_result_multiple_inputs",
                                                "test_input_required_result_multi_round",
                                                "test_input_required_result_tampered_state",
                                                "test_input_required_result_capabilities",
                                                "json_schema_2020_12_tool"};

inline constexpr char kFixtureSchema[] = R"({
  "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
  "$defs": {"address": {"$anchor": "addressDef", "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
  "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
    "phone": {"type": "string"}, "email": {"type": "string"}},
  "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
  "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
  "then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": false})";

inline constexpr char kFixtureResources[] = R"([
  {"uri": "test://static-text", "name": "static-text", "description": "A text", "mimeType": "text/plain"},
  {"uri": "test://static-binary", "name": "static-binary", "description": "A picture", "mimeType": "image/png"},
  {"uri": "test://watched-resource", "name": "watched-resource", "description": "For subscriptions",
   "mimeType": "text/plain"}])";

inline constexpr char kFixtureTemplates[] = R"([
  {"uriTemplate": "test://template/{id}/data", "name": "template", "description": "A template",
   "mimeType": "application/json"}])";

inline constexpr char kFixturePrompts[] = R"([
  {"name": "test_simple_prompt", "description": "Without arguments"},
  {"name": "test_prompt_with_arguments", "description": "With two arguments",
   "arguments": [{"name": "arg1", "description": "The first", "required": true},
                 {"name": "arg2", "description": "The second", "required": true}]},
  {"name": "test_prompt_with_embedded_resource", "description": "With a resource",
   "arguments": [{"name": "resourceUri", "description": "Which", "required": true}]},
  {"name": "test_prompt_with_image", "description": "With a picture"},
  {"name": "test_input_required_result_prompt", "description": "That asks back"}])";

}  // namespace hutch::mcp
