// Run by the build: compiles the policy table to the two classic BPF programs that the sandbox installs.
//
//   seccomp_compiler <path of the header to write>
//
// We emit the code ourselves because libseccomp cannot say what this policy says: in its filters a call whose arguments
// do not match falls through to the one default of the whole filter, whereas here ioctl answers ENOTTY, mmap EPERM, an
// unknown number ENOSYS, and in the final filter everything else is allowed. It is little code: a search tree over
// ranges of numbers, and for some numbers a few comparisons. seccomp_filter_test.cc checks every number against the
// table.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "sandbox/syscall_policy.h"

namespace hutch {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
// From here on numbers carry the x32 bit. The one exception is -1, which a tracer puts there to skip a call.
constexpr std::uint32_t kFirstX32 = 0x4000'0000;
constexpr std::uint32_t kSkipped = 0xffff'ffff;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "no seccomp policy for this architecture"
#endif

std::uint32_t error_action(int number) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(number); }

// A place in the program, counted from its end because programs are written backwards: BPF jumps only forwards, so the
// target of a jump is always there already.
using Place = std::size_t;

class Assembler {
 public:
  Place ret(std::uint32_t action) {
    const auto nearest = returns_.find(action);
    if (nearest != returns_.end() && within_reach(nearest->second)) return nearest->second;
    return returns_[action] = emit(BPF_RET | BPF_K, action, 0, 0);
  }

  // The accumulator is loaded, then control goes on to what was emitted last.
  Place load(std::size_t offset) { return emit(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset), 0, 0); }
  Place mask(std::uint32_t bits) { return emit(BPF_ALU | BPF_AND | BPF_K, bits, 0, 0); }

  Place jump(std::uint16_t comparison, std::uint32_t operand, Place yes, Place no) {
    if (yes == no) return yes;
    yes = near(yes);
    no = near(no);
    return emit(BPF_JMP | BPF_K | comparison, operand, distance(yes), distance(no));
  }

  std::vector<sock_filter> program() const { return {reversed_.rbegin(), reversed_.rend()}; }

 private:
  // Jump offsets have eight bits. Three are kept back for what near() itself may put in between.
  static constexpr std::size_t kReach = 252;

  std::size_t distance(Place place) const { return reversed_.size() - 1 - place; }
  bool within_reach(Place place) const { return distance(place) <= kReach; }

  Place near(Place place) {
    if (within_reach(place)) return place;
    const sock_filter target = reversed_[place];
    if (target.code == (BPF_RET | BPF_K)) return ret(target.k);
    return emit(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(distance(place)), 0, 0);
  }

  Place emit(int code, std::uint32_t operand, std::size_t yes, std::size_t no) {
    reversed_.push_back(
        {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(yes), static_cast<std::uint8_t>(no), operand});
    return reversed_.size() - 1;
  }

  std::vector<sock_filter> reversed_;
  std::map<std::uint32_t, Place> returns_;
};

// What to do with a call: always the same action, or look at its arguments.
struct Verdict {
  std::uint32_t action = 0;
  const Rule* arguments = nullptr;
  bool operator==(const Verdict&) const = default;
};

std::uint32_t refusal_action(const Rule& rule) {
  return rule.refusal == Refusal::tripwire ? SECCOMP_RET_USER_NOTIF : error_action(rule.refusal_errno);
}

Verdict program_verdict(const Rule* rule) {
  if (rule == nullptr) return {.action = error_action(kUnknownErrno)};
  if (rule->forms.empty()) return {.action = refusal_action(*rule)};
  if (rule->forms.front().empty()) return {.action = SECCOMP_RET_ALLOW};
  return {.arguments = rule};
}

bool open_during_setup(const Rule* rule) { return rule != nullptr && rule->during_setup == DuringSetup::anything; }

using Verdicts = std::vector<Verdict>;

Verdicts base_verdicts(const Rule* rule) {
  if (open_during_setup(rule)) return {{.action = SECCOMP_RET_ALLOW}};
  return {program_verdict(rule)};
}

// Where base refuses, final may say the same or anything milder, whichever makes the longer range: base prevails.
Verdicts final_verdicts(const Rule* rule) {
  const Verdict verdict = program_verdict(rule);
  if (open_during_setup(rule)) return {verdict};
  const Verdict allow{.action = SECCOMP_RET_ALLOW};
  if (verdict.arguments != nullptr || verdict == allow) return {allow};
  return {allow, {.action = SECCOMP_RET_USER_NOTIF}, verdict};
}

// Consecutive numbers with one verdict; the range ends where the next one starts.
struct Range {
  std::uint32_t first = 0;
  Verdicts verdicts;  // any of them will do
  const Verdict& verdict() const { return verdicts.front(); }
};

std::vector<Range> ranges_of(Verdicts (*verdicts_of)(const Rule*)) {
  std::vector<Range> ranges;
  const auto newest = static_cast<std::uint32_t>(syscall_policy().back().number);
  for (std::uint32_t number = 0; number <= newest + 1; ++number) {  // the last stands for all newer ones
    const Verdicts wanted = verdicts_of(find_rule(static_cast<int>(number)));
    Verdicts common;
    if (!ranges.empty()) {
      std::ranges::copy_if(ranges.back().verdicts, std::back_inserter(common),
                           [&](const Verdict& verdict) { return std::ranges::find(wanted, verdict) != wanted.end(); });
    }
    if (common.empty()) {
      ranges.push_back({number, wanted});
    } else {
      ranges.back().verdicts = common;
    }
  }
  return ranges;
}

