#include "api/tools/run_result.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/display_json.h"
#include "api/http_text.h"
#include "api/json_text.h"
#include "api/record_json.h"
#include "api/run_json.h"
#include "api/tools/pictures.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostFilesTold = 50;
constexpr std::size_t kMostResult = 10'000;  // characters of the value of the last line

std::string value_text(const LiveRun& run) {
  const FinalDisplays final(run.output());
  if (final.result == nullptr) return "";
  for (const auto& [mime, value] : final.result->items) {
    if (mime == "text/plain") return value;
  }
  return "";
}

// Displays that are no pictures: a model reads their text.
std::string shown_text(const LiveRun& run) {
  std::string text;
  for (const auto* display : FinalDisplays(run.output()).displays) {
    if (std::ranges::any_of(display->items, [](const auto& item) { return is_picture(item.first); })) continue;
    const auto plain = std::ranges::find(display->items, "text/plain", &std::pair<std::string, std::string>::first);
    if (plain != display->items.end() && text.size() < kMostResult) text += plain->second + "\n";
  }
  return first_characters(text, kMostResult);
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1'000) return fmt::format("{} bytes", bytes);
  return bytes < 1'000'000 ? fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

json::array files_of(const LiveRun& run, const std::string& session_id) {
  json::array files;
  for (const auto& file : run.files()) {
    if (files.size() >= kMostFilesTold) break;
    json::object entry{{"path", "/workspace/" + clean_utf8(file.path)},
                       {"size", file.size},
                       {"mime_type", file.mime_type},
                       {"change", std::string(file_object(file).at("change").as_string())}};
    if (!session_id.empty()) entry["uri"] = file_uri(session_id, file.path);
    files.push_back(std::move(entry));
  }
  return files;
}

void tag(std::string& text, std::string_view name, std::string_view content) {
  if (content.empty()) return;
  const bool closed = content.ends_with('\n');
  text += fmt::format("<{0}>{1}{2}</{0}>\n", name, content, closed || content.size() < 80 ? "" : "\n");
}

struct Pictures {
  std::vector<Picture> shown;
  std::vector<std::string> left_out;  // why, for each
};

Pictures pictures_of(const LiveRun& run) {
  Pictures pictures;
  const FinalDisplays final(run.output());
  const auto add = [&](const wire::Display& display) {
    const auto picture = std::ranges::find_if(display.items, [](const auto& item) { return is_picture(item.first); });
    if (picture == display.items.end()) return;
    auto unfit = unfit_picture(picture->first, picture->second);
    if (!unfit && pictures.shown.size() >= kMostPictures) {
      unfit = fmt::format("a result has at most {}", kMostPictures);
    }
    if (unfit) {
      pictures.left_out.push_back(std::move(*unfit));
    } else {
      pictures.shown.push_back({.mime = picture->first, .bytes = picture->second});
    }
  };
  for (const auto* display : final.displays) add(*display);
  if (final.result != nullptr) add(*final.result);
  return pictures;
}

std::string in_words(const json::object& result, const std::string& shown) {
  const auto word = [&](const char* name) -> std::string_view {
    const auto* found = result.if_contains(name);
    return found != nullptr && found->is_string() ? std::string_view(found->get_string()) : "";
  };
  std::string text;
  tag(text, "stdout", word("stdout"));
  tag(text, "stderr", word("stderr"));
  tag(text, "shown", shown);
  tag(text, "result", word("result"));
  const auto& cut = result.at("truncated").get_object();
  for (const char* stream : {"stdout", "stderr"}) {
    if (!cut.at(stream).get_bool()) continue;
    text += fmt::format("[{} was cut; the rest: get_execution with execution_id \"{}\" and {}_from]\n", stream,
                        word("execution_id"), stream);
  }
  if (const auto* left_out = result.if_contains("images_left_out")) {
    for (const auto& why : left_out->get_array()) {
      text += fmt::format("[a picture is not shown: {}]\n", std::string_view(why.get_string()));
    }
  }
  if (const auto* error = result.at("error").if_object()) {
    std::string said(error->at("message").as_string());
    if (const auto& hint = error->at("hint").as_string(); !hint.empty()) said += "\nWhat to do: " + std::string(hint);
    const auto& state = error->at("state").as_string();
    if (state == "kept") said += "\nVariables and files are as they were.";
    if (state == "files_kept") said += "\nThe interpreter was restarted: variables are gone, files are kept.";
    text +=
        fmt::format("<error category=\"{}\">{}</error>\n", std::string_view(error->at("category").as_string()), said);
  }
  std::string files;
  for (const auto& file : result.at("files").get_array()) {
    const auto& entry = file.get_object();
    files += fmt::format("{}{} ({}, {})", files.empty() ? "" : "\n", std::string_view(entry.at("path").as_string()),
                         size_text(entry.at("size").to_number<std::uint64_t>()),
                         std::string_view(entry.at("change").as_string()));
  }
  tag(text, "files", files);
  if (const auto* calls = result.if_contains("pending_tool_calls")) {
    tag(text, "tool_calls", json_text(*calls));
    text += "[the code waits: answer with answer_tool_calls]\n";
  } else if (word("status") == "running") {
    text += fmt::format("[still running: ask get_execution with execution_id \"{}\"]\n", word("execution_id"));
  }
  const auto session = word("session_id");
  text += session.empty()
              ? fmt::format("[{} in {:.2f} s]", word("status"), result.at("execution_time").to_number<double>())
              : fmt::format("[{} in {:.2f} s; session_id \"{}\"]", word("status"),
                            result.at("execution_time").to_number<double>(), session);
  return text;
}

}  // namespace

