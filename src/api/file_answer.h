// A file to a client: ranges, HEAD, constant memory, and nothing a browser would show.
#pragma once

#include <string>

#include "api/api_error.h"
#include "base/unique_fd.h"

namespace hutch {

net::awaitable<Handled> answer_file(HttpExchange& exchange, UniqueFd file, std::string name, std::string content_type);

}  // namespace hutch
