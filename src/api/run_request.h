// What clients may ask for, read strictly from JSON.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>

#include "api/json_fields.h"
#include "api/serve_settings.h"
#include "session/hub.h"
#include "session/key_store.h"

namespace hutch {

struct Wait {
  std::optional<std::chrono::milliseconds> most;  // nothing: until it is over
  bool or_called = false;                         // or until the code calls a tool of the client
};

struct OneShotAsked {
  OneShot what;
  bool cache = false;
  Wait wait;
};

struct SessionAsked {
  SessionSettings settings;
  bool mode_given = false;
};

struct CellAsked {
  CellTask task;
  Wait wait;
};

struct SessionChange {
  std::optional<std::string> name;
  std::optional<std::map<std::string, std::string>> labels;
  std::optional<std::chrono::seconds> ttl;
};

wire::RunLimits default_limits(const ServeSettings& settings);
Api<OneShotAsked> read_one_shot(const boost::json::object& body, const ServeSettings& settings, const Key& key);
Api<SessionAsked> read_session(const boost::json::object& body, const ServeSettings& settings, const Key& key);
Api<CellAsked> read_cell(const boost::json::object& body, const ServeSettings& settings);
Api<SessionChange> read_session_change(const boost::json::object& body);

// Tools of the caller's that code may call: [{name, description, input_schema}].
Api<ToolOffer> read_tool_offer(const boost::json::array& tools);

// Everything that decides a result, in one hash.
std::string cache_digest(const OneShot& what, const std::string& template_fingerprint);

}  // namespace hutch
