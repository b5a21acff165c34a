// Temper's side of the benchmark: the forward pass and the training step of a MiniLM-size classifier, and a tiny operator.
import { embedInput, encodeLayers, forward, getFamily } from "../../dist/models/index.js";
import { AdamW, clipGradNorm_, crossEntropy, evalMode, trainMode } from "../../dist/nn/index.js";
import { grad, noGrad, ones, Rng, scope, tensor } from "../../dist/tensor/index.js";
import { createRandomModel } from "../gpu/workload.mjs";

const { architecture, weights } = createRandomModel("minilm", "cpu");
const names = [...weights.keys()];
const hasNoDecay = (name) => name.endsWith(".bias") || name.includes("LayerNorm");
const optimizer = new AdamW(weights, [
  { names: names.filter((name) => !hasNoDecay(name)), weightDecay: 0.01, learningRate: 1 },
  { names: names.filter(hasNoDecay), weightDecay: 0, learningRate: 1 },
]);
optimizer.setLearningRateFactor(1e-5);

/** The config of the same model for transformers. */
export const { model_type: _type, ...config } = architecture.config.raw;

const batches = new Map();
function getBatch(batchSize, length) {
  const key = `${batchSize} x ${length}`;
  if (!batches.has(key)) {
    const rng = new Rng(key);
    const integers = (count, from, to) => Int32Array.from({ length: count }, () => from + rng.integer(to - from));
    batches.set(key, { ids: integers(batchSize * length, 200, 30000), labels: integers(batchSize, 0, 2) });
  }
  return batches.get(key);
}

/** Computes the logits. `allPositions` computes the last layer at every position, as transformers does. */
function computeLogits(ids, shape, mode, allPositions) {
  const input = { inputIds: tensor(ids, shape), tokenTypeIds: null, attentionBias: null };
  if (!allPositions) return forward(architecture, weights, input, mode).logits;
  const { config: encoder } = architecture;
  const embeddings = embedInput(encoder, weights, input, mode);
  const hidden = encodeLayers(encoder, weights, embeddings, { attentionBias: null }, mode, "all");
  const { classification, pooler } = getFamily(encoder);
  return classification.apply(encoder, weights, pooler.apply(weights, hidden.select(1, 0)), mode);
}

function measureMilliseconds(work) {
  const start = performance.now();
  scope(work);
  return performance.now() - start;
}

/** Milliseconds of the forward pass of one batch, from arrays to a number. */
export function timeForward(batchSize, length, allPositions) {
  const { ids } = getBatch(batchSize, length);
  return measureMilliseconds(() =>
    noGrad(() => computeLogits(ids, [batchSize, length], evalMode, allPositions).sum().item()),
  );
}

/** Milliseconds of one training step: forward with dropout, backward, clipping, AdamW. */
export function timeStep(batchSize, length, allPositions) {
  const { ids, labels } = getBatch(batchSize, length);
  return measureMilliseconds(() => {
    const loss = crossEntropy(computeLogits(ids, [batchSize, length], trainMode, allPositions), tensor(labels));
    const gradients = grad(loss, [...weights.values()]);
    clipGradNorm_(gradients, 1);
    optimizer.update(new Map(names.map((name, i) => [name, { gradient: gradients[i], mask: null }])));
    loss.item();
  });
}

/** Microseconds of adding two small tensors; a scope frees the result. */
export function timeTinyOperator(count) {
  const [a, b] = [ones([2]), ones([2])];
  const addHundredTimes = () => {
    for (let i = 0; i < 100; i++) a.add(b);
  };
  const milliseconds = measureMilliseconds(() =>
    noGrad(() => {
      for (let i = 0; i < count / 100; i++) scope(addHundredTimes);
    }),
  );
  return (milliseconds * 1000) / count;
}
