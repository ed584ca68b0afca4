#include "session/hub.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/write.hpp>

#include "base/id.h"
#include "base/log.h"

namespace hutch {
namespace {

constexpr auto kRemembered = std::chrono::seconds(30);  // in memory, after the end
constexpr std::size_t kMostRemembered = 256;
constexpr std::size_t kMostRememberedBytes = 32U << 20;
constexpr auto kLook = std::chrono::seconds(1);
constexpr std::size_t kRounds = 10;  // in which every session is charged once
constexpr auto kWorthCharging = std::chrono::milliseconds(10);
constexpr auto kTimeToStop = std::chrono::seconds(2);  // of all that is cancelled at the end
constexpr auto kWarning = std::chrono::seconds(60);    // before a session expires

Admission::Owner owner_of(const std::string& key_id) { return Workers::owner_of(key_id); }

class OneShotSink final : public RunSink {
 public:
  explicit OneShotSink(LiveRun& run) : run_(run) {}
  void on_output(wire::OutputEvent event) override { run_.add_output(event); }
  void on_file(CollectedFile file) override { files.push_back(std::move(file)); }
  void on_cell_done(wire::CellStatus, wire::Record) override {}
  void on_tool_call(std::shared_ptr<const PendingToolCall> call) override { run_.add_tool_call(std::move(call)); }
  void on_tool_call_done(const std::string& call_id, ToolCallEnd how) override { run_.end_tool_call(call_id, how); }

  std::vector<CollectedFile> files;

 private:
  LiveRun& run_;
};

// Named by their place in the list: no name that a program chose becomes a name on the host. What had several names in
// the workspace has them here, and takes its space once.
void keep_contents(const std::filesystem::path& directory, std::vector<CollectedFile>& files) {
  std::error_code ignored;
  std::filesystem::create_directory(directory, ignored);
  std::map<ino_t, std::filesystem::path> copies;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const UniqueFd content = std::move(files[i].content);
    struct stat status{};
    if (!content || ::fstat(content.get(), &status) != 0) continue;
    const auto path = directory / std::to_string(i);
    if (const auto first = copies.find(status.st_ino); first != copies.end()) {
      std::filesystem::create_hard_link(first->second, path, ignored);
      continue;
    }
    const UniqueFd copy{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!copy) continue;
    if (copy_as_hashed(content.get(), copy.get(), files[i])) {
      copies.emplace(status.st_ino, path);
    } else {
      ::unlink(path.c_str());  // rather none than another
    }
  }
}

net::awaitable<void> feed(net::any_io_executor executor, std::string text, UniqueFd end,
                          [[maybe_unused]] std::shared_ptr<const void> kept) {
  net::posix::stream_descriptor pipe(executor, end.release());
  boost::system::error_code failed;
  co_await net::async_write(pipe, net::buffer(text), net::redirect_error(net::use_awaitable, failed));
}

}  // namespace

Result<std::shared_ptr<LiveRun>> Hub::run_once(OneShot what, const std::string& key_id) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return system_error(errno).during("make a pipe");
  const std::string id = random_id("exe");
  RunSpec spec{.request = std::move(what.request),
               .files = std::move(what.files),
               .input = UniqueFd{pipe[0]},
               .tell_all = true,
               .tools = std::move(what.tools),
               .kept = what.kept,
               .ids = {.request = what.request_id, .run = id}};
  UniqueFd input_end{pipe[1]};
  spec.request.want_files = what.keep_files;
  auto run = std::make_shared<LiveRun>(engine_.executor(),
                                       RunIdentity{.id = id,
                                                   .key_id = key_id,
                                                   .template_name = spec.request.template_name,
                                                   .request_id = std::move(what.request_id)},
                                       caps_for(spec.request.limits));
  auto sink = std::make_shared<OneShotSink>(*run);
  HUTCH_TRY(auto admitted, engine_.admit(std::move(spec), *sink));
  enlist(run);
  run->cancel = [weak = std::weak_ptr<Run>(admitted)] {
    if (const auto self = weak.lock()) self->cancel();
  };
  run->give_tool_result = [weak = std::weak_ptr<Run>(admitted)](const std::string& call_id, bool ok,
                                                                std::string text) -> Result<void> {
    const auto self = weak.lock();
    if (!self) return make_error(ErrorCode::not_found, "no call of this id is pending");
    return self->answer_tool_call(call_id, ok, std::move(text));
  };
  admitted->on_placed = [weak = std::weak_ptr<LiveRun>(run)] {
    if (const auto live = weak.lock()) live->start();
  };
  run->queue(nullptr);
  const auto execute = [](Hub& hub, std::shared_ptr<LiveRun> live, std::shared_ptr<Run> program,
                          std::shared_ptr<OneShotSink> collected, bool keep_files) -> net::awaitable<void> {
    try {
      auto record = co_await hub.engine_.execute(program, owner_of(live->identity().key_id));
      if (!record) {
        live->fail(record.error());
        co_return;
      }
      if (keep_files && !collected->files.empty()) {
        co_await hub.engine_.workers().run(program->owner, [path = live->files_path(), &files = collected->files] {
          keep_contents(path, files);
          return true;
        });
      }
      for (auto& file : collected->files) live->add_file(std::move(file.entry));
      live->finish(std::move(*record));
    } catch (const std::exception& error) {  // whoever waits for it is to hear of an end
      log::error("run lost",
                 {{"request", live->identity().request_id}, {"run", live->identity().id}, {"error", error.what()}});
      if (live->stage() != RunStage::finished) live->fail({.error = could_not_go_on()});
    }
  };
  net::co_spawn(engine_.executor(), execute(*this, run, std::move(admitted), std::move(sink), what.keep_files),
                net::detached);
  if (what.input.empty()) return run;
  net::co_spawn(engine_.executor(),
                feed(engine_.executor(), std::move(what.input), std::move(input_end), std::move(what.kept)),
                net::detached);
  return run;
}

