#pragma once

// A counted pointer to an object that carries its count: 8 bytes where std::shared_ptr
// takes 16 and a control block, which a million partitions would feel.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vecall {

template <class T>
class Ref;

// The base of what a Ref may point to.
class RefCounted {
 public:
  RefCounted() = default;
  ~RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

 private:
  template <class T>
  friend class Ref;

  mutable std::atomic<std::uint32_t> references_{0};
};

template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) noexcept : object_(object) { retain(); }
  Ref(const Ref& other) noexcept : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(const Ref& other) noexcept {
    if (this == &other) return *this;
    Ref copy(other);
    std::swap(object_, copy.object_);
    return *this;
  }
  Ref& operator=(Ref&& other) noexcept {
    Ref taken(std::move(other));
    std::swap(object_, taken.object_);
    return *this;
  }
  ~Ref() { release(); }

  [[nodiscard]] T* get() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  // True if no other Ref points to the object.
  [[nodiscard]] bool is_last() const noexcept {
    return object_->references_.load(std::memory_order_acquire) == 1;
  }

 private:
  void retain() const noexcept {
    if (object_ != nullptr) {
      object_->references_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void release() noexcept {
    if (object_ != nullptr &&
        object_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete object_;
    }
  }

  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace vecall