std::string first_characters(std::string_view bytes, std::size_t most) {
  std::string text = clean_utf8(bytes.substr(0, most * 4));
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;
    if (++count > most) {
      text.resize(at);
      break;
    }
  }
  return text;
}

std::string file_uri(const std::string& session_id, std::string_view path) {
  return "sandbox://" + session_id + "/files/" + percent_encode_path(path);
}

std::string in_terms_of_tools(std::string hint) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {" (limits.timeout, up to the configured ceiling)", " (the timeout argument)"},
      {", or ask for more (limits.cpu_time)", ""},
      {", or ask for more (limits.memory)", ""},
      {", or ask for more (limits.processes)", ""},
      {", or ask for more (limits.open_files)", ""},
      {", or ask for more (limits.scratch, limits.inodes)", ""},
      {", or ask for more (limits.scratch)", ""},
      {"Send `stdin` with the run (a text, or true to send it while it runs), or pass the data as a file.",
       "There is nobody to type anything: assign the value in the code."},
      {"Use a module the template has (`hutch template show`), or add the package to a template.",
       "Packages cannot be installed here: use a module that is there, or the standard library."},
      {"Wait as long as Retry-After says.", "Wait for retry_after_ms, and call again."},
      {"put the data in as files", "use data that is in the code or in files of the session"}};
  hint = in_terms_of_fields(std::move(hint));
  for (const auto& [from, to] : kWords) {
    if (const auto at = hint.find(from); at != std::string::npos) hint.replace(at, from.size(), to);
  }
  return hint;
}

Streams streams_of(const LiveRun& run) {
  Streams streams;
  for (const auto& event : run.output()) {
    if (!event.display) (event.stream == wire::Stream::out ? streams.out : streams.err) += event.data;
  }
  return streams;
}

std::string status_word(const LiveRun& run) { return run.stage() == RunStage::finished ? status_of(run) : "running"; }

json::value error_value(const LiveRun& run) {
  if (run.record() && run.record()->error) {
    json::object error = error_object(*run.record()->error);
    error["hint"] = in_terms_of_tools(run.record()->error->hint);
    return error;
  }
  return nullptr;
}

