#include "session/key_store.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "base/id.h"
#include "base/sha256.h"

namespace hutch {
namespace {

constexpr std::string_view kPrefix = "hutch_";
constexpr std::string_view kIdPrefix = "key_";
constexpr std::string_view kHexadecimal = "0123456789abcdef";
constexpr std::string_view kBase64Url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t kIdDigits = 24;
constexpr std::size_t kSecretDigits = 43;
constexpr std::size_t kPresentedSize = kPrefix.size() + kIdDigits + 1 + kSecretDigits;
constexpr std::size_t kLongestName = 100;
constexpr std::string_view kHashOfNothing = "0000000000000000000000000000000000000000000000000000000000000000";

struct Presented {
  std::string id;  // as stored
  std::string_view secret;
};

bool consists_of(std::string_view text, std::string_view alphabet) {
  return text.find_first_not_of(alphabet) == std::string_view::npos;
}

std::optional<Presented> parse(std::string_view text) {
  if (text.size() != kPresentedSize || !text.starts_with(kPrefix)) return std::nullopt;
  const auto id = text.substr(kPrefix.size(), kIdDigits);
  const auto secret = text.substr(kPresentedSize - kSecretDigits);
  if (text[kPrefix.size() + kIdDigits] != '_') return std::nullopt;
  if (!consists_of(id, kHexadecimal) || !consists_of(secret, kBase64Url)) return std::nullopt;
  return Presented{.id = std::string(kIdPrefix) + std::string(id), .secret = secret};
}

std::string random_secret() {
  std::array<unsigned char, 33> bytes{};  // the last one is zero: base64 takes three at a time
  if (::getrandom(bytes.data(), 32, 0) != 32) std::abort();
  std::string text;
  text.reserve(kSecretDigits + 1);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto word = static_cast<unsigned>(bytes[i]) << 16 | static_cast<unsigned>(bytes[i + 1]) << 8 | bytes[i + 2];
    for (const int shift : {18, 12, 6, 0}) text += kBase64Url[word >> shift & 63];
  }
  text.pop_back();
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return text;
}

struct FreshSecret {
  Secret presented;
  std::string sha256;
};

FreshSecret fresh_secret(std::string_view key_id) {
  std::string secret = random_secret();
  const std::string digits(key_id.substr(kIdPrefix.size()));
  // One round of a fast hash is enough: nobody guesses 256 random bits.
  FreshSecret fresh{.presented = Secret(std::string(kPrefix) + digits + "_" + secret), .sha256 = sha256_hex(secret)};
  OPENSSL_cleanse(secret.data(), secret.size());
  return fresh;
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<void> validate(const Key& key) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; };
  const auto invalid = [](const char* what) { return make_error(ErrorCode::invalid_argument, what); };
  if (key.name.empty() || key.name.size() > kLongestName) return invalid("the name of a key has 1 to 100 bytes");
  if (std::ranges::any_of(key.name, is_control)) return invalid("the name of a key is one line of text");
  const auto& budget = key.limits.budget_per_month;
  if (budget && (!std::isfinite(*budget) || *budget <= 0)) {
    return invalid("the budget of a key must be more than 0; a key without one may spend what it likes");
  }
  return {};
}

// The columns as select_ names them.
Key key_of(const Row& row) {
  Key key;
  key.secret_sha256 = row.text(0);
  key.id = row.text(1);
  key.name = row.text(2);
  key.owner = row.text(3);
  key.scopes = {.run = row.integer(4) != 0, .files = row.integer(5) != 0, .admin = row.integer(6) != 0};
  key.limits.concurrent_runs = row.maybe_integer<std::uint32_t>(7);
  key.limits.runs_per_minute = row.maybe_integer<std::uint32_t>(8);
  key.limits.memory_bytes = row.maybe_integer<std::uint64_t>(9);
  key.limits.cpu_seconds_per_month = row.maybe_integer<std::uint64_t>(10);
  if (!row.is_null(11)) key.limits.budget_per_month = row.real(11);
  key.limits.cache = row.integer(12) != 0;
  key.created_ns = row.integer(13);
  key.revoked_ns = row.maybe_integer<std::int64_t>(14);
  return key;
}

}  // namespace

Secret::~Secret() { OPENSSL_cleanse(text_.data(), text_.size()); }

