// The tools that agents are given. Every format of definitions, the check of arguments, the handlers and the
// documentation come from this one registry.
#pragma once

#include <boost/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_error.h"
#include "api/scope.h"
#include "api/serve_settings.h"

namespace hutch {

struct ToolCall;
struct ToolResult;
using ToolHandler = net::awaitable<Api<ToolResult>> (*)(ToolCall& call);

struct Tool {
  std::string name;
  std::string title;
  std::string description;
  boost::json::object input_schema;   // what is told is what is enforced: tools/schema.h
  boost::json::object output_schema;  // of ToolResult::structured
  bool read_only = false;
  bool destructive = false;
  bool runs_code = false;  // counts as a run, against the key's limits
  bool everyday = true;    // offered unless others are asked for by name
  Scope scope = Scope::run;
  ToolHandler handler = nullptr;
};

// Limits that depend on the configuration are in the schemas.
class ToolRegistry {
 public:
  explicit ToolRegistry(const ServeSettings& settings);
  [[nodiscard]] std::span<const Tool> all() const { return tools_; }
  [[nodiscard]] const Tool* find(std::string_view name) const;  // also by the names that models were trained on

 private:
  std::vector<Tool> tools_;
};

}  // namespace hutch
