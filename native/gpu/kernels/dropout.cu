// output = dropout(input), with the mask of cpu/dropout.cc for the same seed. The backward pass is the same function of the gradient.
extern "C" __global__ void __launch_bounds__(256)
dropout_elements(const Scalar* input, Scalar* output, Dropout dropout, long long count) {
  uint64 seed = *dropout.seed;
  long long stride = static_cast<long long>(gridDim.x) * 1024;
  for (long long index = (blockIdx.x * 256ll + threadIdx.x) * 4; index < count; index += stride) {
    if (index + 4 <= count) {
      Four values = load(input, index);
      drop(dropout, seed, index, values);
      store(output, index, values);
    } else {
      Four values = {};
      for (int i = 0; index + i < count; i++) values[i] = toFloat(input[index + i]);
      drop(dropout, seed, index, values);
      for (int i = 0; index + i < count; i++) output[index + i] = fromFloat(values[i]);
    }
  }
}
