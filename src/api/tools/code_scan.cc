#include "api/tools/code_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "api/tools/code_rules.h"
#include "api/tools/python_tokens.h"
#include "base/utf8.h"

namespace hutch {
namespace {

using Kind = PythonToken::Kind;

constexpr std::size_t kLongestName = 200;  // of a dotted name: no rule needs more, and a rename cannot multiply it
constexpr std::size_t kLongestPath = 4096;
constexpr std::size_t kLongestShown = 80;
constexpr std::size_t kMostPathWarnings = 8;
constexpr std::string_view kShellForkBomb = ":(){:|:&};:";

bool is_module_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && !text.starts_with('.') &&
         std::ranges::all_of(text, [](char c) {
           return c == '.' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  static_cast<unsigned char>(c) >= 0x80;
         });
}

bool matches(std::string_view rule, std::string_view name) {
  if (rule.ends_with('*')) return name.starts_with(rule.substr(0, rule.size() - 1));
  return name.starts_with(rule) && (name.size() == rule.size() || name[rule.size()] == '.');
}

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Absolute and outside of where files are expected, once "." and ".." are gone.
bool is_elsewhere(std::string_view path) {
  if (!path.starts_with('/') || path.size() > kLongestPath) return false;
  std::vector<std::string_view> parts;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
  }
  std::string normal;
  for (const std::string_view part : parts) normal.append("/").append(part);
  const auto within = [&](std::string_view root) {
    return normal.starts_with(root) && (normal.size() == root.size() || normal[root.size()] == '/');
  };
  return std::ranges::none_of(kFileRoots, within) && !is_one_of(kFileExceptions, normal);
}

