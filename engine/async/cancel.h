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

  bool cancelled() const { return state_ && state_->cancelled; }

  /// Ok, or a Cancelled error; to be called at every stage boundary.
  Result<> check() const {
    if (cancelled()) return fail(Code::Cancelled, "cancelled by the caller");
    return {};
  }

  /// Makes `completion` end as Cancelled when the source fires. What the external event still owns stays owned by it.
  template <class T>
  void link(Completion<T> completion) const {
    if (!state_) return;
    if (state_->cancelled) {
      completion.complete(fail(Code::Cancelled, "cancelled by the caller"));
      return;
    }
    std::erase_if(state_->links, [](const auto& link) { return link->done(); });
    state_->links.push_back(std::make_unique<Link<T>>(std::move(completion)));
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
  std::shared_ptr<State> state_;
};

class CancelSource {
 public:
  CancelSource() { token_.state_ = std::make_shared<CancelToken::State>(); }
  CancelToken token() const { return token_; }
  void cancel() {
    if (std::exchange(token_.state_->cancelled, true)) return;
    for (auto& link : token_.state_->links) link->fire();
    token_.state_->links.clear();
  }

 private:
  CancelToken token_;
};

}  // namespace sinter
