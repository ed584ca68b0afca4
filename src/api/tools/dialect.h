// Calls and results in the words of those who make them: Anthropic's blocks, OpenAI's function calls (chat and
// responses), Gemini's, and plain names and arguments.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>

#include "api/tools/tool.h"

namespace hutch {

enum class Dialect : std::uint8_t {
  plain,
  anthropic,         // a tool_use block
  anthropic_server,  // a server_tool_use block: answered as Anthropic's own code execution tool would
  openai_chat,
  openai_responses,
  gemini,
};

struct CallAsked {
  Dialect dialect = Dialect::plain;
  std::string id;    // that the answer must carry
  std::string name;  // as it was called
  boost::json::object arguments;
  std::string session_id;     // beside the call, so that the model need not know of it
  boost::json::value caller;  // of a server_tool_use block
};

// Every byte of it is from a client. What is wrong with the call itself is an error of the request; what is wrong with
// the arguments is for the model to read, and in the result.
Api<CallAsked> read_call(const boost::json::object& body);

boost::json::object render_result(const CallAsked& call, const ToolResult& result);

}  // namespace hutch
