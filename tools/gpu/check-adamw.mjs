// Compares the AdamW kernel with libtorch's operators: clipping, fused AdamW and the copy in bfloat16.
import {
  AdamW,
  clipGradNorm_,
  computeClipFactor,
  copyAll_,
  defaultAdamW,
  globalNorm,
  hasFusedAdamW,
} from "../../dist/nn/index.js";
import { free, keep, noGrad, randn, scope, seedGenerator, tensor } from "../../dist/tensor/index.js";

// Small and odd sizes, a tensor of several blocks, more tensors than a launch has, and the shapes of BERT-base.
const smallShapes = [[2], [5], [3, 7], [4097], [768], [64, 768], ...Array.from({ length: 70 }, (_, i) => [i + 1])];
const largeShapes = [[30522, 768], ...Array.from({ length: 72 }, () => [1536, 768])];

// After clipping, the root of the second moment of the small shapes is about 1e-4 in the first step. An epsilon of that size
// makes the modes differ by far more than the tolerance.
const uncorrected = { ...defaultAdamW, epsilon: 1e-4, epsilonMode: "uncorrected" };
const workloads = [
  { name: "small", shapes: smallShapes, settings: defaultAdamW },
  { name: "BERT-base", shapes: largeShapes, settings: defaultAdamW },
  { name: "small, uncorrected epsilon", shapes: smallShapes, settings: uncorrected },
];

function createWorkload({ shapes, settings }, device) {
  return noGrad(() =>
    scope(() => {
      seedGenerator(device, 1);
      const parameters = new Map(shapes.map((shape, i) => [String(i), randn(shape, { device })]));
      // Copies are rows of a larger tensor, as fused projections are. Some parameters have none.
      const buffers = [...parameters.values()].map(({ shape }) => randn([shape[0] + 1, ...shape.slice(1)], { device }));
      const copies = new Map(
        [...parameters.values()].flatMap((parameter, i) =>
          i % 5 === 4 ? [] : [[parameter, buffers[i].to("bfloat16").narrow(0, 1, parameter.shape[0])]],
        ),
      );
      const gradients = new Map(
        [...parameters].map(([name, { shape }], i) => [
          name,
          randn(shape, { device }).to(i % 3 === 2 ? "float32" : "bfloat16"),
        ]),
      );
      keep([parameters, [...copies.values()], gradients]);
      const names = [...parameters.keys()];
      const groups = [
        { names: names.filter((_, i) => i % 2), weightDecay: 0.1, learningRate: 1e-3 },
        { names: names.filter((_, i) => i % 2 === 0), weightDecay: 0, learningRate: 2e-3 },
      ];
      const optimizer = new AdamW(parameters, groups, settings);
      optimizer.setLearningRateFactor(0.5);
      return {
        parameters,
        copies,
        gradients,
        optimizer,
        free: () => {
          optimizer.dispose();
          free([parameters, [...copies.values()], gradients]);
        },
      };
    }),
  );
}

function updateWithKernel({ gradients, optimizer, copies }) {
  noGrad(() =>
    scope(() => {
      const factor = computeClipFactor(globalNorm([...gradients.values()]), 1);
      optimizer.updateAndCopy(gradients, factor, (parameter) => copies.get(parameter) ?? null);
    }),
  );
}

function updateWithOperators({ gradients, optimizer, copies }) {
  noGrad(() =>
    scope(() => {
      const wide = [...gradients].map(([name, gradient]) => [name, gradient.to("float32").clone()]);
      clipGradNorm_(
        wide.map(([, gradient]) => gradient),
        1,
      );
      optimizer.update(new Map(wide.map(([name, gradient]) => [name, { gradient, mask: null }])));
      copyAll_([...copies.values()], [...copies.keys()]);
    }),
  );
}

/**
 * Three steps with an uncorrected epsilon on a GPU and on the CPU, with and without a mask. On a GPU, the kernel does all
 * updates of this mode, so only the CPU can check its epsilon. The workload above checks clipping and copies.
 */
function checkUncorrectedEpsilon(device) {
  const settings = { ...defaultAdamW, epsilon: 0.1, epsilonMode: "uncorrected" };
  const train = (where, isMasked) => {
    const parameters = new Map([
      ["w", scope(() => keep(tensor(Float32Array.of(1, -2, 3, 0.5, 7), [5], { device: where })))],
    ]);
    const optimizer = new AdamW(parameters, [{ names: ["w"], weightDecay: 0.1, learningRate: 0.1 }], settings);
    optimizer.setLearningRateFactor(1);
    for (let step = 0; step < 3; step++)
      scope(() => {
        const gradient = tensor(Float32Array.of(0.3, -0.01, 0.02, 2, -0.4 * step), [5], { device: where });
        const mask = isMasked ? tensor(Float32Array.of(0.5), [], { device: where }) : null;
        optimizer.update(new Map([["w", { gradient, mask }]]));
      });
    const values = parameters.get("w").toFloat32Array();
    optimizer.dispose();
    free(parameters);
    return values;
  };
  return [false, true].map((isMasked) => {
    const [ours, reference] = [train(device, isMasked), train("cpu", isMasked)];
    const difference = Math.max(...ours.map((value, i) => Math.abs(value - reference[i]) / 7));
    return { name: `adamw, uncorrected epsilon${isMasked ? ", mask" : ""}`, tolerance: 1e-6, difference };
  });
}

/** Returns lines like those of `checkKernels`. */
export function checkAdamW(device, measureDifference) {
  if (!hasFusedAdamW(device)) throw new Error("the kernels adamw do not load");
  const lines = workloads.flatMap((workload) => {
    const [ours, reference] = [createWorkload(workload, device), createWorkload(workload, device)];
    for (let step = 0; step < 3; step++) {
      updateWithKernel(ours);
      updateWithOperators(reference);
    }
    const compare = (list) => {
      const [a, b] = [ours, reference].map(list);
      return scope(() => Math.max(...a.map((tensor, j) => measureDifference(tensor, b[j]))));
    };
    const { name } = workload;
    const lines = [
      { name: `adamw ${name}, weights`, tolerance: 1e-5, list: ({ parameters }) => [...parameters.values()] },
      { name: `adamw ${name}, moments`, tolerance: 1e-5, list: ({ optimizer }) => [...optimizer.moments().values()] },
      // A value between two bfloat16 numbers may round to the other one.
      { name: `adamw ${name}, copies`, tolerance: 8e-3, list: ({ copies }) => [...copies.values()] },
    ].map(({ name, tolerance, list }) => ({ name, tolerance, difference: compare(list) }));
    ours.free();
    reference.free();
    return lines;
  });
  return [...lines, ...checkUncorrectedEpsilon(device)];
}
