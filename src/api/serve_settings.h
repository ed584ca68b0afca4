// How the daemon is set up.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "api/engine_server.h"
#include "api/http_server.h"
#include "sandbox/limits.h"
#include "session/live_run.h"
#include "session/result_cache.h"

namespace hutch {

struct ServeSettings {
  std::string listen = "127.0.0.1:8484";  // empty: no TCP
  std::string socket;                     // empty: in the runtime directory
  std::filesystem::path data;             // keys, database, runs, saved sessions
  std::string tls_certificate, tls_key;
  std::vector<std::string> hosts;    // names by which clients may call us, beside loopback ones
  std::vector<std::string> origins;  // of pages that may call us
  std::string ready_file;            // written when requests are served
  std::string log_file;
  bool weaker_limits = false;
  Limits limits;  // of a run that says nothing else
  std::string template_name;
  EngineSettings engine;
  HttpTimes times;
  std::uint32_t connections_per_peer = ConnectionCaps{}.per_peer;
  RunCaps caps;
  CacheLimits cache;
  std::uint64_t most_code = 1U << 20;
  std::uint64_t most_tool_code = 10U << 10;  // in a call of a tool
  std::vector<std::string> package_allowlist{"numpy",
                                             "pandas",
                                             "scipy",
                                             "scikit-learn",
                                             "statsmodels",
                                             "matplotlib",
                                             "seaborn",
                                             "plotly",
                                             "bokeh",
                                             "requests",
                                             "beautifulsoup4",
                                             "httpx",
                                             "fastapi",
                                             "python-dateutil",
                                             "pytz",
                                             "pydantic",
                                             "typing-extensions",
                                             "nltk",
                                             "spacy",
                                             "transformers",
                                             "sympy",
                                             "mpmath",
                                             "pillow"};  // of execute_python
  std::string agent_api = "anthropic";                   // or openai
  std::string agent_base_url;                            // empty: the provider's own
  std::string agent_model;
  std::string agent_key_file;               // empty: ANTHROPIC_API_KEY or OPENAI_API_KEY
  bool mcp_fixtures = false;                // tools for conformance suites
  std::uint64_t most_body = 64U << 20;      // JSON, files in it included
  std::uint64_t most_upload = 16ULL << 30;  // one file; the session's space is what counts
  std::uint32_t runs_per_minute = 10;       // of a key that says nothing else, when not on loopback only
  std::uint32_t concurrent_runs = 64;       // likewise, everywhere
  std::uint32_t sessions_per_key = 200;
  double price_per_cpu_second = 0;  // for budgets and cost figures
  std::chrono::seconds keep_runs = std::chrono::days(7);
  std::uint32_t keep_most_runs = 2'000;  // of a key
  std::uint64_t run_space = 8ULL << 30;  // for logs and files of runs, of all keys together
  std::chrono::milliseconds stop_grace = std::chrono::seconds(10);
};

// Serves until SIGTERM or SIGINT; what it made is gone by then.
Result<void> serve(const ServeSettings& settings, const std::string& version);

}  // namespace hutch