double seconds_of(const LiveRun& run) {
  if (run.record()) return static_cast<double>(run.record()->usage.wall_us) / 1e6;
  return run.started_ns == 0 ? 0 : static_cast<double>(system_now_ns() - run.started_ns) / 1e9;
}

void repeat_error(json::object& structured, bool is_error) {
  const auto* told = structured["error"].if_object();
  if (told == nullptr) return;
  const json::object error = *told;
  structured["isError"] = is_error;
  structured["errorCategory"] = error.at("category");
  structured["isRetryable"] = error.at("retryable");
  structured["context"] = {
      {"code", error.at("code")}, {"fix", error.at("fix")}, {"state", error.at("state")}, {"hint", error.at("hint")}};
}

void tell(ToolResult& result, const std::string& shown) {
  repeat_error(result.structured, result.is_error);
  result.text = in_words(result.structured, shown);
}

ToolResult result_of(const std::shared_ptr<LiveRun>& run, const Session* session) {
  const Streams streams = streams_of(*run);
  const std::string session_id = session != nullptr ? session->settings().id : run->identity().session_id;
  std::string out = first_characters(streams.out, kMostOut);
  std::string err = first_characters(streams.err, kMostErr);
  const bool out_cut = run->truncated(wire::Stream::out) || clean_utf8(streams.out).size() > out.size();
  const bool err_cut = run->truncated(wire::Stream::err) || clean_utf8(streams.err).size() > err.size();
  const std::string status = status_word(*run);
  json::value error = error_value(*run);
  if (status == "timeout") {
    const auto& limit = run->record()->error->limit_value;
    if (!err.empty() && !err.ends_with('\n')) err += '\n';
    err += fmt::format("Execution timed out after {:g}s", static_cast<double>(limit) / 1000.0);
  }
  const std::string value = value_text(*run);
  auto pictures = pictures_of(*run);
  ToolResult result{.pictures = std::move(pictures.shown), .run = run};
  const auto log = [&](bool cut, const char* stream) {
    return cut ? json::value("/v1/runs/" + run->identity().id + "/log?stream=" + stream) : json::value(nullptr);
  };
  result.structured = {
      {"status", status},
      {"stdout", out},
      {"stderr", err},
      {"exit_code", run->record() ? json::value(run->record()->exit_code) : json::value(nullptr)},
      {"execution_time", seconds_of(*run)},
      {"result", value.empty() ? json::value(nullptr) : json::value(first_characters(value, kMostResult))},
      {"error", std::move(error)},
      {"files", files_of(*run, session_id)},
      {"images", result.pictures.size()},
      {"truncated", {{"stdout", out_cut}, {"stderr", err_cut}}},
      {"full_log", {{"stdout", log(out_cut, "stdout")}, {"stderr", log(err_cut, "stderr")}}},
      {"session_id", session_id.empty() ? json::value(nullptr) : json::value(session_id)},
      {"execution_id", run->identity().id}};
  if (!pictures.left_out.empty()) result.structured["images_left_out"] = json::value_from(pictures.left_out);
  if (!run->pending_tool_calls().empty()) {
    json::array calls;
    for (const auto& pending : run->pending_tool_calls()) {
      boost::system::error_code failed;
      auto input = json::parse(pending->input, failed);
      calls.push_back(json::object{{"call_id", pending->call_id},
                                   {"name", pending->name},
                                   {"input", failed ? json::value(pending->input) : std::move(input)}});
    }
    result.structured["pending_tool_calls"] = std::move(calls);
  }
  if (run->record()) {
    const auto& usage = run->record()->usage;
    result.structured["usage"] = {{"wall_ms", static_cast<double>(usage.wall_us) / 1e3},
                                  {"cpu_ms", static_cast<double>(usage.cpu_us) / 1e3},
                                  {"max_rss_bytes", usage.peak_memory}};
  }
  tell(result, shown_text(*run));
  return result;
}

}  // namespace hutch
