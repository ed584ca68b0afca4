// Tools, resources and prompts beside our own, from somewhere else.
#pragma once

#include "api/mcp/call.h"

namespace hutch::mcp {

class Catalogue {
 public:
  virtual ~Catalogue() = default;
  virtual void add_tools(json::array& tools) const = 0;
  virtual void add_resources(json::array& resources) const = 0;
  virtual void add_templates(json::array& templates) const = 0;
  virtual void add_prompts(json::array& prompts) const = 0;
  // Asked first for tools/call, resources/read and prompts/get. Nothing: not one of its own.
  virtual net::awaitable<std::optional<Reply>> answer(const std::string& method, const json::object& params,
                                                      Call& call) = 0;
};

}  // namespace hutch::mcp
