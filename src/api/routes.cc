#include "api/routes.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"

namespace hutch {
namespace {

constexpr Route kRoutes[] = {
    {Method::get, "/healthz", Scope::none, healthz},
    {Method::get, "/readyz", Scope::none, readyz},
    {Method::get, "/metrics", Scope::admin, show_metrics},
    {Method::get, "/v1/openapi.json", Scope::none, show_openapi},
    {Method::get, "/v1/status", Scope::admin, show_status},
    {Method::get, "/v1/audit", Scope::admin, show_audit},
    {Method::get, "/v1/templates", Scope::run, list_templates},
    {Method::get, "/v1/usage", Scope::any, show_usage},
    {Method::get, "/v1/tools", Scope::any, list_tools},
    {Method::post, "/v1/tools/call", Scope::run, post_tool_call},
    {Method::post, "/v1/agent", Scope::run, post_agent},
    {Method::post, "/v1/run", Scope::run, post_run},
    {Method::get, "/v1/runs", Scope::run, list_runs},
    {Method::get, "/v1/runs/{run}", Scope::run, show_run},
    {Method::get, "/v1/runs/{run}/events", Scope::run, stream_run},
    {Method::get, "/v1/runs/{run}/log", Scope::run, show_log},
    {Method::get, "/v1/runs/{run}/files/{path...}", Scope::files, show_run_file},
    {Method::post, "/v1/runs/{run}/cancel", Scope::run, cancel_run},
    {Method::post, "/v1/runs/{run}/tool_results", Scope::run, post_tool_results},
    {Method::post, "/v1/notebooks/run", Scope::run, run_notebook},
    {Method::post, "/v1/sessions", Scope::run, create_session},
    {Method::get, "/v1/sessions", Scope::run, list_sessions},
    {Method::get, "/v1/sessions/{session}", Scope::run, show_session},
    {Method::patch, "/v1/sessions/{session}", Scope::run, change_session},
    {Method::del, "/v1/sessions/{session}", Scope::run, delete_session},
    {Method::post, "/v1/sessions/{session}/runs", Scope::run, post_session_run},
    {Method::get, "/v1/sessions/{session}/runs", Scope::run, list_session_runs},
    {Method::get, "/v1/sessions/{session}/runs/{run}", Scope::run, show_session_run},
    {Method::post, "/v1/sessions/{session}/interrupt", Scope::run, interrupt_session},
    {Method::post, "/v1/sessions/{session}/restart", Scope::run, restart_session},
    {Method::post, "/v1/sessions/{session}/stdin", Scope::run, send_stdin},
    {Method::post, "/v1/sessions/{session}/complete", Scope::run, complete_code},
    {Method::post, "/v1/sessions/{session}/inspect", Scope::run, inspect_code},
    {Method::get, "/v1/sessions/{session}/variables", Scope::run, list_variables},
    {Method::get, "/v1/sessions/{session}/variables/{name}", Scope::run, show_variable},
    {Method::get, "/v1/sessions/{session}/notebook", Scope::run, download_notebook},
    {Method::get, "/v1/sessions/{session}/events", Scope::run, stream_session},
    {Method::get, "/v1/sessions/{session}/stream", Scope::run, attach_session},
    {Method::get, "/v1/sessions/{session}/files/{path...}", Scope::files, get_file},
    {Method::put, "/v1/sessions/{session}/files/{path...}", Scope::files, put_file},
    {Method::post, "/v1/sessions/{session}/files/{path...}", Scope::files, post_file},
    {Method::del, "/v1/sessions/{session}/files/{path...}", Scope::files, delete_file},
    {Method::post, "/mcp", Scope::run, post_mcp},
    {Method::get, "/mcp", Scope::run, get_mcp},
    {Method::del, "/mcp", Scope::run, delete_mcp},
};

std::string_view name_of(Method method) {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::head:
      return "HEAD";
    case Method::post:
      return "POST";
    case Method::put:
      return "PUT";
    case Method::patch:
      return "PATCH";
    case Method::del:
      return "DELETE";
    case Method::options:
      return "OPTIONS";
    case Method::other:
      break;
  }
  return "";
}

std::string_view take_part(std::string_view& path) {
  const std::size_t slash = std::min(path.find('/', 1), path.size());
  const std::string_view part = path.substr(1, slash - 1);
  path.remove_prefix(slash);
  return part;
}

// Nothing when the path is not of this form, or its escapes are broken.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path) {
  std::vector<std::string> parameters;
  while (!pattern.empty()) {
    if (path.empty() && pattern != "/{path...}") return std::nullopt;
    const std::string_view wanted = take_part(pattern);
    if (wanted == "{path...}") {
      auto rest = percent_decode(path.empty() ? path : path.substr(1));
      if (!rest) return std::nullopt;
      parameters.push_back(std::move(*rest));
      return parameters;
    }
    const std::string_view part = take_part(path);
    if (wanted.starts_with('{')) {
      auto decoded = percent_decode(part);
      if (!decoded || decoded->empty()) return std::nullopt;
      parameters.push_back(std::move(*decoded));
    } else if (wanted != part) {
      return std::nullopt;
    }
  }
  if (!path.empty()) return std::nullopt;
  return parameters;
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

Match find_route(Method method, std::string_view path) {
  Match result;
  if (path.empty() || path.front() != '/') return result;
  const Method wanted = method == Method::head ? Method::get : method;
  for (const auto& route : kRoutes) {
    auto parameters = match(route.pattern, path);
    if (!parameters) continue;
    if (route.method == wanted) {
      result.route = &route;
      result.parameters = std::move(*parameters);
      return result;
    }
    if (!result.allowed.empty()) result.allowed += ", ";
    result.allowed += name_of(route.method);
    if (route.method == Method::get) result.allowed += ", HEAD";
  }
  return result;
}

const std::string* Request::find(std::string_view name) const {
  const auto found = std::ranges::find(query, name, [](const auto& pair) -> std::string_view { return pair.first; });
  return found == query.end() ? nullptr : &found->second;
}

Handled Request::only(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : query) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return std::unexpected(bad_request("unknown parameter: " + printable(name.substr(0, 100)), {}, "unknown_field"));
  }
  return {};
}

Api<std::uint64_t> Request::number(std::string_view name, std::uint64_t otherwise, std::uint64_t most) const {
  const std::string* text = find(name);
  if (text == nullptr) return otherwise;
  std::uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [at, problem] = std::from_chars(text->data(), end, value);
  if (text->empty() || problem != std::errc{} || at != end || value > most) {
    return std::unexpected(bad_request(std::string(name) + " must be a number of at most " + std::to_string(most)));
  }
  return value;
}

Api<bool> Request::flag(std::string_view name) const {
  const std::string* text = find(name);
  if (text == nullptr || *text == "false" || *text == "0") return false;
  if (*text == "true" || *text == "1") return true;
  return std::unexpected(bad_request(std::string(name) + " must be true or false"));
}

}  // namespace hutch
