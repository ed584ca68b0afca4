// The MCP server without a transport: every method of both eras. stdio and HTTP hand it requests that are well-formed
// and whose era is known; what it has to say meanwhile goes through the call's `notify`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/mcp/catalogue.h"
#include "api/mcp/watchers.h"

namespace hutch::mcp {

struct ServerOptions {
  std::vector<std::string> tools;  // by name; empty: those of every day; "all": all
};

class Server {
 public:
  Server(Daemon& daemon, ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Never `initialize`, which is the transport's: it makes what a legacy client is remembered by.
  net::awaitable<Reply> answer(RpcRequest request, Call& call);
  Rpc<json::object> initialize(const json::object& params, LegacyState& state);

  [[nodiscard]] bool offers(const Tool& tool, const Caller& caller) const;
  [[nodiscard]] Daemon& daemon() const { return daemon_; }
  void set_extra(std::unique_ptr<Catalogue> extra) { extra_ = std::move(extra); }
  [[nodiscard]] json::object information() const;
  Watchers watchers;

 private:
  // `params` are what answer() has, and listen(), which lasts, leaves nothing of them.
  net::awaitable<Reply> answer_legacy(const std::string& method, const json::object& params, Call& call);
  net::awaitable<Reply> listen(json::object& params, Call& call);
  net::awaitable<Reply> answer_both(const std::string& method, json::object& params, Call& call);
  [[nodiscard]] bool knows_resource(std::string_view uri) const;

  Daemon& daemon_;
  ServerOptions options_;
  std::unique_ptr<Catalogue> extra_;
};

// The parts, each in a file of its own. tools.cc:
json::array tool_definitions(const Server& server, const Caller& caller);
net::awaitable<Reply> call_tool(Server& server, const json::object& params, Call& call);
// resources.cc
net::awaitable<json::array> list_resources(Call& call);
json::array resource_templates();
net::awaitable<Reply> read_resource(std::string uri, Call& call);
// completion.cc
net::awaitable<Reply> complete(const json::object& params, Call& call);
// prompts.cc
json::array prompt_definitions();
Reply get_prompt(const json::object& params);

// The part of a list that a cursor asks for, and where the next begins.
Reply page_of(json::array items, std::string_view field, const json::object& params);

}  // namespace hutch::mcp
