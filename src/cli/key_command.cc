#include "cli/key_command.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <functional>

#include "api/json_text.h"
#include "api/record_json.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

int fail(const Error& error) {
  Report().error(error.message, error.hint);
  return kOwnFailure;
}

int with_keys(const KeyOptions& options, const std::function<Result<void>(KeyStore&)>& work) {
  std::error_code ignored;
  std::filesystem::create_directories(options.data, ignored);
  auto database = Database::open(options.data / "hutch.db");
  if (!database) return fail(database.error());
  auto keys = KeyStore::open(*database);
  if (!keys) return fail(keys.error());
  const auto done = work(*keys);
  return done ? 0 : fail(done.error());
}

Result<KeyScopes> scopes_of(const std::vector<std::string>& names) {
  if (names.empty()) return KeyScopes{.run = true, .files = true};
  KeyScopes scopes;
  for (const auto& name : names) {
    if (name != "run" && name != "files" && name != "admin") {
      return make_error(ErrorCode::invalid_argument, "no scope is called " + printable(name))
          .with_hint("scopes are run, files and admin");
    }
    scopes.run = scopes.run || name == "run";
    scopes.files = scopes.files || name == "files";
    scopes.admin = scopes.admin || name == "admin";
  }
  return scopes;
}

template <class T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

std::string scopes_text(const KeyScopes& scopes) {
  std::string text;
  for (const auto& [has, name] : {std::pair{scopes.run, "run"}, {scopes.files, "files"}, {scopes.admin, "admin"}}) {
    if (has) text += (text.empty() ? "" : ",") + std::string(name);
  }
  return text;
}

json::object to_json(const Key& key) {
  return {{"id", key.id},
          {"name", key.name},
          {"scopes", scopes_text(key.scopes)},
          {"created_at", timestamp(key.created_ns)},
          {"revoked_at", key.revoked_ns ? json::value(timestamp(*key.revoked_ns)) : json::value(nullptr)},
          {"limits", json::object{{"concurrent_runs", or_null(key.limits.concurrent_runs)},
                                  {"runs_per_minute", or_null(key.limits.runs_per_minute)},
                                  {"memory_bytes", or_null(key.limits.memory_bytes)},
                                  {"cpu_seconds_per_month", or_null(key.limits.cpu_seconds_per_month)},
                                  {"budget_per_month", or_null(key.limits.budget_per_month)},
                                  {"cache", key.limits.cache}}}};
}

void show_new(const KeyOptions& options, const NewKey& made) {
  if (options.format == OutputFormat::json) {
    json::object shown = to_json(made.key);
    shown["key"] = made.secret.reveal();
    fmt::print("{}\n", json_text(shown));
    return;
  }
  fmt::print("{}\n", made.secret.reveal());
  Report().notice("key " + made.key.id + " for " + made.key.name + "; it is not shown again");
}

}  // namespace

int key_create(const KeyOptions& options) {
  return with_keys(options, [&](KeyStore& keys) -> Result<void> {
    HUTCH_TRY(const auto scopes, scopes_of(options.scopes));
    HUTCH_TRY(const auto made, keys.create(options.name, scopes, options.limits));
    show_new(options, made);
    return {};
  });
}

int key_list(const KeyOptions& options) {
  return with_keys(options, [&](KeyStore& keys) -> Result<void> {
    HUTCH_TRY(const auto all, keys.list());
    json::array shown;
    for (const auto& key : all) {
      if (options.format == OutputFormat::json) {
        shown.push_back(to_json(key));
      } else {
        fmt::print("{:<28} {:<20} {:<16} {} {}\n", key.id, key.name, scopes_text(key.scopes), timestamp(key.created_ns),
                   key.revoked_ns ? "revoked" : "");
      }
    }
    if (options.format == OutputFormat::json) fmt::print("{}\n", json_text(json::object{{"keys", std::move(shown)}}));
    return {};
  });
}

int key_revoke(const KeyOptions& options) {
  return with_keys(options, [&](KeyStore& keys) -> Result<void> { return keys.revoke(options.name); });
}

int key_rotate(const KeyOptions& options) {
  return with_keys(options, [&](KeyStore& keys) -> Result<void> {
    HUTCH_TRY(const auto made, keys.rotate(options.name));
    show_new(options, made);
    return {};
  });
}

}  // namespace hutch
