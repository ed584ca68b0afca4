// Commands about the daemon: serve, its sessions, its keys.
#include "cli/agent_command.h"
#include "cli/commands.h"
#include "cli/key_command.h"
#include "cli/mcp_command.h"
#include "cli/serve_command.h"
#include "cli/session_command.h"
#include "cli/tools_command.h"

namespace hutch {
namespace {

struct KeyCommandLine {
  KeyOptions key;
  std::string data;
  bool json = false;
};

}  // namespace

Action define_serve(CLI::App& app, const Words&) {
  const auto serve = std::make_shared<ServeOptions>();
  app.add_option("--listen", serve->listen, "ADDRESS:PORT (default 127.0.0.1:8484; port 0: any; none: no TCP)");
  app.add_option("--socket", serve->socket, "Unix socket (default: serve.sock in the runtime directory)");
  app.add_option("--data", serve->data, "Directory for keys, results and saved sessions");
  app.add_option("--tls-certificate", serve->tls_certificate, "PEM file with the certificate chain");
  app.add_option("--tls-key", serve->tls_key, "PEM file with its key");
  app.add_option("--log", serve->log_file, "Append the log to this file instead of standard error");
  app.add_option("--ready-file", serve->ready_file, "Write the addresses here when requests are served");
  app.add_flag("--weaker-limits", serve->weaker_limits, "Where there are no control groups");
  app.add_flag("--conformance-fixtures", serve->mcp_fixtures, "Also what the test suites of MCP expect, at /mcp");
  return [serve](const Config& config) { return serve_command(*serve, config, HUTCH_VERSION); };
}

Action define_mcp(CLI::App& app, const Words&) {
  const auto mcp = std::make_shared<McpOptions>();
  app.add_option("--template", mcp->template_name, "The environment that code runs in");
  app.add_option("--tools", mcp->tools, "Only these, by name, or all (default: those of every day)")->delimiter(',');
  app.add_option("--print-config", mcp->client,
                 "What a client needs to find us: claude-desktop, claude-code, cursor, vscode, windsurf, zed, goose, "
                 "codex, gemini-cli");
  app.add_option("--http", mcp->http, "With --print-config: the address of a daemon, as https://HOST/mcp");
  app.add_flag("--weaker-limits", mcp->weaker_limits, "Where there are no control groups");
  app.add_flag("--conformance-fixtures", mcp->fixtures, "Also what the protocol's test suites expect");
  return [mcp](const Config& config) { return mcp_command(*mcp, config, HUTCH_VERSION); };
}

Action define_session(CLI::App& app, const Words&) {
  const auto session = std::make_shared<SessionOptions>();
  app.require_subcommand(1);
  app.add_option("--server", session->remote.server, "Which daemon (default: $HUTCH_SERVER, or your own)");
  app.add_option("--key", session->remote.key, "Its key (default: $HUTCH_KEY; your own needs none)");
  auto* ls = app.add_subcommand("ls", "Every session of yours");
  auto* create = app.add_subcommand("create", "A new session; prints its id");
  create->add_option("--name", session->name, "For people");
  create->add_option("--template", session->template_name);
  create->add_flag("--persist", session->persist, "Keep its files when the daemon restarts");
  auto* run = app.add_subcommand("run", "Run code in a session");
  run->add_option("ID", session->id)->required();
  run->add_option("FILE", session->what.file, "A Python file, or - for standard input");
  auto* code = run->add_option("-c", session->what.code, "The code itself");
  run->add_flag("--quiet", session->what.quiet);
  auto* variables = app.add_subcommand("vars", "The variables of a session, or a preview of one");
  variables->add_option("ID", session->id)->required();
  variables->add_option("NAME", session->text);
  auto* complete = app.add_subcommand("complete", "What could follow a piece of code");
  complete->add_option("ID", session->id)->required();
  complete->add_option("CODE", session->text)->required();
  auto* inspect = app.add_subcommand("inspect", "Signature, type and documentation of a name");
  inspect->add_option("ID", session->id)->required();
  inspect->add_option("NAME", session->text)->required();
  auto* interrupt = app.add_subcommand("interrupt", "Stop what runs in a session, as Ctrl-C does");
  interrupt->add_option("ID", session->id)->required();
  auto* restart = app.add_subcommand("restart", "A new interpreter; files stay, variables do not");
  restart->add_option("ID", session->id)->required();
  auto* attach = app.add_subcommand("attach", "A prompt in a session; others may watch");
  attach->add_option("ID", session->id)->required();
  auto* rm = app.add_subcommand("rm", "End a session");
  rm->add_option("ID", session->id)->required();
  for (auto* command : {ls, create, run, variables, complete, inspect, interrupt, restart}) {
    command->add_flag("--json", session->what.json);
  }
  for (auto* command : app.get_subcommands({})) command->fallthrough();
  return [=](const Config&) {
    session->format = session->what.json ? OutputFormat::json : OutputFormat::text;
    session->what.has_code = code->count() > 0;
    if (*run && !session->what.has_code && session->what.file.empty())
      return own_failure({.message = "nothing to run", .hint = "hutch session run ID FILE, - or -c CODE"});
    if (*ls) return session_list(*session);
    if (*create) return session_create(*session);
    if (*run) return session_run(*session);
    if (*variables) return session_variables(*session);
    if (*complete) return session_complete(*session);
    if (*inspect) return session_inspect(*session);
    if (*interrupt) return session_interrupt(*session);
    if (*restart) return session_restart(*session);
    return *attach ? session_attach(*session) : session_remove(*session);
  };
}

Action define_agent(CLI::App& app, const Words&) {
  const auto agent = std::make_shared<AgentOptions>();
  app.footer(
      "The key comes from ANTHROPIC_API_KEY or OPENAI_API_KEY, or from a file. It stays outside the sandbox.\n\n"
      "  hutch agent \"Which product grew most?\" --file sales.csv\n"
      "  hutch agent --api openai --base-url http://127.0.0.1:11434 --model qwen3 \"...\"");
  app.add_option("QUESTION", agent->question)->required();
  app.add_option("--file", agent->files, "A file to put into the sandbox; may be given more than once");
  app.add_option("--model", agent->model, "Which model (default: agent.model, or claude-opus-5)");
  app.add_option("--base-url", agent->base_url, "Where the model's API is");
  app.add_option("--api", agent->api, "How it speaks: anthropic (default) or openai");
  app.add_option("--key-file", agent->key_file, "A file with the key");
  app.add_option("--template", agent->template_name);
  app.add_option("--max-attempts", agent->attempts, "Runs of code that may fail (default 3)")->check(CLI::Range(1, 20));
  app.add_option("--max-iterations", agent->iterations, "Turns of the model (default 10)")->check(CLI::Range(1, 100));
  app.add_option("--transcript", agent->transcript, "Save everything that was said, as JSON");
  app.add_option("--notebook", agent->notebook, "Save what was run, as a Jupyter notebook");
  app.add_flag("--json", agent->json, "Print the report as JSON");
  app.add_flag("--quiet", agent->quiet, "Only the answer");
  app.add_flag("--weaker-limits", agent->weaker_limits, "Where there are no control groups");
  return [agent](const Config& config) { return agent_command(*agent, config, HUTCH_VERSION); };
}

Action define_tools(CLI::App& app, const Words&) {
  const auto tools = std::make_shared<ToolsOptions>();
  app.add_option("NAME", tools->names, "Which tools (default: the everyday ones; all: every one)");
  app.add_option("--format", tools->format, "anthropic, openai, openai-responses, mcp or gemini");
  return [tools](const Config& config) { return tools_command(*tools, config); };
}

Action define_key(CLI::App& app, const Words&) {
  const auto typed = std::make_shared<KeyCommandLine>();
  auto& key = typed->key;
  app.require_subcommand(1);
  app.add_option("--data", typed->data, "The daemon's directory");
  auto* create = app.add_subcommand("create", "Make a key; it is shown once");
  create->add_option("NAME", key.name, "Whose it is, for your own eyes")->required();
  create->add_option("--scope", key.scopes, "run, files, admin (default run and files)")->delimiter(',');
  create->add_option("--concurrent-runs", key.limits.concurrent_runs, "Runs at once");
  create->add_option("--runs-per-minute", key.limits.runs_per_minute, "0: no limit");
  create->add_option("--memory", key.limits.memory_bytes, "Bytes that one run may have at most");
  create->add_option("--cpu-seconds", key.limits.cpu_seconds_per_month, "Processor seconds a month");
  create->add_option("--budget", key.limits.budget_per_month, "Money a month, at serve.price_per_cpu_second");
  create->add_flag("--cache", key.limits.cache, "Answer identical runs from the cache unless a request says no");
  auto* list = app.add_subcommand("list", "Every key, without its secret");
  auto* revoke = app.add_subcommand("revoke", "Make a key useless, at once");
  revoke->add_option("ID", key.name)->required();
  auto* rotate = app.add_subcommand("rotate", "A new secret for a key, whose old one ends");
  rotate->add_option("ID", key.name)->required();
  for (auto* command : {create, list, rotate}) command->add_flag("--json", typed->json);
  for (auto* command : app.get_subcommands({})) command->fallthrough();
  return [=](const Config& config) {
    const auto data = serve_directory(typed->data, config);
    if (!data) return own_failure(data.error());
    auto& options = typed->key;
    options.data = *data;
    options.format = typed->json ? OutputFormat::json : OutputFormat::text;
    if (*create) return key_create(options);
    if (*list) return key_list(options);
    return *revoke ? key_revoke(options) : key_rotate(options);
  };
}

}  // namespace hutch