// A run may ask for less to be kept than usual, never for more.
RunCaps Hub::caps_for(const wire::RunLimits& limits) const {
  RunCaps caps = options_.caps;
  caps.of_stream = Bytes{std::min(caps.of_stream.count, limits.output)};
  return caps;
}

Result<std::shared_ptr<LiveRun>> Hub::run_in(Session& session, CellTask task) {
  const auto& settings = session.settings();
  auto run = std::make_shared<LiveRun>(engine_.executor(),
                                       RunIdentity{.id = random_id("exe"),
                                                   .key_id = settings.key_id,
                                                   .session_id = settings.id,
                                                   .template_name = settings.template_name,
                                                   .request_id = std::move(task.request_id)},
                                       caps_for(settings.limits));
  run->source = task.what.code;
  run->is_command = task.what.is_command;
  enlist(run);
  session.submit(run, std::move(task));
  return run;
}

void Hub::enlist(const std::shared_ptr<LiveRun>& run) {
  runs_[run->identity().id] = run;
  ++running_[run->identity().key_id];
  run->on_finished = [this](LiveRun& live) {
    const auto count = running_.find(live.identity().key_id);
    if (--count->second == 0) running_.erase(count);
    if (on_run_finished) on_run_finished(live);
    finished_.push_back({.at = Clock::now(), .id = live.identity().id, .bytes = live.weight()});
    finished_bytes_ += finished_.back().bytes;
    forget_finished();
  };
}

void Hub::forget_finished() {
  while (!finished_.empty() && (finished_.size() > kMostRemembered || finished_bytes_ > kMostRememberedBytes ||
                                finished_.front().at + kRemembered < Clock::now())) {
    runs_.erase(finished_.front().id);
    finished_bytes_ -= finished_.front().bytes;
    finished_.pop_front();
  }
}

std::shared_ptr<LiveRun> Hub::find_run(std::string_view id, std::string_view key_id) const {
  const auto found = runs_.find(id);
  return found == runs_.end() || found->second->identity().key_id != key_id ? nullptr : found->second;
}

std::uint32_t Hub::running(std::string_view key_id) const {
  const auto found = running_.find(key_id);
  return found == running_.end() ? 0 : found->second;
}

std::shared_ptr<Session> Hub::add_session(SessionSettings settings) {
  const auto owner = owner_of(settings.key_id);
  const std::string id = settings.id;
  auto session = std::make_shared<Session>(engine_, std::move(settings), owner);
  session->on_changed = [this](Session& changed) {
    // A run may come to its end while its session is being ended, which is in no list any more.
    if (on_session_changed && sessions_.contains(changed.settings().id)) on_session_changed(changed);
  };
  session->on_cpu_used = [this](Session& spender, std::uint64_t cpu_us) {
    try {
      if (on_cpu_used) on_cpu_used(spender, cpu_us);
    } catch (const std::exception& error) {  // a session that is to end ends all the same
      log::error("processor time not charged", {{"session", spender.settings().id}, {"error", error.what()}});
    }
  };
  sessions_[id] = session;
  return session;
}

