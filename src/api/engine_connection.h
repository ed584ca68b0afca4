// One client of the engine: frames in, frames out, one run at a time.
#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "session/engine.h"
#include "wire/engine_messages.h"
#include "wire/frame.h"

namespace hutch {

// What a connection asks of the process around it.
struct EngineHost {
  Engine* engine = nullptr;  // none: the engine could not be made, and `problem` says why
  Error problem;
  std::function<bool(const wire::Hello&)> is_current;
  std::function<void()> retire;
  std::chrono::milliseconds idle_exit{0};
};

class EngineConnection final : public RunSink {
 public:
  EngineConnection(net::local::stream_protocol::socket socket, EngineHost& host);
  // Until the client hangs up. Keeps the connection alive meanwhile.
  static net::awaitable<void> serve(std::shared_ptr<EngineConnection> connection) {
    return connection->run(connection);
  }

 private:
  net::awaitable<void> run(std::shared_ptr<EngineConnection> self);

  struct Outgoing {
    std::string bytes;
    UniqueFd attached;
  };

  void on_output(wire::OutputEvent event) override;
  void on_file(CollectedFile file) override;
  void on_cell_done(wire::CellStatus status, wire::Record record) override;

  net::awaitable<Result<wire::Frame>> receive();
  net::awaitable<void> write_all();
  bool handle_idle(const wire::Frame& frame);     // no run is going on; false ends the connection
  void handle_running(const wire::Frame& frame);  // a run is going on
  net::awaitable<void> execute();
  net::awaitable<void> measure_fork(std::string template_name);
  void send(std::string bytes, UniqueFd attached = {});
  bool send_now(Outgoing& outgoing);
  void send_failure(const StartFailure& failure);

  net::local::stream_protocol::socket socket_;
  EngineHost& host_;
  TaskGroup tasks_;
  wire::FrameBuffer frames_{wire::kMaxEngineFrame};
  std::deque<UniqueFd> received_;
  std::deque<Outgoing> outgoing_;
  bool writing_ = false;
  bool closed_ = false;
  std::optional<RunSpec> pending_;
  std::uint64_t pending_bytes_ = 0;
  std::shared_ptr<Run> run_;
  Admission::Owner owner_;
};

}  // namespace hutch
