// SPDX-License-Identifier: Apache-2.0
// Cancellation is an explicit token. A callback given to a token runs at most once, when the source fires.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/async/completion.h"
#include "engine/base/result.h"

namespace sinter {

class CancelToken {
 public:
  CancelToken() = default;  // never fires

  /// Fires when one of the two does.
  static CancelToken any(CancelToken a, const CancelToken& b) {
    a.states_.insert(a.states_.end(), b.states_.begin(), b.states_.end());
    return a;
  }

  bool cancelled() const {
    for (const auto& state : states_) {
      if (state->cancelled) return true;
    }
    return false;
  }
  bool can_fire() const { return !states_.empty(); }

  /// Ok, or a Cancelled error; to be called at every stage boundary.
  Result<> check() const {
    if (cancelled()) return fail(Code::Cancelled, "cancelled by the caller");
    return {};
  }

  /// Makes `completion` end as Cancelled when the source fires. What the external event still owns stays owned by it.
  template <class T>
  void link(Completion<T> completion) const {
    if (cancelled()) completion.complete(fail(Code::Cancelled, "cancelled by the caller"));
    if (completion.done()) return;
    for (const auto& state : states_) {
      std::erase_if(state->links, [](const auto& link) { return link->done(); });
      state->links.push_back(std::make_unique<Link<T>>(completion));
    }
  }

 private:
  friend class CancelSource;
  struct LinkBase {
    virtual ~LinkBase() = default;
    virtual void fire() = 0;
    virtual bool done() const = 0;
  };
  template <class T>
  struct Link final : LinkBase {
    explicit Link(Completion<T> c) : completion(std::move(c)) {}
    void fire() override { completion.complete(fail(Code::Cancelled, "cancelled by the caller")); }
    bool done() const override { return completion.done(); }
    Completion<T> completion;
  };
  struct State {
    bool cancelled = false;
    std::vector<std::unique_ptr<LinkBase>> links;
  };
  std::vector<std::shared_ptr<State>> states_;
};

class CancelSource {
 public:
  CancelSource() { token_.states_.push_back(std::make_shared<CancelToken::State>()); }
  CancelToken token() const { return token_; }
  void cancel() {
    CancelToken::State& state = *token_.states_[0];
    if (std::exchange(state.cancelled, true)) return;
    for (auto& link : state.links) link->fire();
    state.links.clear();
  }

 private:
  CancelToken token_;
};

}  // namespace sinter
