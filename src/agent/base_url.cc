#include "agent/base_url.h"

#include <algorithm>
#include <charconv>

namespace hutch::agent {
namespace {

constexpr std::size_t kMostBytes = 2000;

bool is_plain(char c) {
  return c > ' ' && c < 0x7f && std::string_view("\"<>\\^`{|}?#@").find(c) == std::string_view::npos;
}

bool read_port(std::string_view text, std::uint16_t& port) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  return failed == std::errc{} && end == text.data() + text.size() && port > 0;
}

}  // namespace

Result<BaseUrl> BaseUrl::parse(std::string_view text) {
  const auto refuse = [] {
    return make_error(ErrorCode::invalid_argument, "not the address of a model server")
        .with_hint("write it as https://api.anthropic.com or http://127.0.0.1:9000, with a path if there is one");
  };
  BaseUrl url{.secure = text.starts_with("https://")};
  if ((!url.secure && !text.starts_with("http://")) || text.size() > kMostBytes) return refuse();
  std::string_view rest = text.substr(url.secure ? 8 : 7);
  if (!std::ranges::all_of(rest, is_plain)) return refuse();
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  url.prefix = rest.substr(slash);
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  url.authority = rest.substr(0, slash);
  const std::string_view place = url.authority;
  const std::size_t colon = place.rfind(':');
  const bool has_port = colon != std::string_view::npos && place.find(']', colon) == std::string_view::npos;
  url.host = place.substr(0, has_port ? colon : place.size());
  url.port = url.secure ? 443 : 80;
  if (has_port && !read_port(place.substr(colon + 1), url.port)) return refuse();
  if (url.host.starts_with('[') && url.host.ends_with(']')) url.host = url.host.substr(1, url.host.size() - 2);
  if (url.host.empty()) return refuse();
  return url;
}

std::string BaseUrl::target(std::string_view path) const {
  if (prefix.ends_with("/v1") && path.starts_with("/v1/")) path.remove_prefix(3);
  return prefix + std::string(path);
}

}  // namespace hutch::agent
