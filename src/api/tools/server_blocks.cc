#include "api/tools/server_blocks.h"

#include "api/tools/run_result.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::pair<std::string_view, std::string_view> kTools[] = {{"code_execution", "run_python"},
                                                                    {"bash_code_execution", "run_shell"},
                                                                    {"text_editor_code_execution", "edit_file"}};

std::string_view kind_of(const CallAsked& call) {
  for (const auto& [theirs, ours] : kTools) {
    if (call.name == ours) return theirs;
  }
  return "code_execution";
}

std::string_view error_code(const ApiError& error, std::string_view kind) {
  const auto& category = error.category;
  if (category == "rate_limited" || (category == "capacity" && error.retry_after.count() > 0)) {
    return "too_many_requests";
  }
  if (category == "file_error" && error.code == "file_not_found" && kind == "text_editor_code_execution") {
    return "file_not_found";
  }
  if (category == "invalid_request" || category == "file_error") return "invalid_tool_input";
  return "unavailable";
}

json::object failure(const ApiError& error, std::string_view kind) {
  json::object content{{"type", std::string(kind) + "_tool_result_error"}, {"error_code", error_code(error, kind)}};
  if (kind == "text_editor_code_execution") content["error_message"] = error.message;
  return content;
}

// Whatever a run left is fetched under /v1/runs/ and this id.
json::array files_of(const ToolResult& result, std::string_view kind) {
  json::array files;
  if (!result.run) return files;
  for (const auto& file : result.run->files()) {
    if (file.change == wire::Change::deleted) continue;
    files.push_back(json::object{{"type", std::string(kind) + "_output"},
                                 {"file_id", result.run->identity().id + "/files/" + clean_utf8(file.path)}});
  }
  return files;
}

json::object run_block(const ToolResult& result, std::string_view kind) {
  const auto& structured = result.structured;
  if (structured.at("status").as_string() == "running") {
    return {{"type", std::string(kind) + "_tool_result_error"}, {"error_code", "execution_time_exceeded"}};
  }
  if (!result.run) {  // a restart, and nothing was run
    return {{"type", std::string(kind) + "_result"},
            {"stdout", result.text + "\n"},
            {"stderr", ""},
            {"return_code", 0},
            {"content", json::array{}}};
  }
  std::string out(structured.at("stdout").as_string());
  if (const auto* value = structured.at("result").if_string()) out += std::string(*value) + "\n";
  return {{"type", std::string(kind) + "_result"},
          {"stdout", std::move(out)},
          {"stderr", structured.at("stderr")},
          {"return_code", structured.at("exit_code")},
          {"content", files_of(result, kind)}};
}

json::object editor_block(const CallAsked& call, const ToolResult& result) {
  json::object content = result.structured.at("details").as_object();
  const auto* command = call.arguments.if_contains("command");
  const std::string word = command != nullptr && command->is_string() ? std::string(command->get_string()) : "view";
  content["type"] = "text_editor_code_execution_" + word + "_result";
  if (word == "view" && !content.contains("content")) content["content"] = result.text;
  return content;
}

}  // namespace

Handled from_server_tool(CallAsked& call) {
  for (const auto& [theirs, ours] : kTools) {
    if (call.name != theirs) continue;
    call.name = ours;
    if (call.session_id.empty()) call.session_id = "new";  // a container is kept between calls
    return {};
  }
  return std::unexpected(bad_request("There is no server tool " + printable(call.name.substr(0, 64)) + ".",
                                     "They are code_execution, bash_code_execution and text_editor_code_execution.",
                                     "unknown_tool"));
}

json::object server_block(const CallAsked& call, const ToolResult& result) {
  const std::string_view kind = kind_of(call);
  json::object block{{"type", std::string(kind) + "_tool_result"}, {"tool_use_id", call.id}};
  if (result.is_error) {
    block["content"] = failure(result.error.value_or(ApiError{}), kind);
  } else if (kind == "text_editor_code_execution") {
    block["content"] = editor_block(call, result);
  } else {
    block["content"] = run_block(result, kind);
  }
  return block;
}

}  // namespace hutch
