#include "cli/run_follower.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 4> kStages{"queued", "started", "input_wanted", "finished"};
constexpr int kWaitMs = 1'000;  // of an answer: what is refused at once is refused by the first
constexpr unsigned kNoMoreBytes = 416;

std::uint64_t number_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code not_one;  // negative, a fraction
  const auto number = value->to_number<std::uint64_t>(not_one);
  return not_one ? 0 : number;
}

std::string words_for(wire::Stream stream) {
  return stream == wire::Stream::out ? "standard output" : "standard error";
}

}  // namespace

Error RunFollower::lost(const Error& why) const {
  return make_error(why.code, "the connection broke: " + why.message)
      .with_hint("the run " + run_ + " may go on: GET /v1/runs/" + run_ + " has its output");
}

void RunFollower::hear(std::string_view line) {
  const auto event = parse_object(line);
  if (!event) {
    missed_ = true;
    return;
  }
  const std::string type = text_at(*event, "type");
  const std::uint64_t number = number_at(*event, "seq");
  if (number <= heard_ && type != "finished") return;
  if (number != heard_ + 1 || type == "gap") missed_ = true;
  heard_ = std::max(heard_, number);
  client_.went_well();
  if (run_.empty()) run_ = text_at(*event, "run");
  if (!missed_) printer_.show(*event);
  if (type == "finished") {
    over_ = true;
    const auto* result = event->if_contains("result");
    if (result != nullptr && result->is_object()) result_ = result->get_object();
  }
  if (on_stage && std::ranges::find(kStages, type) != kStages.end()) on_stage(type, run_);
}

Result<void> RunFollower::hear_to_the_end() {
  const auto take = [this](std::string_view line) { hear(line); };
  Error why = make_error(ErrorCode::disconnected, "the daemon ended the stream");
  while (!over_) {
    if (!client_.reconnect()) return lost(why);
    const auto reply = client_.get_stream("/v1/runs/" + run_ + "/events?after=" + std::to_string(heard_), take);
    const bool refused = reply && reply->status >= 400 && reply->status != 503;
    if (refused) return lost(expect_object(reply).error());
    if (!reply) why = reply.error();
  }
  return {};
}

Result<json::object> RunFollower::run(const std::string& path, std::string body) {
  const auto reply = client_.post_stream(path, std::move(body), [this](std::string_view line) { hear(line); });
  if (run_.empty() || (reply && reply->status >= 400)) {
    HUTCH_TRY(std::ignore, expect_object(reply));
    return make_error(ErrorCode::protocol, "the daemon ended the stream before the run began");
  }
  HUTCH_TRY(hear_to_the_end());
  if (missed_ || result_.empty()) catch_up();
  if (result_.empty()) return make_error(ErrorCode::protocol, "the daemon does not say how the run ended");
  show_rest(wire::Stream::out);
  show_rest(wire::Stream::err);
  return result_;
}

Result<HttpReply> RunFollower::run_silently(const std::string& path, json::object body) {
  body["wait_ms"] = kWaitMs;
  auto reply = client_.post(path, json::serialize(body));
  while (reply && reply->status < 400) {
    HUTCH_TRY(const auto run, expect_object(reply));
    run_ = text_at(run, "execution_id");
    const std::string status = text_at(run, "status");
    const bool over = status != "queued" && status != "running";
    if (on_stage) on_stage(over ? "finished" : status == "running" ? "started" : "queued", run_);
    if (over) break;
    reply = client_.get("/v1/runs/" + run_ + "?wait_ms=" + std::to_string(kWaitMs));
    if (!reply) return lost(reply.error());
  }
  return reply;
}

void RunFollower::catch_up() {
  auto run = expect_object(client_.get("/v1/runs/" + run_));
  if (!run) {
    showed_all_ = false;
    return report_.error("output is missing: " + run.error().message, "GET /v1/runs/" + run_ + " has it");
  }
  result_ = std::move(*run);
  printer_.show_missed(result_);
}

// The log has everything from the first byte on.
void RunFollower::show_rest(wire::Stream stream) {
  const std::string kept = kept_output(result_, stream);
  const std::string path = "/v1/runs/" + run_ + "/log?stream=" + std::string(name_of(stream));
  std::uint64_t at = complete_utf8_prefix(kept);
  const bool cut = was_cut(result_, stream);
  if (!is_utf8(std::string_view(kept).substr(0, cut ? at : kept.size()))) {
    report_.notice(words_for(stream) + " is not UTF-8 everywhere, and was shown with replacements: GET " + path +
                   " has its bytes");
  }
  if (!cut) return;
  const auto reply = client_.download(path, at, [&](std::string_view piece) {
    at += piece.size();
    write_out(stream == wire::Stream::out ? 1 : 2, piece);
  });
  const auto* log = result_["full_log"].if_object();
  const std::uint64_t written = log != nullptr ? number_at(*log, std::string(name_of(stream)) + "_bytes") : 0;
  const bool refused = reply && reply->status >= 400 && reply->status != kNoMoreBytes;
  if (reply && !refused && at >= written) return;
  showed_all_ = false;
  const std::string why = !reply    ? reply.error().message
                          : refused ? expect_object(reply).error().message
                                    : "the daemon did not keep more of it";
  report_.error(show_size(written - std::min(at, written)) + " of " + words_for(stream) + " are missing: " + why,
                !reply ? "GET " + path : "let the program write to a file, and bring that out with --out");
}

}  // namespace hutch
