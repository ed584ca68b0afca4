// What a run gave, as the result of a tool: the canonical object, the same in words, and the pictures.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/tools/tool.h"

namespace hutch {

inline constexpr std::size_t kMostOut = 10'000;  // characters of standard output in a result
inline constexpr std::size_t kMostErr = 5'000;

// `session` is null for a run of its own.
ToolResult result_of(const std::shared_ptr<LiveRun>& run, const Session* session);
// Completes a result whose structured part has all the rest: its error once more for those who look there, and its
// text.
void tell(ToolResult& result, const std::string& shown = {});
void repeat_error(boost::json::object& structured, bool is_error);

// Pieces of it, for the other shapes that results have.
struct Streams {
  std::string out;  // whole, as bytes
  std::string err;
};
Streams streams_of(const LiveRun& run);
std::string status_word(const LiveRun& run);         // ok, error, timeout, cancelled, running
boost::json::value error_value(const LiveRun& run);  // of section "errors" in docs/tools.md, or null
std::string first_characters(std::string_view bytes, std::size_t most);  // valid UTF-8
double seconds_of(const LiveRun& run);                                   // that its code ran
std::string file_uri(const std::string& session_id, std::string_view path);
// What one who calls tools can do about it, where the hint spoke of options or fields.
std::string in_terms_of_tools(std::string hint);

}  // namespace hutch
