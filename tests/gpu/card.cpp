// What a CPU build of torch lacks for tensors that say `cuda`: a device guard, and hooks that admit to having a card.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>

namespace {
constexpr auto CUDA = c10::DeviceType::CUDA;
thread_local c10::DeviceIndex current = 0;

c10::DeviceIndex cards() {
  const char* said = std::getenv("PRETENDED_CARDS");
  return said ? static_cast<c10::DeviceIndex>(std::atoi(said)) : 1;
}

struct Guard final : c10::impl::NoOpDeviceGuardImpl<CUDA> {
  c10::Device exchangeDevice(c10::Device to) const override {
    c10::Device before(CUDA, current);
    current = to.index();
    return before;
  }
  c10::Device getDevice() const override { return c10::Device(CUDA, current); }
  void setDevice(c10::Device to) const override { current = to.index(); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { current = to.index(); }
  c10::Stream getStream(c10::Device of) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, of); }
  c10::Stream getDefaultStream(c10::Device of) const override { return c10::Stream(c10::Stream::DEFAULT, of); }
  c10::DeviceIndex deviceCount() const noexcept override { return cards(); }
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return cards(); }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
};

const Guard guard;
}  // namespace

namespace at {
using ::Hooks;
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, Hooks)
}  // namespace at

extern "C" void pretend() { c10::impl::device_guard_impl_registry[static_cast<size_t>(CUDA)].store(&guard); }
