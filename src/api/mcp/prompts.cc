// Prompts: beginnings of conversations that make good use of the tools.
#include <array>

#include "api/mcp/server.h"

namespace hutch::mcp {
namespace {

struct Argument {
  std::string_view name, description;
  bool required = false;
};

struct Prompt {
  std::string_view name, title, description;
  std::array<Argument, 3> arguments;  // without a name: no more
  std::string (*write)(const json::object& arguments);
};

std::string given(const json::object& arguments, std::string_view name) {
  return find_text(arguments, name).value_or("");
}

std::string analyse_file(const json::object& arguments) {
  const auto session = given(arguments, "session_id");
  const auto question = given(arguments, "question");
  return "Analyse the file " + given(arguments, "path") + " with the Python tools" +
         (session.empty() ? "." : ", in the session " + session + ".") +
         " First look at its size, format and first rows without loading more than needed. Then describe the columns "
         "or "
         "the structure, missing and unusual values, and what stands out; save a plot where one says more than "
         "words. " +
         (question.empty() ? "End with the three findings that matter most."
                           : "End with an answer to this question: " + question);
}

std::string check_with_code(const json::object& arguments) {
  return "Find out by running code, not from memory, whether this is right: " + given(arguments, "claim") +
         "\nWrite a short program that could prove it wrong, run it, and say what it showed, with the numbers.";
}

constexpr std::array kPrompts{
    Prompt{"analyse_file",
           "Analyse a file",
           "Look at a file in a sandbox and report what is in it",
           {{{"path", "The file, relative to /workspace", true},
             {"session_id", "The session that has it"},
             {"question", "What you want to know of it"}}},
           analyse_file},
    Prompt{"check_with_code",
           "Check with code",
           "Check a claim or a calculation by running code",
           {{{"claim", "What is said to be true", true}}},
           check_with_code},
};

}  // namespace

json::array prompt_definitions() {
  json::array definitions;
  for (const auto& prompt : kPrompts) {
    json::array arguments;
    for (const auto& argument : prompt.arguments) {
      if (argument.name.empty()) continue;
      arguments.push_back(json::object{
          {"name", argument.name}, {"description", argument.description}, {"required", argument.required}});
    }
    definitions.push_back(json::object{{"name", prompt.name},
                                       {"title", prompt.title},
                                       {"description", prompt.description},
                                       {"arguments", std::move(arguments)}});
  }
  return definitions;
}

Reply get_prompt(const json::object& params) {
  const auto name = find_text(params, "name");
  const auto* prompt = std::ranges::find(kPrompts, name.value_or(""), &Prompt::name);
  if (prompt == kPrompts.end()) return refuse(kInvalidParams, "Unknown prompt: " + name.value_or("").substr(0, 100));
  static const json::object nothing;
  const auto* arguments = find_object(params, "arguments");
  for (const auto& argument : prompt->arguments) {
    if (!argument.required || (arguments != nullptr && find_text(*arguments, argument.name))) continue;
    return refuse(kInvalidParams, "Invalid params: the prompt needs the argument " + std::string(argument.name));
  }
  const json::object content{{"type", "text"}, {"text", prompt->write(arguments != nullptr ? *arguments : nothing)}};
  return json::object{{"description", prompt->description},
                      {"messages", json::array{json::object{{"role", "user"}, {"content", content}}}}};
}

}  // namespace hutch::mcp
