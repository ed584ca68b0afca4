#include "session/session_store.h"

namespace hutch {
namespace {

StoredSession session_of(const Row& row) {
  StoredSession session;
  session.id = row.text(0);
  session.key_id = row.text(1);
  session.name = row.text(2);
  session.labels = row.text(3);
  session.template_name = row.text(4);
  session.mode = row.text(5);
  session.options = row.text(6);
  session.state = row.text(7);
  session.created_ns = row.integer(8);
  session.last_used_ns = row.integer(9);
  session.ttl_s = row.integer(10);
  session.max_age_s = row.integer(11);
  session.persist = row.integer(12) != 0;
  session.execution_count = static_cast<std::uint32_t>(row.integer(13));
  return session;
}

Error no_such_session(std::string_view id) {
  return make_error(ErrorCode::not_found, "there is no session " + std::string(id));
}

}  // namespace

// In the order of session_of() and save().
#define HUTCH_SESSION_COLUMNS                                                                                   \
  "id, key_id, name, labels, template_name, mode, options, state, created_ns, last_used_ns, ttl_s, max_age_s, " \
  "persist, execution_count"

Result<SessionStore> SessionStore::open(Database& database) {
  SessionStore store;
  HUTCH_TRY(store.save_, database.prepare("INSERT INTO session(" HUTCH_SESSION_COLUMNS R"sql()
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
    ON CONFLICT(id) DO UPDATE SET name = excluded.name, labels = excluded.labels,
      template_name = excluded.template_name, mode = excluded.mode, options = excluded.options, state = excluded.state,
      last_used_ns = excluded.last_used_ns, ttl_s = excluded.ttl_s, max_age_s = excluded.max_age_s,
      persist = excluded.persist, execution_count = excluded.execution_count
    WHERE session.key_id = excluded.key_id)sql"));
  HUTCH_TRY(store.get_,
            database.prepare("SELECT " HUTCH_SESSION_COLUMNS " FROM session WHERE id = ?1 AND key_id = ?2"));
  HUTCH_TRY(store.list_, database.prepare("SELECT " HUTCH_SESSION_COLUMNS
                                          " FROM session WHERE key_id = ?1 ORDER BY created_ns DESC, id DESC"));
  HUTCH_TRY(store.all_, database.prepare("SELECT " HUTCH_SESSION_COLUMNS " FROM session ORDER BY created_ns, id"));
  HUTCH_TRY(store.remove_, database.prepare("DELETE FROM session WHERE id = ?1"));
  HUTCH_TRY(store.note_use_, database.prepare("UPDATE session SET last_used_ns = ?2 WHERE id = ?1"));
  store.database_ = &database;
  return store;
}

Result<void> SessionStore::save(const StoredSession& session) {
  HUTCH_TRY(const auto changed,
            save_.run(session.id, session.key_id, session.name, session.labels, session.template_name, session.mode,
                      session.options, session.state, session.created_ns, session.last_used_ns, session.ttl_s,
                      session.max_age_s, session.persist, session.execution_count));
  if (changed == 0) return no_such_session(session.id);  // it is another key's
  return {};
}

Result<std::optional<StoredSession>> SessionStore::get(std::string_view id, std::string_view key_id) {
  std::optional<StoredSession> found;
  HUTCH_TRY(get_.for_each([&found](const Row& row) { found = session_of(row); }, id, key_id));
  return found;
}

Result<std::vector<StoredSession>> SessionStore::list(std::string_view key_id) {
  std::vector<StoredSession> sessions;
  HUTCH_TRY(list_.for_each([&sessions](const Row& row) { sessions.push_back(session_of(row)); }, key_id));
  return sessions;
}

Result<std::vector<StoredSession>> SessionStore::all() {
  std::vector<StoredSession> sessions;
  HUTCH_TRY(all_.for_each([&sessions](const Row& row) { sessions.push_back(session_of(row)); }));
  return sessions;
}

Result<void> SessionStore::remove(std::string_view id) {
  HUTCH_TRY(remove_.run(id));
  return {};
}

Result<void> SessionStore::note_uses(std::span<const SessionUse> uses) {
  HUTCH_TRY(auto transaction, database_->begin());
  for (const auto& use : uses) HUTCH_TRY(note_use_.run(use.id, use.last_used_ns));
  return transaction.commit();
}

}  // namespace hutch