class Compiler {
 public:
  explicit Compiler(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

  std::vector<sock_filter> compile() && {
    for (const Range& range : ranges_) {
      if (range.verdict().arguments != nullptr)
        argument_checks_[range.verdict().arguments] = check(*range.verdict().arguments);
    }
    [[maybe_unused]] const Place root = search(0, ranges_.size());
#ifdef __x86_64__
    const Place x32 =
        out_.jump(BPF_JEQ, kSkipped, out_.ret(error_action(kUnknownErrno)), out_.ret(SECCOMP_RET_KILL_PROCESS));
    out_.jump(BPF_JGE, kFirstX32, x32, root);
#endif
    const Place right_architecture = out_.load(offsetof(seccomp_data, nr));
    const Place kill = out_.ret(SECCOMP_RET_KILL_PROCESS);  // only now: from the end it may be out of reach
    out_.jump(BPF_JEQ, kArchitecture, right_architecture, kill);
    out_.load(offsetof(seccomp_data, arch));
    return out_.program();
  }

 private:
  Place place(const Verdict& verdict) {
    return verdict.arguments != nullptr ? argument_checks_.at(verdict.arguments) : out_.ret(verdict.action);
  }

  // The forms are tried in order; the first that matches allows.
  Place check(const Rule& rule) {
    Place next = out_.ret(refusal_action(rule));
    for (std::size_t form = rule.forms.size(); form-- > 0;) {
      const Place otherwise = next;
      next = out_.ret(SECCOMP_RET_ALLOW);
      for (std::size_t i = rule.forms[form].size(); i-- > 0;) next = check(rule.forms[form][i], next, otherwise);
    }
    return next;
  }

  Place check(const Condition& condition, Place yes, Place no) {
    const bool masked = condition.mask != 0xffff'ffff;
    const std::size_t low_half =
        offsetof(seccomp_data, args) + 8 * condition.argument;  // both machines are little-endian
    if (masked && condition.values == std::vector<std::uint32_t>{0}) {
      out_.jump(BPF_JSET, condition.mask, no, yes);
      return out_.load(low_half);
    }
    Place next = no;
    for (std::size_t i = condition.values.size(); i-- > 0;) next = out_.jump(BPF_JEQ, condition.values[i], yes, next);
    if (masked) out_.mask(condition.mask);
    return out_.load(low_half);
  }

  bool lone_number(std::size_t range) const {
    return range + 1 < ranges_.size() && ranges_[range + 1].first == ranges_[range].first + 1;
  }

  // Whether [begin, end) is one verdict with up to three exceptions: then comparing for equality beats halving.
  bool has_few_exceptions(std::size_t begin, std::size_t end) const {
    if (end - begin > 7 || (end - begin) % 2 == 0) return false;
    for (std::size_t i = begin; i < end; ++i) {
      const bool exception = (i - begin) % 2 == 1;
      if (exception ? !lone_number(i) : ranges_[i].verdict() != ranges_[begin].verdict()) return false;
    }
    return true;
  }

  // Decides between the ranges [begin, end), the number being in the accumulator.
  Place search(std::size_t begin, std::size_t end) {
    if (has_few_exceptions(begin, end)) {
      Place next = place(ranges_[begin].verdict());
      for (std::size_t i = end - 1; i > begin; i -= 2) {
        next = out_.jump(BPF_JEQ, ranges_[i - 1].first, place(ranges_[i - 1].verdict()), next);
      }
      return next;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    // Halving inside a range leaves it as the background of the exceptions on both sides.
    const bool inside = end - begin > 4 && !lone_number(middle);
    const Place upper = search(middle, end);
    const Place lower = search(begin, inside ? middle + 1 : middle);
    return out_.jump(BPF_JGE, ranges_[middle].first + (inside ? 1 : 0), upper, lower);
  }

  std::vector<Range> ranges_;
  std::map<const Rule*, Place> argument_checks_;
  Assembler out_;
};

bool write_program(std::FILE* file, const char* name, const std::vector<sock_filter>& program) {
  std::fprintf(file, "inline constexpr sock_filter %s[] = {\n", name);
  for (const sock_filter& instruction : program) {
    std::fprintf(file, "    {0x%02x, %u, %u, 0x%08x},\n", instruction.code, instruction.jt, instruction.jf,
                 instruction.k);
  }
  return std::fprintf(file, "};\n") > 0;
}

int run(const char* path) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return std::perror(path), 1;
  std::fprintf(file, "// Written by seccomp_compiler from sandbox/syscall_policy.cc.\n");
  bool good = write_program(file, "kBaseProgram", Compiler(ranges_of(base_verdicts)).compile());
  good = write_program(file, "kFinalProgram", Compiler(ranges_of(final_verdicts)).compile()) && good;
  good = std::fclose(file) == 0 && good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace hutch

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s <header to write>\n", arguments[0]);
    return 2;
  }
  return hutch::run(arguments[1]);
}