std::shared_ptr<Session> Hub::find_session(std::string_view id, std::string_view key_id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() || found->second->settings().key_id != key_id ? nullptr : found->second;
}

std::vector<std::shared_ptr<Session>> Hub::sessions_of(std::string_view key_id) const {
  std::vector<std::shared_ptr<Session>> result;
  for (const auto& [id, session] : sessions_) {
    if (session->settings().key_id == key_id) result.push_back(session);
  }
  std::ranges::sort(result, std::greater{}, [](const auto& session) { return session->created_ns; });
  return result;
}

net::awaitable<void> Hub::end_session(std::shared_ptr<Session> session, std::string reason) {
  if (sessions_.erase(session->settings().id) == 0) co_return;  // somebody else does it
  if (on_session_ended) on_session_ended(*session, reason);
  const auto over = std::make_shared<Event>(engine_.executor());
  endings_.spawn(end_for_good(std::move(session), std::move(reason), over));
  co_await over->wait();
}

net::awaitable<void> Hub::end_for_good(std::shared_ptr<Session> session, std::string reason,
                                       std::shared_ptr<Event> over) {
  try {
    co_await session->end(std::move(reason));
  } catch (const std::exception& error) {
    log::error("session not ended", {{"session", session->settings().id}, {"error", error.what()}});
  }
  std::error_code ignored;
  std::filesystem::remove(session->settings().saved_files, ignored);  // nobody writes it any more
  over->set();
}

void Hub::remove_orphans() const {
  std::error_code failed;
  std::error_code ignored;
  std::filesystem::directory_iterator entry(options_.sessions_directory, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const auto& path = entry->path();
    const auto found = sessions_.find(path.stem().string());
    if (found == sessions_.end() || found->second->settings().saved_files != path) {
      std::filesystem::remove(path, ignored);
    }
  }
}

// Not all at once: the kernel takes a while to count.
void Hub::charge_some() {
  auto next = sessions_.upper_bound(last_charged_);
  for (std::size_t left = sessions_.empty() ? 0 : sessions_.size() / kRounds + 1; left > 0; --left) {
    if (next == sessions_.end()) next = sessions_.begin();
    last_charged_ = next->first;
    (next++)->second->charge(kWorthCharging);
  }
}

net::awaitable<void> Hub::tend() {
  boost::system::error_code ignored;
  while (!stopping_) {
    const std::int64_t now = system_now_ns();
    std::vector<std::shared_ptr<Session>> expired;
    for (const auto& [id, session] : sessions_) {
      const bool too_old = session->created_ns + std::chrono::nanoseconds(session->settings().max_age).count() <= now;
      if (session->state() == SessionState::busy && !too_old) continue;
      if (session->expires_ns() <= now) {
        expired.push_back(session);
      } else if (session->expires_ns() - now < std::chrono::nanoseconds(kWarning).count()) {
        session->warn_of_expiry();
      }
    }
    for (auto& session : expired) {  // none waits for another
      net::co_spawn(engine_.executor(), end_session(session, "expired"), net::detached);
    }
    charge_some();
    engine_.mind_processors();
    forget_finished();
    alarm_.expires_after(kLook);
    co_await alarm_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
}

net::awaitable<void> Hub::shut_down(std::chrono::milliseconds grace) {
  stopping_ = true;
  alarm_.cancel();
  const auto runs = runs_;
  const auto all_finished = [&runs](Clock::time_point deadline) -> net::awaitable<void> {
    for (const auto& [id, run] : runs) co_await run->wait_finished(deadline);
  };
  co_await all_finished(Clock::now() + grace);
  for (const auto& [id, run] : runs) {
    if (run->cancel) run->cancel();
  }
  co_await all_finished(Clock::now() + kTimeToStop);
  TaskGroup closing(engine_.executor());
  for (const auto& [id, session] : std::exchange(sessions_, {})) closing.spawn(close(session));
  co_await closing.join();
  co_await endings_.join();
}

net::awaitable<void> Hub::close(std::shared_ptr<Session> session) {
  if (session->has_files()) {  // else it is only being opened, and what there is of it is on disk
    if (const auto saved = co_await session->save(); !saved) {
      log::warning("files not saved", {{"session", session->settings().id}, {"reason", saved.error().message}});
    }
    if (on_session_changed) on_session_changed(*session);
  }
  co_await session->end("the daemon stops");
}

}  // namespace hutch
