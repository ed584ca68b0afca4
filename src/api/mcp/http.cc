#include "api/mcp/http.h"

#include <exception>

#include "api/json_fields.h"
#include "api/json_text.h"
#include "api/mcp/fixtures.h"
#include "base/log.h"

namespace hutch::mcp {
namespace {

constexpr auto kLook = std::chrono::milliseconds(200);
constexpr auto kSilence = std::chrono::seconds(15);
constexpr auto kKeyLook = std::chrono::seconds(1);  // at whether the key still counts
constexpr std::size_t kMostStreams = 4;             // of one legacy client
constexpr std::size_t kLongestBesideCalls = 1U << 20;

std::optional<std::string> header_of(const HttpRequest& request, std::string_view name) {
  const auto found = request.headers.find(name);
  if (found == request.headers.end()) return std::nullopt;
  return found->second;
}

// Two values for one header are none that anybody can agree with.
std::optional<std::string> only_header(const HttpRequest& request, std::string_view name) {
  if (std::ranges::find(request.repeated, name) != request.repeated.end()) return "(more than one)";
  return header_of(request, name);
}

bool accepts_events(const HttpRequest& request) {
  const auto accept = request.header("accept");
  return accept.empty() || accept.contains("text/event-stream") || accept.contains("text/*") || accept.contains("*/*");
}

std::string event_of(std::string_view text) { return "event: message\ndata: " + std::string(text) + "\n\n"; }

Answer stream_head() { return {.content_type = "text/event-stream", .headers = {{"X-Accel-Buffering", "no"}}}; }

net::awaitable<void> answer_error(HttpExchange& exchange, const json::value& id, const RpcError& error,
                                  unsigned status) {
  co_await exchange.answer({.status = status, .body = error_text(id, error)});
}

net::awaitable<void> answer_error(HttpExchange& exchange, const json::value& id, const RpcError& error) {
  co_await answer_error(exchange, id, error, error.http_status);
}

// Only calls bring code and files; what is said beside them is short, and some of it is kept for long.
bool is_too_long(const Message& message, std::size_t size) {
  if (size <= kLongestBesideCalls || std::holds_alternative<RpcProblem>(message)) return false;
  const auto* asked = std::get_if<RpcRequest>(&message);
  return asked == nullptr || asked->method != "tools/call";
}

ApiError too_long() {
  return {.status = 413,
          .category = "invalid_request",
          .code = "too_large",
          .message = "A message that is no tools/call has at most " + std::to_string(kLongestBesideCalls) + " bytes."};
}

// What is wrong with the session that a legacy request names, if anything is.
RpcError bad_session(bool named) {
  return {.code = kInvalidRequest,
          .message = named ? "Session not found: initialize again" : "The header Mcp-Session-Id is missing",
          .http_status = named ? 404U : 400U};
}

bool speaks(const std::optional<std::string>& version) { return !version || speaks_legacy(*version); }

net::awaitable<void> work(Server& server, RpcRequest message, Call& call, Outbox& outbox, std::optional<Reply>& reply) {
  try {
    reply = co_await server.answer(std::move(message), call);
  } catch (const std::exception& error) {  // whoever waits for the answer is to hear of an end
    log::error("MCP request lost",
               {{"request", call.caller.request_id}, {"key", call.caller.key.id}, {"error", error.what()}});
    reply = refuse(kInternalError, "Internal error: the daemon's log has the reason");
  }
  outbox.finish();
}

// JSON, unless there is something to say before the result: then a stream of events, of which the result is the last.
class Responder {
 public:
  explicit Responder(HttpExchange& exchange) : exchange_(exchange) {}

  net::awaitable<void> tell(std::string_view text) {
    if (!accepts_events(exchange_.request())) co_return;
    co_await open();
    if (there_) there_ = co_await exchange_.write(event_of(text));
    last_word_ = Clock::now();
  }
  net::awaitable<void> keep_alive() {
    if (!begun_ || !there_ || Clock::now() - last_word_ < kSilence) co_return;
    there_ = co_await exchange_.write(":\n\n");
    last_word_ = Clock::now();
  }
  net::awaitable<void> end(const json::value& id, const Reply& reply, unsigned status) {
    const std::string text = reply_text(id, reply);
    if (!begun_) {
      co_await exchange_.answer({.status = status, .body = text});
      co_return;
    }
    if (there_ && co_await exchange_.write(event_of(text))) co_await exchange_.end();
  }
  // Without a result.
  net::awaitable<void> end() {
    co_await open();
    if (there_) co_await exchange_.end();
  }
  [[nodiscard]] bool there() const { return there_; }

 private:
  net::awaitable<void> open() {
    if (!std::exchange(begun_, true)) there_ = co_await exchange_.begin(stream_head(), std::nullopt);
  }

