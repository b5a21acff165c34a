// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code.
// Mistakes in the mathematics of training, one each. `find` occurs once in the file. A test of `tests` must fail.

const rift = "tests/methods/rift/equations.test.ts";
const riftTraining = "tests/methods/rift/training.test.ts";
const guards = "tests/methods/guards.test.ts";
const baselines = "tests/methods/rose/baselines.test.ts";
const rose = "tests/methods/rose/rose.test.ts";
const released = "tests/scripts/released-parity.test.ts";
const parity = "tests/train/parity.test.ts";
const losses = "tests/nn/losses.test.ts";
const adamw = "tests/nn/adamw.test.ts";

/**
 * @typedef {object} Mutation
 * @property {string} name
 * @property {string} file in src/
 * @property {string} find
 * @property {string} replace
 * @property {readonly string[]} tests
 */

/** @type {readonly Mutation[]} */
export const mutations = [
  {
    name: "the KL divergence has the wrong sign",
    file: "nn/losses.ts",
    find: ".mul(logP.sub(q.logSoftmax(-1)))",
    replace: ".mul(q.logSoftmax(-1).sub(logP))",
    tests: [losses],
  },
  {
    name: "the KL divergence is summed over examples, not over classes",
    file: "nn/losses.ts",
    find: ".mul(logP.sub(q.logSoftmax(-1)))\n    .sum([-1])",
    replace: ".mul(logP.sub(q.logSoftmax(-1)))\n    .sum([0])",
    tests: [losses],
  },
  {
    name: "the symmetric KL has only one half",
    file: "nn/losses.ts",
    find: "return logP.exp().sub(logQ.exp()).mul(logP.sub(logQ))",
    replace: "return logP.exp().mul(logP.sub(logQ))",
    tests: [losses],
  },
  {
    name: "the cross-entropy is too large by a factor of 1.001",
    file: "nn/losses.ts",
    find: "return crossEntropyLoss(logits, labels, null, meanReduction, ignoreIndex, 0);",
    replace: "return crossEntropyLoss(logits, labels, null, meanReduction, ignoreIndex, 0).mul(1.001);",
    tests: [losses, parity],
  },
  {
    name: "balanced class weights do not have the mean 1",
    file: "train/task-loss.ts",
    find: "total / (counts.length * count)",
    replace: "total / count",
    tests: ["tests/train/task-loss.test.ts"],
  },
  {
    name: "gradients of accumulated batches are summed, not averaged",
    file: "train/standard-fine-tuning.ts",
    find: "foreachMulScalar_(listTensors(sum), firstWeight);",
    replace: "foreachMulScalar_(listTensors(sum), 1);",
    tests: [parity],
  },
  {
    name: "biases have weight decay",
    file: "train/standard-fine-tuning.ts",
    find: 'name.endsWith(".bias") || isNormParameter(name)',
    replace: "isNormParameter(name)",
    tests: [parity],
  },
  {
    name: "AdamW lacks the bias correction",
    file: "nn/adamw.ts",
    find: "states.map(() => this.step),",
    replace: "states.map(() => this.step.add(1e6)),",
    tests: [adamw, parity],
  },
  {
    name: "AdamW's uncorrected epsilon is corrected",
    file: "nn/adamw.ts",
    find: "epsilon / Math.sqrt(1 - beta2 ** this.step.item())",
    replace: "epsilon",
    tests: [adamw],
  },
  {
    name: "the mask of an element is inverted",
    file: "nn/adamw.ts",
    find: "lerp(before, state.parameter, mask)",
    replace: "lerp(state.parameter, before, mask)",
    tests: [adamw],
  },
  {
    name: "gradients are clipped to 1.001 times the maximum norm",
    file: "nn/foreach.ts",
    find: ".reciprocal().mul(maxNorm)",
    replace: ".reciprocal().mul(1.001 * maxNorm)",
    tests: [losses, parity],
  },
  {
    name: "the warmup is one step ahead",
    file: "train/settings.ts",
    find: "step / warmupSteps",
    replace: "(step + 1) / warmupSteps",
    tests: ["tests/train/settings.test.ts"],
  },
  {
    name: "the epsilon of LayerNorm is too large by 1e-5",
    file: "nn/layers.ts",
    find: " ?? null, epsilon);",
    replace: " ?? null, epsilon + 1e-5);",
    tests: ["tests/models/families.test.ts"],
  },
  {
    name: "attention does not divide by the root of the width",
    file: "nn/layers.ts",
    find: "const scale = 1 / Math.sqrt(width);",
    replace: "const scale = 1;",
    tests: ["tests/nn/attention.test.ts"],
  },
  {
    name: "padding is not masked",
    file: "models/model-input.ts",
    find: "export const paddingBias = -30000;",
    replace: "export const paddingBias = 0;",
    tests: ["tests/models/encoder.test.ts"],
  },
  {
    name: "positions do not begin after the padding token of RoBERTa",
    file: "models/families/blocks.ts",
    find: ".narrow(0, config.positionOffset, words.size(-2))",
    replace: ".narrow(0, 0, words.size(-2))",
    tests: ["tests/models/families.test.ts"],
  },
  {
    name: "R-Drop's divergence has twice its weight",
    file: "methods/r-drop.ts",
    find: "alpha / 4",
    replace: "alpha / 2",
    tests: [released],
  },
  {
    name: "the loss of two passes is too large by a factor of 1.001",
    file: "methods/two-pass-loss.ts",
    find: ".mul(0.5)",
    replace: ".mul(0.5005)",
    tests: [released],
  },
  {
    name: "Mixout does not rescale",
    file: "methods/mixout.ts",
    find: "sampleMasks([w.shape], 1 - p, w.device)[0] as Tensor",
    replace: "(sampleMasks([w.shape], 1 - p, w.device)[0] as Tensor).mul(1 - p)",
    tests: [rift],
  },
  {
    name: "the distance of PTWD is squared",
    file: "methods/ptwd.ts",
    find: ".add(epsilon)\n      .sqrt(),",
    replace: ".add(epsilon),",
    tests: [rift],
  },
  {
    name: "ASCC's KL has the clean and the perturbed text in the wrong order",
    file: "methods/ascc/ascc.ts",
    find: 'klDivergence(context.pass("clean").logits, perturbed.logits)',
    replace: 'klDivergence(perturbed.logits, context.pass("clean").logits)',
    tests: [released],
  },
  {
    name: "the entropy in ASCC's search has the wrong sign",
    file: "hull/convex-hull.ts",
    find: "mixtureWeights.mul(logWeights).sum().neg()",
    replace: "mixtureWeights.mul(logWeights).sum()",
    tests: [rift],
  },
  {
    name: "candidates beyond those of a word are not masked",
    file: "hull/convex-hull.ts",
    find: "logits.maskedFill(padding, maskedLogit).logSoftmax(-1)",
    replace: "logits.maskedFill(padding, 0).logSoftmax(-1)",
    tests: [rift],
  },
  {
    name: "RIFT's scores are not divided by the temperature",
    file: "methods/rift/rift.ts",
    find: "anchors.matmul(candidates.t()).div(tau)",
    replace: "anchors.matmul(candidates.t())",
    tests: [riftTraining],
  },
  {
    name: "RIFT's information loss lacks log N",
    file: "methods/rift/info-nce.ts",
    find: "\n    .sub(counts.log())",
    replace: "",
    tests: [rift],
  },
  {
    name: "RIFT's negatives include other classes",
    file: "methods/rift/info-nce.ts",
    find: ".maskedFill(isSameClass.logicalNot(), maskedScore)",
    replace: "",
    tests: [rift],
  },
  {
    name: "RIFT's information loss weights classes by their size",
    file: "methods/rift/info-nce.ts",
    find: "losses.mul(classWeights).sum().div(classWeights.sum())",
    replace: "losses.mean()",
    tests: [rift],
  },
  {
    name: "the target of SMART's divergence has a gradient",
    file: "methods/smart.ts",
    find: "klDivergence(clean.detach(), perturbed)",
    replace: "klDivergence(clean, perturbed)",
    tests: [released],
  },
  {
    name: "SMART's moving average has the decay of late steps in all steps",
    file: "methods/smart.ts",
    find: "isEarly.mul(lateEmaDecay - emaDecay).add(1 - lateEmaDecay)",
    replace: "isEarly.mul(0).add(1 - lateEmaDecay)",
    tests: [baselines],
  },
  {
    name: "FreeLB perturbs padding",
    file: "methods/freelb.ts",
    find: "return uniform.mul(mask).mul(",
    replace: "return uniform.mul(",
    tests: [baselines],
  },
  {
    name: "FreeLB moves downhill",
    file: "methods/freelb.ts",
    find: "perturbation.add(gradient.div(",
    replace: "perturbation.sub(gradient.div(",
    tests: [released],
  },
  {
    name: "ROSE's second-order risk has beta1 instead of 1 - beta1",
    file: "methods/rose/rose.ts",
    find: "1 - step.optimizer.settings.beta1,",
    replace: "step.optimizer.settings.beta1,",
    tests: [rose],
  },
  {
    name: "ROSE's ensemble swaps the weights of its masks",
    file: "methods/rose/rose.ts",
    find: ".mul(gamma)\n    .add(computeSecond().mul(1 - gamma))",
    replace: ".mul(1 - gamma)\n    .add(computeSecond().mul(gamma))",
    tests: [rose],
  },
  {
    name: "the quantile of ROSE's mask is between the wrong ranks",
    file: "methods/quantile.ts",
    find: "fraction * (values.size(0) - 1)",
    replace: "Math.max(0, fraction * values.size(0) - 1)",
    tests: [rose, released],
  },
  {
    name: "Child-Tuning_D selects the elements with the smallest information",
    file: "methods/child-tuning.ts",
    find: "tensor.ge(threshold)",
    replace: "tensor.le(threshold)",
    tests: [released],
  },
  {
    name: "the energy has the wrong sign",
    file: "methods/energy.ts",
    find: "logits.logsumexp([-1]).add(margin)",
    replace: "logits.logsumexp([-1]).neg().add(margin)",
    tests: [guards],
  },
  {
    name: "the penalty of the energy is not squared",
    file: "methods/energy.ts",
    find: "excess.square().mul(",
    replace: "excess.mul(",
    tests: [guards],
  },
  {
    name: "words that alone are benign are inserted, too",
    file: "methods/mof.ts",
    find: "(probability) => probability > rows[i]![benign]!",
    replace: "(probability) => probability >= rows[i]![benign]!",
    tests: [guards],
  },
  {
    name: "texts without a change are trained on twice",
    file: "methods/text-rounds.ts",
    find: "perExample(logits, batch.labels).mul(mask).mean()",
    replace: "perExample(logits, batch.labels).mean()",
    tests: [guards],
  },
  {
    name: "LoRA's update is not divided by the rank",
    file: "methods/lora.ts",
    find: "const scale = options.alpha / options.rank;",
    replace: "const scale = options.alpha;",
    tests: ["tests/methods/frozen.test.ts"],
  },
];
