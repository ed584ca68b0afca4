#include "session/event_stream.h"

#include "session/display_rules.h"

namespace hutch {
namespace {

std::size_t weight_of(const StreamEvent& event) {
  return event.text.size() + sizeof(StreamEvent) + (event.display ? weight(*event.display) : 0) +
         (event.call ? event.call->input.size() : 0);
}

}  // namespace

void EventStream::append(StreamEvent event) {
  event.number = next_++;
  bytes_ += weight_of(event);
  events_.push_back(std::move(event));
  while (bytes_ > most_bytes_ && events_.size() > 1) {
    bytes_ -= weight_of(events_.front());
    events_.pop_front();
  }
  wake_all();
}

void EventStream::close() {
  closed_ = true;
  wake_all();
}

void EventStream::wake_all() {
  for (auto* timer : waiting_) timer->cancel();
}

net::awaitable<void> EventStream::wait_beyond(std::uint64_t number, Clock::time_point deadline) {
  if (last() > number || closed_) co_return;
  net::steady_timer timer(executor_, deadline);
  const auto place = waiting_.insert(waiting_.end(), &timer);
  boost::system::error_code ignored;
  co_await timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
  waiting_.erase(place);
}

}  // namespace hutch
