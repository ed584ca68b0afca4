// The API in one table: what can be asked, who may ask it, and who answers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/daemon.h"
#include "api/http_text.h"
#include "api/scope.h"

namespace hutch {

// One request on its way through its handler.
struct Request {
  Daemon& daemon;
  HttpExchange& exchange;
  Caller caller;
  std::vector<std::string> parameters;  // of the path, decoded, in order
  NamedValues query;

  // Nothing when it was not given.
  [[nodiscard]] const std::string* find(std::string_view name) const;
  // Every name that was given must be one of these.
  [[nodiscard]] Handled only(std::initializer_list<std::string_view> known) const;
  [[nodiscard]] Api<std::uint64_t> number(std::string_view name, std::uint64_t otherwise, std::uint64_t most) const;
  [[nodiscard]] Api<bool> flag(std::string_view name) const;
};

using Handler = net::awaitable<Handled> (*)(Request& request);

struct Route {
  Method method;
  std::string_view pattern;  // {name} is one part, {path...} the rest, which may be empty
  Scope scope;
  Handler handler;
};

std::span<const Route> routes();

struct Match {
  const Route* route = nullptr;
  std::vector<std::string> parameters;
  std::string allowed;  // when the path is known and the method is not
};
Match find_route(Method method, std::string_view path);

// handlers_run.cc
net::awaitable<Handled> post_run(Request& request);
net::awaitable<Handled> list_runs(Request& request);
net::awaitable<Handled> show_run(Request& request);
net::awaitable<Handled> stream_run(Request& request);
net::awaitable<Handled> show_log(Request& request);
net::awaitable<Handled> show_run_file(Request& request);
net::awaitable<Handled> cancel_run(Request& request);
// handlers_tool_calls.cc
net::awaitable<Handled> post_tool_results(Request& request);
// handlers_session.cc
net::awaitable<Handled> create_session(Request& request);
net::awaitable<Handled> list_sessions(Request& request);
net::awaitable<Handled> show_session(Request& request);
net::awaitable<Handled> change_session(Request& request);
net::awaitable<Handled> delete_session(Request& request);
net::awaitable<Handled> post_session_run(Request& request);
net::awaitable<Handled> list_session_runs(Request& request);
net::awaitable<Handled> show_session_run(Request& request);
net::awaitable<Handled> interrupt_session(Request& request);
net::awaitable<Handled> restart_session(Request& request);
net::awaitable<Handled> send_stdin(Request& request);
net::awaitable<Handled> complete_code(Request& request);
net::awaitable<Handled> inspect_code(Request& request);
net::awaitable<Handled> list_variables(Request& request);
net::awaitable<Handled> show_variable(Request& request);
net::awaitable<Handled> stream_session(Request& request);
net::awaitable<Handled> attach_session(Request& request);
// handlers_notebook.cc
net::awaitable<Handled> run_notebook(Request& request);
net::awaitable<Handled> download_notebook(Request& request);
// handlers_files.cc
net::awaitable<Handled> get_file(Request& request);
net::awaitable<Handled> put_file(Request& request);
net::awaitable<Handled> post_file(Request& request);
net::awaitable<Handled> delete_file(Request& request);
// handlers_agent.cc
net::awaitable<Handled> post_agent(Request& request);
// handlers_tools.cc
net::awaitable<Handled> list_tools(Request& request);
net::awaitable<Handled> post_tool_call(Request& request);
// handlers_service.cc
net::awaitable<Handled> healthz(Request& request);
net::awaitable<Handled> readyz(Request& request);
net::awaitable<Handled> show_metrics(Request& request);
net::awaitable<Handled> show_openapi(Request& request);
net::awaitable<Handled> show_status(Request& request);
net::awaitable<Handled> show_audit(Request& request);
net::awaitable<Handled> list_templates(Request& request);
net::awaitable<Handled> show_usage(Request& request);
// mcp/http.cc
net::awaitable<Handled> post_mcp(Request& request);
net::awaitable<Handled> get_mcp(Request& request);
net::awaitable<Handled> delete_mcp(Request& request);

}  // namespace hutch
