// `hutch session attach`: a prompt in a session. One thread shows what anybody's cells write, in the order in which it
// happens; the other sends cells, and lines to those of its own that ask for input.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <set>
#include <thread>

#include "cli/interrupts.h"
#include "cli/line_reader.h"
#include "cli/report.h"
#include "cli/run_printer.h"
#include "cli/session_command.h"
#include "cli/session_input.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr auto kLook = std::chrono::seconds(1);

// What the one who watches tells the one who asks.
struct Seen {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::string> started, finished;  // runs
  std::set<std::string> wanting;            // those that have asked for a line
  std::string given;                        // the one for which a line is read
  LineReader lines;
  bool missed = false;  // something of this may be missing

  void note(const std::string& type, const std::string& run) {
    const std::scoped_lock lock(mutex);
    if (type == "started") started.insert(run);
    if (type == "finished") finished.insert(run);
    if (type == "input_wanted") wanting.insert(run);
    if (type == "finished" && run == given) lines.call_off();
    if (type == "gap") missed = true;
    changed.notify_all();
  }
  void forget() {
    const std::scoped_lock lock(mutex);
    started.clear();
    finished.clear();
    wanting.clear();
    missed = false;
  }
};

int connection_broke(const std::string& why) {
  Report().error("the connection broke" + why, "the session may go on: hutch session ls");
  return kOwnFailure;
}

// A line, or a block that an empty line ends.
std::expected<std::string, NoLine> read_cell(LineReader& lines) {
  const bool terminal = ::isatty(0) != 0;
  if (terminal) fmt::print("hutch> "), std::fflush(stdout);
  auto cell = lines.next();
  if (!cell || cell->empty() || cell->back() != ':') return cell;
  for (;;) {
    if (terminal) fmt::print("...    "), std::fflush(stdout);
    const auto line = lines.next();
    if (!line || line->empty()) return cell;
    *cell += "\n" + *line;
  }
}

class Watcher {
 public:
  Watcher(HttpClient client, std::string address, Seen& seen)
      : client_(std::move(client)), address_(std::move(address)), seen_(seen) {}

  // Ends the process: the other thread waits for a line that may never come.
  [[noreturn]] void watch() {
    const auto over = client_.stream("GET", address_ + "/events?after=0", {}, [this](std::string_view line) {
      if (const auto event = parse_object(line)) show(*event);
    });
    std::fflush(stdout);
    if (ended_) {
      fmt::print(stderr, "the session has ended\n");
    } else {
      connection_broke(over ? "" : ": " + over.error().message);
    }
    ::_exit(ended_ ? 0 : kOwnFailure);
  }

 private:
  void show(const json::object& event) {
    const std::string type = text_at(event, "type");
    const std::string run = text_at(event, "run");
    if (type == "started") printer_ = {};
    printer_.show(event);
    if (type == "truncated") {
      const std::string path = "/v1/runs/" + run + "/log?stream=" + text_at(event, "stream");
      Report().notice("there is more than is shown: GET " + path + " has all of it");
    }
    if (type == "gap")
      Report().notice("some output is not shown: GET " + address_ + "/runs lists the runs that have it");
    ended_ = ended_ || (type == "session" && text_at(event, "state") == "ended");
    seen_.note(type, run);
  }

  HttpClient client_;
  std::string address_;
  Seen& seen_;
  RunPrinter printer_;
  bool ended_ = false;
};

class Prompt {
 public:
  Prompt(const RemoteOptions& remote, std::string session, Seen& seen)
      : remote_(remote), session_(std::move(session)), seen_(seen), interrupts_(remote) {}

  // The next cell is sent when the end of the last one has been shown.
  int serve() {
    for (;;) {
      const auto cell = read_cell(seen_.lines);
      if (!cell && cell.error() == NoLine::end) return 0;
      if (!cell || cell->empty()) continue;
      seen_.forget();
      interrupts_.expect();
      const auto over = run(*cell);
      interrupts_.done();
      if (over) continue;
      const bool broke = over.error().code == ErrorCode::disconnected;  // the watcher may be as quick to notice
      if (broke) return connection_broke(": " + over.error().message);
      Report().error(over.error().message, over.error().hint);
      return kOwnFailure;
    }
  }

 private:
  // Each on a connection of its own: one that is idle while somebody thinks is closed.
  Result<json::object> ask(std::string_view method, const std::string& path, std::string body = {}) const {
    HUTCH_TRY(auto client, reach_daemon(remote_));
    return expect_object(client.request(method, path, std::move(body)));
  }

  Result<void> run(const std::string& cell) {
    const json::object body{{"code", cell}, {"stdin", true}, {"wait_ms", 0}};
    HUTCH_TRY(const auto answer, ask("POST", "/v1/sessions/" + session_ + "/runs", json::serialize(body)));
    const std::string id = text_at(answer, "execution_id");
    interrupts_.aim("/v1/runs/" + id + "/cancel");
    bool begun = false;
    std::unique_lock lock(seen_.mutex);
    while (!seen_.finished.contains(id)) {
      const bool begins = !begun && seen_.started.contains(id);
      const bool wants = seen_.wanting.contains(id);
      if (!begins && !wants && !seen_.missed) {
        seen_.changed.wait(lock);
        continue;
      }
      if (!begins && !wants) seen_.changed.wait_for(lock, kLook);
      if (wants) seen_.given = id;
      lock.unlock();
      if (begins) interrupts_.aim("/v1/sessions/" + session_ + "/interrupt");
      begun = begun || begins;
      if (wants) HUTCH_TRY(give(id));
      if (!begins && !wants) {  // its end may be among the events that we did not get
        HUTCH_TRY(const auto about, ask("GET", "/v1/runs/" + id));
        if (const std::string status = text_at(about, "status"); status != "queued" && status != "running") return {};
      }
      lock.lock();
    }
    return {};
  }

  // Called off when the run ends without it.
  Result<void> give(const std::string& run) {
    const auto line = seen_.lines.next();
    {
      const std::scoped_lock lock(seen_.mutex);
      seen_.given.clear();
      seen_.wanting.erase(run);
      seen_.lines.forget_call();
    }
    return give_line(remote_, session_, line);
  }

  const RemoteOptions& remote_;
  std::string session_;
  Seen& seen_;
  Interrupts interrupts_;
};

}  // namespace

int session_attach(const SessionOptions& options) {
  const std::string address = "/v1/sessions/" + options.id;
  const auto fail = [](const Error& error) {
    Report().error(error.message, error.hint);
    return kOwnFailure;
  };
  auto client = reach_daemon(options.remote);
  if (!client) return fail(client.error());
  if (auto there = expect_object(client->request("GET", address)); !there) return fail(there.error());
  Seen seen;
  Prompt prompt(options.remote, options.id, seen);
  Watcher watcher(std::move(*client), address, seen);
  std::thread([&watcher] { watcher.watch(); }).detach();
  const int code = prompt.serve();
  std::fflush(stdout);
  ::_exit(code);  // the watcher still reads
}

}  // namespace hutch
