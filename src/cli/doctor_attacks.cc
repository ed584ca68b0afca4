#include "cli/doctor_attacks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "api/engine_client.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/doctor_programs.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecretVariable = "HUTCH_DOCTOR_SECRET";
constexpr std::size_t kMostEvidence = 160;

Result<std::string> random_name() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) return system_error(errno).during("getrandom");
  return fmt::format("hdoc-{:08x}", number);
}

Result<UniqueFd> listen_on(const sockaddr* address, socklen_t size) {
  UniqueFd socket{::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket || ::bind(socket.get(), address, size) != 0 || ::listen(socket.get(), 8) != 0) {
    return system_error(errno).during("listen for the attacks");
  }
  return socket;
}

// What the attacks are after. Open to everybody on the host, so that only the sandbox's walls are in the way.
class Bait {
 public:
  static Result<Bait> plant() {
    Bait bait;
    HUTCH_TRY(bait.name_, random_name());
    HUTCH_TRY(bait.secret_, random_name());
    std::error_code problem;
    bait.directory_ = fs::temp_directory_path(problem) / bait.name_;
    if (problem || ::mkdir(bait.directory_.c_str(), 0755) != 0 || ::chmod(bait.directory_.c_str(), 0755) != 0) {
      return system_error(errno).during("plant a file for the attacks");
    }
    const UniqueFd file{::open(bait.file().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
    if (!file || ::fchmod(file.get(), 0644) != 0 ||
        ::write(file.get(), bait.secret_.data(), bait.secret_.size()) != static_cast<ssize_t>(bait.secret_.size())) {
      return system_error(errno).during("plant a file for the attacks");
    }
    ::setenv(kSecretVariable, bait.secret_.c_str(), 1);
    ::prctl(PR_SET_NAME, bait.name_.c_str(), 0, 0, 0);

    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    HUTCH_TRY(bait.tcp_, listen_on(reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
    socklen_t size = sizeof(address);
    if (::getsockname(bait.tcp_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return system_error(errno);
    bait.port_ = ntohs(address.sin_port);

    sockaddr_un abstract{};
    abstract.sun_family = AF_UNIX;
    std::memcpy(abstract.sun_path + 1, bait.name_.data(), bait.name_.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bait.name_.size());
    HUTCH_TRY(bait.unix_, listen_on(reinterpret_cast<const sockaddr*>(&abstract), length));
    return bait;
  }

  Bait(Bait&&) = default;
  Bait& operator=(Bait&&) = default;
  ~Bait() {
    if (directory_.empty()) return;
    ::unlink(file().c_str());
    ::rmdir(directory_.c_str());
    ::unsetenv(kSecretVariable);
    ::prctl(PR_SET_NAME, "hutch", 0, 0, 0);
  }

  // A line of Python that tells the attacks where everything is, but not the secret.
  [[nodiscard]] std::string python() const {
    return fmt::format("P = dict(canary='{}', comm='{}', pid={}, port={}, abstract='{}')\n", file(), name_, ::getpid(),
                       port_, name_);
  }

  // Proof that needs no word of the sandbox's. Empty when nothing was taken.
  [[nodiscard]] std::string taken(const std::string& output) const {
    if (output.contains(secret_)) return "the planted secret came out";
    if (UniqueFd{::accept4(tcp_.get(), nullptr, nullptr, SOCK_CLOEXEC)}) return "a connection reached 127.0.0.1";
    if (UniqueFd{::accept4(unix_.get(), nullptr, nullptr, SOCK_CLOEXEC)}) return "a connection reached the host";
    if (::access(("/usr/" + name_).c_str(), F_OK) == 0) return "/usr/" + name_ + " is there";
    return {};
  }

 private:
  Bait() = default;
  [[nodiscard]] std::string file() const { return directory_ / "canary"; }

  std::string name_;
  std::string secret_;
  fs::path directory_;
  UniqueFd tcp_;
  UniqueFd unix_;
  int port_ = 0;
};

wire::RunRequest request_for(const AttackProgram& program, const Bait& bait) {
  auto request = default_request("bare", std::string(kAttackPrelude) + bait.python() + std::string(program.code));
  request.limits.wall_ms = 10'000;
  request.limits.cpu_ms = 10'000;
  if (program.name == "memory") request.limits.memory = (64_MiB).count;
  if (program.name == "processes") request.limits.processes = 16;
  if (program.name == "time") request.limits.wall_ms = 1'000;
  return request;
}

// The reasons that the program gave, each once: "unshare: EPERM".
std::string reasons(const std::string& output, std::string_view verdict) {
  std::string all;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(verdict) || line.size() <= verdict.size()) continue;
    const std::string reason = printable(line.substr(verdict.size() + 1));
    if (all.size() + reason.size() < kMostEvidence) all += (all.empty() ? "" : ", ") + reason;
  }
  return all;
}

void judge(AttackResult& result, const Bait& bait, const Collected& said, const wire::Record& record) {
  const auto decide = [&result](AttackOutcome outcome, std::string evidence) {
    result.outcome = outcome;
    result.evidence = std::move(evidence);
  };
  const std::string output = said.out + said.err;
  const std::string category = record.error ? record.error->category : "";
  const std::string taken = bait.taken(output);
  if (!taken.empty()) return decide(AttackOutcome::escaped, taken);
  if (output.contains("ESCAPED")) return decide(AttackOutcome::escaped, reasons(output, "ESCAPED"));
  if (result.name == "time") {
    const double seconds = static_cast<double>(record.usage.wall_us) / 1e6;
    const bool stopped = record.status == wire::Status::timeout && seconds < 3;
    return decide(stopped ? AttackOutcome::blocked : AttackOutcome::escaped,
                  fmt::format("ended after {:.2f} s", seconds));
  }
  if (output.contains("BLOCKED")) return decide(AttackOutcome::blocked, reasons(output, "BLOCKED"));
  // Without a word: a limit or the filter ended it, or it is not the attack that we meant.
  if (category == "memory_limit" || category == "resource_limit" ||
      (record.error && record.error->code == "seccomp_violation")) {
    return decide(AttackOutcome::blocked, fmt::format("{}: {}", record.error->code, record.error->message));
  }
  decide(AttackOutcome::unclear, record.error ? record.error->message : "the program said nothing");
}

struct Ran {
  Collected said;
  wire::Record record;
};

// An error when Hutch itself failed, whatever the program did.
Result<Ran> run_one(const EngineLocation& location, wire::RunRequest request) {
  HUTCH_TRY(auto client, EngineClient::connect_or_start(location));
  Ran ran;
  HUTCH_TRY(auto outcome, client.run({.request = std::move(request)}, ran.said));
  if (const auto* failed = std::get_if<wire::Failed>(&outcome)) {
    return make_error(ErrorCode::unsupported, failed->message).with_hint(failed->hint);
  }
  ran.record = std::get<wire::Record>(std::move(outcome));
  return ran;
}

Result<AttackReport> attack_all(const EngineLocation& location, const Bait& bait) {
  AttackReport report;
  {
    HUTCH_TRY(auto client, EngineClient::connect_or_start(location));
    HUTCH_TRY(const auto status, client.status());
    report.weaker_limits = !status.limits.starts_with("cgroup v");
  }
  auto harmless = default_request("bare", "print(6 * 7)");
  harmless.weaker_limits = report.weaker_limits;
  HUTCH_TRY(const auto ran, run_one(location, std::move(harmless)));
  if (ran.said.out != "42\n") return make_error(ErrorCode::internal, "a sandbox starts, but Python does not run in it");
  for (const auto& program : kAttackPrograms) {
    AttackResult result{
        .name = std::string(program.name), .tries = std::string(program.tries), .wall = std::string(program.wall)};
    auto request = request_for(program, bait);
    request.weaker_limits = report.weaker_limits;
    if (const auto attacked = run_one(location, std::move(request))) {
      judge(result, bait, attacked->said, attacked->record);
    } else {
      result.evidence = attacked.error().message;
    }
    report.attacks.push_back(std::move(result));
  }
  return report;
}

}  // namespace

Result<AttackReport> run_attacks() {
  HUTCH_TRY(const auto location, EngineLocation::find());
  HUTCH_TRY(const auto bait, Bait::plant());
  const bool was_running = EngineClient::connect(location).has_value();
  auto report = attack_all(location, bait);
  if (!was_running) {
    if (auto client = EngineClient::connect(location)) std::ignore = client->stop(EngineClient::StopWait::process);
  }
  return report;
}

}  // namespace hutch