  HttpExchange& exchange_;
  bool begun_ = false;
  bool there_ = true;
  Clock::time_point last_word_ = Clock::now();
};

// Until nothing will follow. A modern client that hangs up has cancelled; a legacy one says so.
net::awaitable<void> tell_all(HttpExchange& exchange, Responder& responder, Outbox& outbox, const Call& call) {
  const auto& cancellation = call.cancellation;
  auto next_look = Clock::now() + kKeyLook;
  for (;;) {
    while (auto text = outbox.take()) co_await responder.tell(*text);
    if (outbox.finished()) break;
    co_await outbox.wait_until(Clock::now() + kLook);
    co_await responder.keep_alive();
    if (call.modern() && (!responder.there() || exchange.client_gone())) cancellation->cancel();
    if (Clock::now() < next_look) continue;
    if (!exchange.still_allowed()) cancellation->cancel();
    next_look = Clock::now() + kKeyLook;
  }
}

}  // namespace

HttpEndpoint::HttpEndpoint(Daemon& daemon) : server_(daemon, {}), sessions_(server_.watchers) {
  if (daemon.settings.mcp_fixtures) server_.set_extra(conformance_fixtures(server_));
}

net::awaitable<Handled> HttpEndpoint::post(Request& request) {
  auto& exchange = request.exchange;
  HUTCH_API_TRY(auto body, co_await read_json_text(exchange, request.daemon.settings.most_body));
  Message message = decode_message(body);
  const std::size_t size = body.size();
  std::string().swap(body);  // clear() would keep its memory until the answer is over
  if (is_too_long(message, size)) co_return std::unexpected(too_long());
  if (const auto* problem = std::get_if<RpcProblem>(&message)) {
    co_await answer_error(exchange, problem->id, problem->error);
  } else if (auto* asked = std::get_if<RpcRequest>(&message)) {
    const auto era = era_of_http(*asked, header_of(exchange.request(), "mcp-protocol-version"));
    if (era == Era::modern) {
      co_await serve_modern(request, std::move(*asked));
    } else {
      co_await serve_legacy(request, std::move(*asked));
    }
  } else if (const auto* told = std::get_if<RpcNotification>(&message)) {
    co_await take_notification(request, *told);
  } else {
    co_await exchange.answer({.status = 202, .content_type = ""});
  }
  co_return Handled{};
}

net::awaitable<void> HttpEndpoint::take_notification(Request& request, const RpcNotification& message) {
  const auto& asked = request.exchange.request();
  if (const auto id = header_of(asked, "mcp-session-id");
      id && era_of_header(header_of(asked, "mcp-protocol-version")) == Era::legacy) {
    const auto session = sessions_.find(*id, request.caller.key.id);
    if (!session) {
      co_await answer_error(request.exchange, nullptr, bad_session(true));
      co_return;
    }
    const auto* target = message.params.if_contains("requestId");
    if (message.method == "notifications/cancelled" && target != nullptr) {
      const auto found = session->under_way.find(json_text(*target));
      const auto cancellation = found != session->under_way.end() ? found->second.lock() : nullptr;
      if (cancellation) cancellation->cancel();
    }
  }
  co_await request.exchange.answer({.status = 202, .content_type = ""});
}

net::awaitable<void> HttpEndpoint::serve_modern(Request& request, RpcRequest message) {
  const auto& asked = request.exchange.request();
  const auto mirrored = check_mirrored(message, {.version = only_header(asked, "mcp-protocol-version"),
                                                 .method = only_header(asked, "mcp-method"),
                                                 .name = only_header(asked, "mcp-name")});
  if (!mirrored) {
    co_await answer_error(request.exchange, message.id, mirrored.error());
    co_return;
  }
  if (message.method == "subscriptions/listen" && !accepts_events(asked)) {
    const RpcError error{.code = kInvalidRequest, .message = "This needs Accept: text/event-stream"};
    co_await answer_error(request.exchange, message.id, error, 406);
    co_return;
  }
  auto meta = read_modern_meta(message.params);
  if (!meta) {
    co_await answer_error(request.exchange, message.id, meta.error());
    co_return;
  }
  Call call{.daemon = request.daemon, .caller = request.caller, .era = Era::modern, .meta = std::move(*meta)};
  call.request_id = message.id;
  co_await serve(request, std::move(message), std::move(call));
}

net::awaitable<void> HttpEndpoint::begin_session(Request& request, const RpcRequest& message) {
  LegacyState state;
  const auto reply = server_.initialize(message.params, state);
  Answer answer{.body = reply_text(message.id, reply)};
  if (reply) {
    const auto session = sessions_.add(request.caller.key.id);
    session->state = std::move(state);
    answer.headers.emplace_back("Mcp-Session-Id", session->id);
  }
  co_await request.exchange.answer(std::move(answer));
}

net::awaitable<void> HttpEndpoint::serve_legacy(Request& request, RpcRequest message) {
  const auto& asked = request.exchange.request();
  if (message.method == "initialize") {
    co_await begin_session(request, message);
    co_return;
  }
  const auto id = header_of(asked, "mcp-session-id");
  const auto session = id ? sessions_.find(*id, request.caller.key.id) : nullptr;
  if (!session) {
    co_await answer_error(request.exchange, message.id, bad_session(id.has_value()));
    co_return;
  }
  if (!speaks(header_of(asked, "mcp-protocol-version"))) {
    const RpcError error{.code = kInvalidRequest, .message = "Unsupported MCP-Protocol-Version"};
    co_await answer_error(request.exchange, message.id, error, 400);
    co_return;
  }
  Call call{.daemon = request.daemon, .caller = request.caller, .meta = read_legacy_meta(message.params)};
  call.request_id = message.id;
  call.legacy = &session->state;
  call.cancellation = std::make_shared<Cancellation>(request.daemon.engine.executor());
  const std::string name = json_text(message.id);
  session->under_way[name] = call.cancellation;
  co_await serve(request, std::move(message), std::move(call));
  session->under_way.erase(name);
  session->last_used = Clock::now();
}

net::awaitable<void> HttpEndpoint::serve(Request& request, RpcRequest message, Call call) {
  const auto executor = request.daemon.engine.executor();
  const json::value id = message.id;
  const bool modern = call.modern();
  if (!call.cancellation) call.cancellation = std::make_shared<Cancellation>(executor);
  const auto cancellation = call.cancellation;
  Outbox outbox(executor);
  call.notify = [&outbox](const json::object& told) { outbox.offer(json_text(told)); };
  call.on_body_gone = [&exchange = request.exchange] { exchange.body_share.reset(); };
  std::optional<Reply> reply;
  Responder responder(request.exchange);
  TaskGroup tasks(executor);
  tasks.spawn(work(server_, std::move(message), call, outbox, reply));
  std::exception_ptr failed;
  try {
    co_await tell_all(request.exchange, responder, outbox, call);
  } catch (...) {
    failed = std::current_exception();
    cancellation->cancel();
  }
  co_await tasks.join();  // the work uses what is here
  if (failed) std::rethrow_exception(failed);
  if (cancellation->cancelled() || !reply) {
    co_await responder.end();
    co_return;
  }
  co_await responder.end(id, *reply, *reply || !modern ? 200 : reply->error().http_status);
}

net::awaitable<Handled> HttpEndpoint::get(Request& request) {
  auto& exchange = request.exchange;
  const auto& asked = exchange.request();
  const auto id = header_of(asked, "mcp-session-id");
  const bool legacy = era_of_header(header_of(asked, "mcp-protocol-version")) == Era::legacy;
  if (!legacy || !id || !accepts_events(asked) || asked.method == Method::head) {
    co_await exchange.answer({.status = 405, .content_type = "", .headers = {{"Allow", "POST"}}});
    co_return Handled{};
  }
  const auto session = sessions_.find(*id, request.caller.key.id);
  if (!session) {
    co_await answer_error(exchange, nullptr, bad_session(true));
    co_return Handled{};
  }
  const auto outbox = std::make_shared<Outbox>(request.daemon.engine.executor());
  session->streams.push_back(outbox);
  if (session->streams.size() > kMostStreams) session->streams.front()->finish();
  auto last_word = Clock::now();
  bool there = co_await exchange.begin(stream_head(), std::nullopt) && co_await exchange.write(":\n\n");
  const auto stays = [&] {
    return there && !request.daemon.stopping() && !exchange.client_gone() && exchange.still_allowed();
  };
  while (!outbox->finished() && stays()) {
    std::string batch;
    while (auto text = outbox->take()) batch += event_of(*text);
    if (batch.empty() && Clock::now() - last_word >= kSilence) batch = ":\n\n";
    if (!batch.empty()) {
      there = co_await exchange.write(batch);
      last_word = Clock::now();
      session->last_used = last_word;
      continue;
    }
    co_await outbox->wait_until(Clock::now() + std::chrono::seconds(1));
  }
  std::erase(session->streams, outbox);
  if (there) co_await exchange.end();
  co_return Handled{};
}

net::awaitable<Handled> HttpEndpoint::del(Request& request) {
  auto& exchange = request.exchange;
  const auto id = header_of(exchange.request(), "mcp-session-id");
  const bool legacy = era_of_header(header_of(exchange.request(), "mcp-protocol-version")) == Era::legacy;
  if (!legacy || !id) {
    co_await exchange.answer({.status = 405, .content_type = "", .headers = {{"Allow", "POST"}}});
    co_return Handled{};
  }
  if (!sessions_.find(*id, request.caller.key.id)) {
    co_await answer_error(exchange, nullptr, bad_session(true));
    co_return Handled{};
  }
  sessions_.remove(*id);
  co_await exchange.answer({.status = 204, .content_type = ""});
  co_return Handled{};
}

}  // namespace hutch::mcp

namespace hutch {
namespace {

mcp::HttpEndpoint& endpoint_of(Request& request) {
  auto& kept = request.daemon.mcp_endpoint;
  if (!kept) kept = std::make_shared<mcp::HttpEndpoint>(request.daemon);
  return *kept;
}

}  // namespace

net::awaitable<Handled> post_mcp(Request& request) { return endpoint_of(request).post(request); }
net::awaitable<Handled> get_mcp(Request& request) { return endpoint_of(request).get(request); }
net::awaitable<Handled> delete_mcp(Request& request) { return endpoint_of(request).del(request); }

}  // namespace hutch
