// Where a model server is: https://HOST[:PORT][/PREFIX], or http:// for one of your own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hutch::agent {

struct BaseUrl {
  bool secure = false;
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = 0;
  std::string authority;  // for the Host header
  std::string prefix;     // empty, or begins with a slash and does not end with one

  static Result<BaseUrl> parse(std::string_view text);
  // Some write the version into the base, some do not: /v1 comes once.
  [[nodiscard]] std::string target(std::string_view path) const;
};

}  // namespace hutch::agent
