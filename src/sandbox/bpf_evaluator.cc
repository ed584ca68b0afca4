#include "sandbox/bpf_evaluator.h"

#include <cstring>
#include <string>

namespace hutch {
namespace {

Error bad_program(std::string_view what, std::size_t at) {
  return make_error(ErrorCode::invalid_argument, std::string(what) + " at instruction " + std::to_string(at));
}

bool is_conditional(const sock_filter& instruction) {
  return BPF_CLASS(instruction.code) == BPF_JMP && BPF_OP(instruction.code) != BPF_JA;
}

Result<std::uint32_t> load(const seccomp_data& data, std::uint32_t offset, std::size_t at) {
  if (offset % 4 != 0 || offset > sizeof data - 4) return bad_program("load outside the call's data", at);
  std::uint32_t word = 0;
  std::memcpy(&word, reinterpret_cast<const char*>(&data) + offset, sizeof word);
  return word;
}

Result<bool> compare(const sock_filter& instruction, std::uint32_t accumulator, std::size_t at) {
  switch (instruction.code) {
    case BPF_JMP | BPF_JEQ | BPF_K:
      return accumulator == instruction.k;
    case BPF_JMP | BPF_JGT | BPF_K:
      return accumulator > instruction.k;
    case BPF_JMP | BPF_JGE | BPF_K:
      return accumulator >= instruction.k;
    case BPF_JMP | BPF_JSET | BPF_K:
      return (accumulator & instruction.k) != 0;
    default:
      return bad_program("unknown comparison", at);
  }
}

}  // namespace

Result<std::uint32_t> evaluate(std::span<const sock_filter> program, const seccomp_data& data) {
  BpfCoverage ignored(program.size());
  return evaluate(program, data, ignored);
}

Result<std::uint32_t> evaluate(std::span<const sock_filter> program, const seccomp_data& data, BpfCoverage& coverage) {
  if (coverage.executed.size() != program.size()) return bad_program("coverage of another program", 0);
  std::uint32_t accumulator = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {  // ends: every jump goes forwards
    const sock_filter& instruction = program[at];
    coverage.executed[at] = true;
    if (is_conditional(instruction)) {
      HUTCH_TRY(const bool holds, compare(instruction, accumulator, at));
      (holds ? coverage.taken : coverage.passed)[at] = true;
      at += holds ? instruction.jt : instruction.jf;
      continue;
    }
    switch (instruction.code) {
      case BPF_LD | BPF_W | BPF_ABS: {
        HUTCH_TRY(accumulator, load(data, instruction.k, at));
        break;
      }
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= instruction.k;
        break;
      case BPF_JMP | BPF_JA:
        at += instruction.k;
        break;
      case BPF_RET | BPF_K:
        return instruction.k;
      default:
        return bad_program("unknown instruction", at);
    }
  }
  return bad_program("ran past the end", program.size());
}

std::vector<std::size_t> not_covered(std::span<const sock_filter> program, const BpfCoverage& coverage) {
  std::vector<std::size_t> missing;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const bool both_ways = !is_conditional(program[at]) || (coverage.taken[at] && coverage.passed[at]);
    if (!coverage.executed[at] || !both_ways) missing.push_back(at);
  }
  return missing;
}

std::uint32_t stricter(std::uint32_t newer, std::uint32_t older) {
  // Signed on purpose: KILL_PROCESS has the top bit and is the strictest of all.
  const auto action = [](std::uint32_t result) { return static_cast<std::int32_t>(result & SECCOMP_RET_ACTION_FULL); };
  return action(older) < action(newer) ? older : newer;
}

}  // namespace hutch
