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

// Pieces of it, for the other shapes that results have.
struct Streams {
  std::string out;  // whole, as bytes
  std::string err;
};
Streams streams_of(const LiveRun& run);
std::string status_word(const LiveRun& run);         // ok, error, timeout, cancelled, running
boost::json::value error_value(const LiveRun& run);  // of section "errors" in docs/tools.md, or null
std::string first_characters(std::string_view bytes, std::size_t most);  // valid UTF-8
std::vector<Picture> pictures_of(const LiveRun& run);
double seconds_of(const LiveRun& run);  // that its code ran
std::string file_uri(const std::string& session_id, std::string_view path);
// What one who calls tools can do about it, where the hint spoke of options or fields.
std::string in_terms_of_tools(std::string hint);

}  // namespace hutch