Result<KeyStore> KeyStore::open(Database& database) {
  HUTCH_TRY(auto audit, AuditLog::open(database));
  KeyStore store(database, std::move(audit));
  // Once a rotated key had another id, and rotated_from was the one that it replaced.
  HUTCH_TRY(store.insert_, database.prepare(R"sql(
    INSERT INTO api_key(secret_sha256, id, name, owner, run, files, admin, concurrent_runs, runs_per_minute,
      memory_bytes, cpu_seconds_per_month, budget_per_month, cache, created_ns, revoked_ns, rotated_from)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, NULL, ''))sql"));
  HUTCH_TRY(store.select_, database.prepare(R"sql(
    SELECT secret_sha256, id, name, owner, run, files, admin, concurrent_runs, runs_per_minute,
      memory_bytes, cpu_seconds_per_month, budget_per_month, cache, created_ns, revoked_ns
    FROM api_key ORDER BY created_ns, id)sql"));
  HUTCH_TRY(store.revoke_, database.prepare("UPDATE api_key SET revoked_ns = coalesce(revoked_ns, ?2) WHERE id = ?1"));
  HUTCH_TRY(store.rotate_, database.prepare("UPDATE api_key SET secret_sha256 = ?2 WHERE id = ?1"));
  return store;
}

Result<NewKey> KeyStore::create(std::string_view name, KeyScopes scopes, const KeyLimits& limits,
                                std::string_view owner) {
  HUTCH_TRY(auto transaction, database_->begin());
  HUTCH_TRY(auto made, insert({.id = {},
                               .name = std::string(name),
                               .owner = std::string(owner),
                               .scopes = scopes,
                               .limits = limits,
                               .created_ns = now_ns(),
                               .revoked_ns = {},
                               .secret_sha256 = {}}));
  HUTCH_TRY(note("key_created", made.key.id, made.key.name));
  HUTCH_TRY(transaction.commit());
  return made;
}

// Whoever may write the database is the operator.
Result<void> KeyStore::note(std::string_view action, std::string_view id, std::string_view detail) {
  return audit_.append(now_ns(), "local", action, id, detail);
}

Result<NewKey> KeyStore::insert(Key key) {
  HUTCH_TRY(validate(key));
  known_version_.reset();
  key.id = random_id("key");
  auto fresh = fresh_secret(key.id);
  key.secret_sha256 = std::move(fresh.sha256);
  HUTCH_TRY(insert_.run(key.secret_sha256, key.id, key.name, key.owner, key.scopes.run, key.scopes.files,
                        key.scopes.admin, key.limits.concurrent_runs, key.limits.runs_per_minute,
                        key.limits.memory_bytes, key.limits.cpu_seconds_per_month, key.limits.budget_per_month,
                        key.limits.cache, key.created_ns));
  return NewKey{.key = std::move(key), .secret = std::move(fresh.presented)};
}

Result<std::vector<Key>> KeyStore::list() {
  std::vector<Key> keys;
  HUTCH_TRY(select_.for_each([&keys](const Row& row) { keys.push_back(key_of(row)); }));
  return keys;
}

Result<void> KeyStore::revoke(std::string_view id) {
  HUTCH_TRY(auto transaction, database_->begin());
  known_version_.reset();
  HUTCH_TRY(const auto changed, revoke_.run(id, now_ns()));
  if (changed == 0) return make_error(ErrorCode::not_found, "there is no key " + std::string(id));
  HUTCH_TRY(note("key_revoked", id));
  return transaction.commit();
}

Result<NewKey> KeyStore::rotate(std::string_view id) {
  HUTCH_TRY(auto transaction, database_->begin());
  HUTCH_TRY(auto keys, list());
  const auto key = std::ranges::find(keys, id, &Key::id);
  if (key == keys.end()) return make_error(ErrorCode::not_found, "there is no key " + std::string(id));
  if (key->revoked_ns) return make_error(ErrorCode::invalid_argument, "key " + key->id + " is revoked already");
  known_version_.reset();
  auto fresh = fresh_secret(key->id);
  key->secret_sha256 = std::move(fresh.sha256);
  HUTCH_TRY(rotate_.run(id, key->secret_sha256));
  HUTCH_TRY(note("key_rotated", id));
  HUTCH_TRY(transaction.commit());
  return NewKey{.key = std::move(*key), .secret = std::move(fresh.presented)};
}

Result<std::optional<Key>> KeyStore::find(std::string_view presented) {
  const auto parsed = parse(presented);
  if (!parsed) return std::optional<Key>{};
  HUTCH_TRY(refresh());
  const auto found = known_.find(parsed->id);
  const bool is_known = found != known_.end();
  const std::string_view expected = is_known ? std::string_view(found->second.secret_sha256) : kHashOfNothing;
  const std::string actual = sha256_hex(parsed->secret);
  // The same work whether or not the id exists.
  const bool matches =
      expected.size() == actual.size() && CRYPTO_memcmp(expected.data(), actual.data(), actual.size()) == 0;
  if (!is_known || !matches) return std::optional<Key>{};
  return std::optional<Key>{found->second};
}

Result<std::optional<Key>> KeyStore::get(std::string_view id) {
  HUTCH_TRY(refresh());
  const auto found = known_.find(id);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

Result<std::size_t> KeyStore::count() {
  HUTCH_TRY(refresh());
  return known_.size();
}

Result<void> KeyStore::refresh() {
  // Asked before reading: what is written in between makes the next call read again.
  HUTCH_TRY(const auto version, database_->data_version());
  if (known_version_ == version) return {};
  known_version_.reset();
  known_.clear();
  HUTCH_TRY(select_.for_each([this](const Row& row) {
    Key key = key_of(row);
    if (key.revoked_ns) return;
    std::string id = key.id;
    known_.insert_or_assign(std::move(id), std::move(key));
  }));
  known_version_ = version;
  return {};
}

}  // namespace hutch
