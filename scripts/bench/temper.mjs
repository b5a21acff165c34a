// Our side of the bench: a MiniLM-size classifier's forward pass and training step, and a tiny operator.
import { hfHead } from "../../dist/models/heads.js";
import { embedInput, encodeLayers, forward } from "../../dist/models/index.js";
import { AdamW, clipGlobalNorm_, crossEntropy, evaluating, training } from "../../dist/nn/index.js";
import { grad, noGrad, ones, Rng, scope, tensor } from "../../dist/tensor/index.js";
import { randomModel } from "../gpu/workload.mjs";

const { shape, weights } = randomModel("minilm", "cpu");
const names = [...weights.keys()];
const plain = (name) => name.endsWith(".bias") || name.includes("LayerNorm");
const optimizer = new AdamW(weights, [
  { names: names.filter((name) => !plain(name)), decay: 0.01, rate: 1 },
  { names: names.filter(plain), decay: 0, rate: 1 },
]);
optimizer.setRate(1e-5);

/** config.json's words for the same model, for the reference. */
export const { model_type: _type, ...config } = shape.config.raw;

const batches = new Map();
function batch(rows, length) {
  const key = `${rows} x ${length}`;
  if (!batches.has(key)) {
    const rng = new Rng(key);
    const integers = (count, from, to) => Int32Array.from({ length: count }, () => from + rng.integer(to - from));
    batches.set(key, { ids: integers(rows * length, 200, 30000), labels: integers(rows, 0, 2) });
  }
  return batches.get(key);
}

/** The classifier's scores; `all` computes the last layer at every position, as transformers does. */
function logitsOf(input, mode, all) {
  if (!all) return forward(shape, weights, input, mode).logits;
  const hidden = encodeLayers(shape.config, weights, embedInput(shape.config, weights, input, mode), null, mode, "all");
  return hfHead(shape.config, weights, hidden.select(1, 0), mode);
}

function timed(work) {
  const began = performance.now();
  scope(work);
  return performance.now() - began;
}

/** Milliseconds of one forward pass of a batch, from arrays to a number. */
export function forwardTime(rows, length, all) {
  const { ids } = batch(rows, length);
  return timed(() =>
    noGrad(() =>
      logitsOf({ ids: tensor(ids, [rows, length]), bias: null }, evaluating, all)
        .sum()
        .item(),
    ),
  );
}

/** Milliseconds of one training step: forward with dropout, backward, clipping, AdamW. */
export function stepTime(rows, length, all) {
  const { ids, labels } = batch(rows, length);
  return timed(() => {
    const loss = crossEntropy(
      logitsOf({ ids: tensor(ids, [rows, length]), bias: null }, training, all),
      tensor(labels),
    );
    const gradients = grad(loss, [...weights.values()]);
    clipGlobalNorm_(gradients, 1);
    optimizer.update(new Map(names.map((name, i) => [name, { gradient: gradients[i], gate: null }])));
    loss.item();
  });
}

/** Microseconds of an addition of two numbers, its result freed by its scope. */
export function tinyTime(count) {
  const [a, b] = [ones([2]), ones([2])];
  const hundred = () => {
    for (let i = 0; i < 100; i++) a.add(b);
  };
  return (
    (timed(() =>
      noGrad(() => {
        for (let i = 0; i < count / 100; i++) scope(hundred);
      }),
    ) *
      1000) /
    count
  );
}
