// API keys. A key is `hutch_<24 hex>_<43 base64url>`: a public id and 256 random bits, shown once when it is made; only
// the hash of the secret is stored. `hutch key` changes them while the daemon reads: every find() sees what is on disk.
// What is done with keys is in the audit log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/audit_log.h"
#include "session/database.h"

namespace hutch {

struct KeyScopes {
  bool run = false;
  bool files = false;
  bool admin = false;
};

// Without a value: the key says nothing, and the daemon's own limit holds.
struct KeyLimits {
  std::optional<std::uint32_t> concurrent_runs;
  std::optional<std::uint32_t> runs_per_minute;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> cpu_seconds_per_month;
  std::optional<double> budget_per_month;
  bool cache = false;
};

struct Key {
  std::string id;  // key_<24 hex>
  std::string name;
  std::string owner;
  KeyScopes scopes;
  KeyLimits limits;
  std::int64_t created_ns = 0;
  std::optional<std::int64_t> revoked_ns;
  std::string secret_sha256;  // of the secret that opens it now: another after each rotation
};

// What the holder of a key presents. Has no way to a log or a stream but reveal(), and is wiped when it goes.
class Secret {
 public:
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(Secret&&) noexcept = default;
  Secret& operator=(Secret&&) = delete;
  ~Secret();
  [[nodiscard]] const std::string& reveal() const { return text_; }

 private:
  std::string text_;
};

struct NewKey {
  Key key;
  Secret secret;
};

// One per Database, which outlives it: what another KeyStore of the same Database writes is not noticed.
class KeyStore {
 public:
  static Result<KeyStore> open(Database& database);

  Result<NewKey> create(std::string_view name, KeyScopes scopes, const KeyLimits& limits, std::string_view owner = {});
  Result<std::vector<Key>> list();  // oldest first, with the revoked ones
  Result<void> revoke(std::string_view id);
  // Another secret for the same key, whose tenant stays who it is; the old one opens nothing from that moment on.
  Result<NewKey> rotate(std::string_view id);

  // The key that was presented; nothing when it is garbled, unknown or revoked, without telling which.
  Result<std::optional<Key>> find(std::string_view presented);
  Result<std::optional<Key>> get(std::string_view id);  // nothing when it is unknown or revoked
  Result<std::size_t> count();                          // of keys that are not revoked

 private:
  KeyStore(Database& database, AuditLog audit) : database_(&database), audit_(std::move(audit)) {}
  Result<void> refresh();
  Result<NewKey> insert(Key key);
  Result<void> note(std::string_view action, std::string_view id, std::string_view detail = {});

  Database* database_;
  AuditLog audit_;
  Statement insert_;
  Statement select_;
  Statement revoke_;
  Statement rotate_;
  std::map<std::string, Key, std::less<>> known_;  // not revoked, by id
  std::optional<std::int64_t> known_version_;      // of the database; nothing: known_ is out of date
};

}  // namespace hutch