// What a string without its white space has in it; made only for strings that can have it.
bool holds_fork_bomb(std::string_view text) {
  if (!text.contains(":(")) return false;
  std::string tight;
  std::ranges::remove_copy_if(text, std::back_inserter(tight),
                              [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
  return tight.contains(kShellForkBomb);
}

class Scanner {
 public:
  explicit Scanner(std::string_view source) : tokens_(source) {}

  void scan();
  [[nodiscard]] CodeScan result() &&;
  [[nodiscard]] std::vector<std::string> modules() && { return std::move(modules_); }

 private:
  void read_import();
  void read_from();
  void read_from_names(const std::string& module, bool relative);
  void read_while(const PythonToken& keyword);
  std::string read_dotted(std::string_view first);
  void read_chain(const PythonToken& first);
  void see_import(std::string_view name, std::size_t line);
  void see_use(const PythonToken& first, std::string_view name);
  void see_call(const PythonToken& first, std::string_view name);
  void see_attribute(std::string_view name, std::size_t line);
  void see_literal(const PythonToken& literal);
  [[nodiscard]] std::string original_name(std::string_view name) const;
  [[nodiscard]] bool in_endless_loop(const PythonToken& token);
  void warn(Risk risk, std::size_t line, std::string_view name, std::string_view warning);

  struct Loop {
    std::size_t statement = 0;
    std::size_t indentation = 0;
  };
  struct Found {
    Risk risk;
    std::string text;
  };

  PythonTokens tokens_;
  std::vector<std::string> modules_;
  std::set<std::string, std::less<>> known_modules_;
  std::map<std::string, std::string, std::less<>> renamed_;  // `import a.b as c`, `from a import b`: what c and b are
  std::optional<Loop> loop_;                                 // the outermost `while True` we are in
  std::multimap<std::size_t, Found> found_;                  // by line: some are known only at the end
  std::set<std::string> warned_;
  std::set<const LiteralRule*> seen_literals_;
  std::vector<std::pair<const AttributeRule*, std::size_t>> native_names_;  // until we know whether it is native code
  std::size_t path_warnings_ = 0;
  bool native_ = false;
};

void Scanner::scan() {
  bool after_dot = false;
  while (tokens_.peek().kind != Kind::end) {
    const PythonToken token = tokens_.take();
    if (token.kind == Kind::string) {
      see_literal(token);
    } else if (token.kind == Kind::name && after_dot) {
      see_attribute(token.text, token.line);
    } else if (token.is_name("import")) {
      read_import();
    } else if (token.is_name("from")) {
      read_from();
    } else if (token.is_name("while")) {
      read_while(token);
    } else if (token.is_name("def") || token.is_name("class")) {
      if (tokens_.peek().kind == Kind::name) tokens_.take();  // a name that is given, not used
    } else if (token.kind == Kind::name) {
      read_chain(token);
    }
    after_dot = token.is_symbol('.');
  }
  if (!native_) return;
  for (const auto& [rule, line] : native_names_) warn(rule->risk, line, rule->name, rule->warning);
}

// import a.b as c, d
void Scanner::read_import() {
  while (tokens_.peek().kind == Kind::name) {
    const PythonToken first = tokens_.take();
    const std::string module = read_dotted(first.text);
    see_import(module, first.line);
    renamed_.erase(std::string(first.text));
    if (tokens_.peek().is_name("as")) {
      tokens_.take();
      if (tokens_.peek().kind != Kind::name) return;
      const PythonToken name = tokens_.take();
      renamed_.insert_or_assign(std::string(name.text), module);
    }
    if (!tokens_.peek().is_symbol(',')) return;
    tokens_.take();
  }
}

// from a.b import c as d, or the end of `yield from x` and `raise x from y`.
void Scanner::read_from() {
  bool relative = false;
  while (tokens_.peek().is_symbol('.')) {
    tokens_.take();
    relative = true;
  }
  if (tokens_.peek().kind != Kind::name) return;
  if (tokens_.peek().is_name("import")) {
    tokens_.take();
    return read_from_names({}, relative);
  }
  const PythonToken first = tokens_.take();
  const std::string module = read_dotted(first.text);
  if (!tokens_.peek().is_name("import")) return see_use(first, module);
  tokens_.take();
  if (!relative) see_import(module, first.line);
  read_from_names(module, relative);
}

void Scanner::read_from_names(const std::string& module, bool relative) {
  if (tokens_.peek().is_symbol('(')) tokens_.take();
  while (tokens_.peek().kind == Kind::name) {
    const PythonToken name = tokens_.take();
    std::string_view known_as = name.text;
    if (tokens_.peek().is_name("as")) {
      tokens_.take();
      if (tokens_.peek().kind != Kind::name) return;
      known_as = tokens_.take().text;
    }
    const std::size_t length = module.size() + 1 + name.text.size();
    if (!relative && !module.empty() && length <= kLongestName && known_as.size() <= kLongestName) {
      std::string full = fmt::format("{}.{}", module, name.text);
      see_import(full, name.line);
      renamed_.insert_or_assign(std::string(known_as), std::move(full));
    }
    if (!tokens_.peek().is_symbol(',')) return;
    tokens_.take();
  }
}

// while True:, while 1: and with brackets around.
void Scanner::read_while(const PythonToken& keyword) {
  const bool bracket = tokens_.peek().is_symbol('(');
  if (bracket) tokens_.take();
  const bool truth =
      tokens_.peek().is_name("True") || (tokens_.peek().kind == Kind::number && tokens_.peek().text != "0");
  if (!truth) return;
  tokens_.take();
  if (bracket && tokens_.peek().is_symbol(')')) tokens_.take();
  if (!tokens_.peek().is_symbol(':') || in_endless_loop(keyword)) return;
  loop_ = Loop{.statement = keyword.statement, .indentation = keyword.indentation};
}

bool Scanner::in_endless_loop(const PythonToken& token) {
  if (loop_ && token.statement != loop_->statement && token.indentation <= loop_->indentation) loop_.reset();
  return loop_.has_value();
}

// The rest of a dotted name. What is too long is read, but not kept.
std::string Scanner::read_dotted(std::string_view first) {
  std::string name(first.substr(0, kLongestName));
  while (tokens_.peek().is_symbol('.')) {
    tokens_.take();
    if (tokens_.peek().kind != Kind::name) break;
    const PythonToken part = tokens_.take();
    see_attribute(part.text, part.line);
    if (name.size() + 1 + part.text.size() <= kLongestName) name.append(".").append(part.text);
  }
  return name;
}

void Scanner::read_chain(const PythonToken& first) { see_use(first, read_dotted(first.text)); }

std::string Scanner::original_name(std::string_view name) const {
  const std::string_view head = name.substr(0, name.find('.'));
  const auto renamed = renamed_.find(head);
  std::string original =
      renamed == renamed_.end() ? std::string(name) : fmt::format("{}{}", renamed->second, name.substr(head.size()));
  if (original.starts_with("builtins.")) original.erase(0, std::string_view("builtins.").size());
  return original;
}

void Scanner::see_import(std::string_view name, std::size_t line) {
  const std::string_view top = name.substr(0, name.find('.'));
  if (!known_modules_.contains(top)) {
    known_modules_.emplace(top);
    modules_.emplace_back(top);
  }
  native_ = native_ || top == "ctypes" || top == "_ctypes" || top == "cffi";
  for (const NameRule& rule : kNameRules) {
    if (rule.seen != SeenIn::call && matches(rule.name, name)) warn(rule.risk, line, rule.name, rule.warning);
  }
}

void Scanner::see_use(const PythonToken& first, std::string_view name) {
  const std::string original = original_name(name);
  const bool called = tokens_.peek().is_symbol('(');
  const bool dotted = original.contains('.');
  if (!called && !dotted) return;
  native_ = native_ || original.starts_with("ctypes.");
  for (const NameRule& rule : kNameRules) {
    const bool seen = (rule.seen == SeenIn::anywhere && dotted && matches(rule.name, original)) ||
                      (rule.seen == SeenIn::call && called && original == rule.name);
    if (seen) warn(rule.risk, first.line, rule.name, rule.warning);
  }
  if (called) see_call(first, original);
}

void Scanner::see_call(const PythonToken& first, std::string_view name) {
  if ((name == "os.fork" || name == "os.forkpty") && in_endless_loop(first)) {
    warn(Risk::critical, first.line, "while True: os.fork()", "makes processes without end, until the limit stops it");
  }
  tokens_.take();  // the bracket
  const PythonToken& argument = tokens_.peek();
  if (argument.kind != Kind::string || !argument.plain) return;
  if ((name == "__import__" || name == "importlib.import_module") && is_module_name(argument.text)) {
    see_import(argument.text, argument.line);
  }
  if (is_one_of(kFileFunctions, name) && is_elsewhere(argument.text) && path_warnings_ < kMostPathWarnings) {
    ++path_warnings_;
    warn(Risk::medium, argument.line, argument.text,
         "is outside of /workspace and /tmp, where the files of the sandbox are");
  }
}

void Scanner::see_attribute(std::string_view name, std::size_t line) {
  for (const AttributeRule& rule : kAttributeRules) {
    if (rule.name != name) continue;
    if (!rule.native) warn(rule.risk, line, rule.name, rule.warning);
    const auto same = [&](const auto& seen) { return seen.first == &rule; };
    if (rule.native && std::ranges::none_of(native_names_, same)) native_names_.emplace_back(&rule, line);
  }
}

void Scanner::see_literal(const PythonToken& literal) {
  const std::string_view text = literal.text;
  for (const LiteralRule& rule : kLiteralRules) {
    const bool fits = text.size() >= rule.begin.size() + rule.end.size() && text.size() <= kLongestPath;
    if (!fits || !text.starts_with(rule.begin) || !text.ends_with(rule.end)) continue;
    if (seen_literals_.insert(&rule).second) warn(rule.risk, literal.line, text, rule.warning);
  }
  if (holds_fork_bomb(text)) {
    warn(Risk::critical, literal.line, kShellForkBomb, "makes processes without end, until the limit stops it");
  }
  see_attribute(text, literal.line);
}

void Scanner::warn(Risk risk, std::size_t line, std::string_view name, std::string_view warning) {
  if (!warned_.insert(fmt::format("{} {}", name, warning)).second) return;
  std::string_view shown = name.substr(0, kLongestShown);
  if (shown.size() < name.size()) shown = shown.substr(0, complete_utf8_prefix(shown));
  found_.emplace(line, Found{.risk = risk,
                             .text = fmt::format("Line {}: `{}{}` {}.", line, printable(shown),
                                                 shown.size() < name.size() ? "…" : "", warning)});
}

CodeScan Scanner::result() && {
  CodeScan scan;
  for (auto& [line, found] : found_) {
    scan.risk = std::max(scan.risk, found.risk);
    scan.warnings.push_back(std::move(found.text));
  }
  return scan;
}

}  // namespace

std::string_view name(Risk risk) {
  switch (risk) {
    case Risk::low:
      return "low";
    case Risk::medium:
      return "medium";
    case Risk::high:
      return "high";
    case Risk::critical:
      return "critical";
  }
  return "critical";
}

CodeScan scan_code(std::string_view source) {
  Scanner scanner(source.substr(0, kMostScanned.count));
  scanner.scan();
  CodeScan scan = std::move(scanner).result();
  if (source.size() > kMostScanned.count) {
    scan.risk = std::max(scan.risk, Risk::medium);
    scan.warnings.emplace_back("Only the first MiB of the source was looked at.");
  }
  return scan;
}

std::vector<std::string> imported_modules(std::string_view source) {
  Scanner scanner(source.substr(0, kMostScanned.count));
  scanner.scan();
  return std::move(scanner).modules();
}

}  // namespace hutch
