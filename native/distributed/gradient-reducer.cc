// Sums gradients over all processes while the backward pass still runs. A hook on every parameter
// copies its finished gradient into a bucket, and a complete bucket is sent at once.
#include <ATen/ops/full.h>

#include <limits>

#include "binding/exports.h"
#include "binding/slots.h"
#include "distributed/distributed.h"

namespace temper {
namespace {

struct Parameter {
  at::Tensor tensor;
  size_t bucket;
  /** Its first element in the bucket. */
  int64_t start;
  unsigned hook;
  bool isReady = false;
};

struct Bucket {
  int64_t numel = 0;
  int64_t missing = 0;
  at::Tensor flat;
};

class Reducer : public c10::intrusive_ptr_target {
 public:
  Reducer(c10::intrusive_ptr<c10d::Backend> group, const std::vector<at::Tensor>& tensors,
          const std::vector<int64_t>& bucketIndices)
      : group_(std::move(group)) {
    // All checks come before the first hook, which must not outlive the reducer.
    TORCH_CHECK(tensors.size() == bucketIndices.size(), "expected a bucket per parameter");
    for (size_t i = 0; i < tensors.size(); i++) {
      int64_t before = i == 0 ? -1 : bucketIndices[i - 1];
      TORCH_CHECK(bucketIndices[i] == before + 1 || (i > 0 && bucketIndices[i] == before),
                  "expected buckets from 0 on, in order");
      const auto& tensor = tensors[i];
      TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.requires_grad(),
                  "expected parameters on the CPU that require gradients");
      TORCH_CHECK(bucketIndices[i] != before || tensor.scalar_type() == tensors[i - 1].scalar_type(),
                  "expected one dtype per bucket");
    }
    buckets_.resize(bucketIndices.empty() ? 0 : bucketIndices.back() + 1);
    parameters_.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); i++) {
      auto& bucket = buckets_.at(bucketIndices.at(i));
      unsigned hook = tensors[i].register_hook([this, i](const at::Tensor& gradient) { return take(i, gradient); });
      parameters_.push_back({tensors[i], static_cast<size_t>(bucketIndices[i]), bucket.numel, hook});
      bucket.numel += tensors[i].numel();
    }
  }

  ~Reducer() override {
    for (const auto& parameter : parameters_) parameter.tensor.remove_hook(parameter.hook);
  }

  /** From now on, the hooks collect gradients. */
  void start() {
    for (auto& bucket : buckets_) bucket = {bucket.numel, 0, at::Tensor()};
    for (auto& parameter : parameters_) {
      parameter.isReady = false;
      buckets_[parameter.bucket].missing++;
    }
    sent_ = 0;
    works_.clear();
    isActive_ = true;
  }

  /** Sends what is left. A parameter without a gradient counts as zero. Returns all works. */
  std::vector<double> finish() {
    isActive_ = false;
    for (auto& parameter : parameters_)
      if (!parameter.isReady) getSlot(parameter).zero_();
    while (sent_ < buckets_.size()) send();
    return std::move(works_);
  }

  /** The sums, as parts of the buckets. */
  std::vector<at::Tensor> takeSums() {
    std::vector<at::Tensor> sums;
    for (const auto& parameter : parameters_) sums.push_back(getSlot(parameter));
    for (auto& bucket : buckets_) bucket.flat.reset();
    return sums;
  }

 private:
  /**
   * The hook of a parameter. Its result replaces the gradient, whose memory is freed: one NaN in the shape of the
   * parameter. Gloo may already be writing the bucket, so nothing else may see it before `takeSums`. Whoever used the
   * gradient of this process alone would notice.
   */
  at::Tensor take(size_t i, const at::Tensor& gradient) {
    auto& parameter = parameters_[i];
    if (!isActive_ || parameter.isReady || !gradient.defined()) return {};
    getSlot(parameter).copy_(gradient);
    parameter.isReady = true;
    buckets_[parameter.bucket].missing--;
    // All processes send the buckets in the same order, whatever order the gradients come in.
    while (sent_ < buckets_.size() && buckets_[sent_].missing == 0) send();
    return at::full({}, std::numeric_limits<double>::quiet_NaN(), gradient.options()).expand(gradient.sizes());
  }

  at::Tensor getSlot(const Parameter& parameter) {
    auto& bucket = buckets_[parameter.bucket];
    if (!bucket.flat.defined()) bucket.flat = at::empty({bucket.numel}, parameter.tensor.options().requires_grad(false));
    return bucket.flat.narrow(0, parameter.start, parameter.tensor.numel()).view(parameter.tensor.sizes());
  }

  void send() {
    std::vector<at::Tensor> tensors{buckets_[sent_++].flat};
    works_.push_back(addWork(group_->allreduce(tensors)));
  }

  c10::intrusive_ptr<c10d::Backend> group_;
  std::vector<Parameter> parameters_;
  std::vector<Bucket> buckets_;
  /** The buckets that were sent, and their works. */
  size_t sent_ = 0;
  std::vector<double> works_;
  bool isActive_ = false;
};

/** reducerOpen(group, parameters, bucket per parameter): adds the hooks. Returns a reducer. */
napi_value reducerOpen(const Call& call) {
  std::vector<int64_t> buckets;
  uint32_t length = arrayLength(call.env, call.at(2), "an array of buckets");
  for (uint32_t i = 0; i < length; i++) buckets.push_back(toInteger(call.env, element(call.env, call.at(2), i)));
  auto group = table<c10d::Backend>().get(call.env, call.at(0));
  auto reducer = c10::make_intrusive<Reducer>(std::move(group), toTensors(call.env, call.at(1)), buckets);
  return fromDouble(call.env, table<Reducer>().add(std::move(reducer)));
}

napi_value reducerStart(const Call& call) {
  table<Reducer>().get(call.env, call.at(0))->start();
  return nullptr;
}

template <typename T, typename Convert>
napi_value toArray(napi_env env, const std::vector<T>& items, Convert&& convert) {
  napi_value array;
  napi_create_array_with_length(env, items.size(), &array);
  for (size_t i = 0; i < items.size(); i++) napi_set_element(env, array, i, fromDouble(env, convert(items[i])));
  return array;
}

/** reducerFinish(reducer): sends the rest after the backward pass. Returns the works of all buckets. */
napi_value reducerFinish(const Call& call) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  auto works = table<Reducer>().get(call.env, call.at(0))->finish();
  return toArray(call.env, works, [](double work) { return work; });
}

/** reducerTake(reducer): the sums per parameter, after all works have ended. */
napi_value reducerTake(const Call& call) {
  auto sums = table<Reducer>().get(call.env, call.at(0))->takeSums();
  return toArray(call.env, sums, [](const at::Tensor& sum) { return keepTensor(sum); });
}

napi_value reducerClose(const Call& call) {
  table<Reducer>().entries.erase(toInteger(call.env, call.at(0)));
  return nullptr;
}

}  // namespace

void defineGradientReducer(napi_env env, napi_value exports) {
  define<reducerOpen>(env, exports, "reducerOpen");
  define<reducerStart>(env, exports, "reducerStart");
  define<reducerFinish>(env, exports, "reducerFinish");
  define<reducerTake>(env, exports, "reducerTake");
  define<reducerClose>(env, exports, "reducerClose");
}

}  // namespace temper
