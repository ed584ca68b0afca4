// What MCP clients want in their configuration so that they find us.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace hutch {

struct ClientConfig {
  std::string where;    // the file, or the command, in words
  std::string snippet;  // what belongs there
};

// `http` is the address of a daemon; empty: the client starts `program` itself.
Result<ClientConfig> client_config(const std::string& client, const std::string& program,
                                   const std::vector<std::string>& arguments, const std::string& http);

}  // namespace hutch
