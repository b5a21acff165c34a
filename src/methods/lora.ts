import { z } from "zod";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { orNull } from "../base/validate.js";
import {
  getLayerIndex,
  getPretrainedParameterNames,
  isNormParameter,
  type Model,
  savePeftAdapter,
} from "../models/index.js";
import type { Weights } from "../nn/index.js";
import { keep, noGrad, type Rng, scope, type Tensor, tensor, zeros } from "../tensor/index.js";
import type { TrainingContext, TrainingMethod } from "../train/index.js";
import { defineMethod, nonnegativeSchema } from "./define-method.js";

const optionsSchema = z.strictObject({
  rank: z.number().int().positive().default(8).describe("rank r of an update"),
  alpha: nonnegativeSchema.default(8).describe("scale: an update is multiplied by alpha / rank"),
  modules: orNull(z.string(), "the query and value projections").describe(
    "dense layers to adapt, such as query+value or output.dense",
  ),
});

/** The query and value projections of all families. ModernBERT has one matrix for all three. */
const defaultModules = /^(query|value|query_proj|value_proj|q_lin|v_lin|q|v|Wqkv)$/;

const weightSuffix = ".weight";

function listDenseLayers({ weights }: Pick<Model, "weights">): string[] {
  return [...weights]
    .filter(([name, { shape }]) => getLayerIndex(name) !== null && shape.length === 2 && name.endsWith(weightSuffix))
    .filter(([name]) => !isNormParameter(name))
    .map(([name]) => name.slice(0, -weightSuffix.length));
}

/** The name of a dense layer within its layer: attention.self.query. */
function getNameInLayer(layer: string): string {
  return layer.replace(/^.*?\.\d+\.(?:albert_layers\.\d+\.)?/, "");
}

/**
 * Finds the dense layers that the option names: by the last parts of their names, as in PEFT.
 * Returns the names of the modules, and the paths of all layers that have them.
 */
function findModules(
  model: Pick<Model, "weights" | "architecture">,
  { modules }: Pick<z.output<typeof optionsSchema>, "modules">,
): { readonly names: readonly string[]; readonly layers: readonly string[] } {
  const all = listDenseLayers(model);
  const known = [...new Set(all.map(getNameInLayer))];
  const matches = (layer: string, name: string): boolean => layer === name || layer.endsWith(`.${name}`);
  const names = modules?.split("+") ?? known.filter((name) => defaultModules.test(name.split(".").at(-1)!));
  // A layer can be named by any number of the last parts of its name.
  const endings = known.flatMap((name) => name.split(".").map((_, i, parts) => parts.slice(i).join(".")));
  for (const name of names) {
    if (all.some((layer) => matches(layer, name))) continue;
    throw new UserError(
      `methods: lora: modules: a ${model.architecture.config.modelType} encoder has no dense layer ` +
        `"${name}"${didYouMean(name, endings)}. It has ${known.join(", ")}. Join several with +.`,
    );
  }
  return { names, layers: all.filter((layer) => names.some((name) => matches(layer, name))) };
}

const nameFactors = (layer: string): { a: string; b: string } => ({
  a: `${layer}.lora_A.weight`,
  b: `${layer}.lora_B.weight`,
});

/** A is uniform in +-1 / sqrt(inputs), the default of a dense layer; B is 0, so nothing changes. */
function initFactors(model: Model, layers: readonly string[], rank: number, rng: Rng): Map<string, Tensor> {
  return scope(() => {
    const factors = new Map<string, Tensor>();
    for (const layer of layers) {
      const { shape, device } = model.weights.get(`${layer}${weightSuffix}`) as Tensor;
      const [outputs, inputs] = shape as [number, number];
      const stream = rng.fork(layer);
      const bound = 1 / Math.sqrt(inputs);
      const values = Float32Array.from({ length: rank * inputs }, () => bound * (2 * stream.next() - 1));
      const { a, b } = nameFactors(layer);
      factors.set(a, tensor(values, [rank, inputs], { device }).requiresGrad_());
      factors.set(b, zeros([outputs, rank], { device }).requiresGrad_());
    }
    return keep(factors);
  });
}

/**
 * Low-rank adaptation: W + (alpha / rank) B A in every pass. After each step, the model's own
 * weights become the merged ones, so that nothing else needs the adapter.
 */
function createLora(options: z.output<typeof optionsSchema>): TrainingMethod {
  const scale = options.alpha / options.rank;
  let names: readonly string[] = [];
  let layers: readonly string[] = [];
  let factors: Weights = new Map();
  let frozen: ReadonlySet<string> = new Set();

  const merge = ({ getPretrainedWeights }: TrainingContext): [string, Tensor][] => {
    const pretrained = getPretrainedWeights();
    return layers.map((layer) => {
      const { a, b } = nameFactors(layer);
      const update = (factors.get(b) as Tensor).matmul(factors.get(a) as Tensor).mul(scale);
      const name = `${layer}${weightSuffix}`;
      return [name, update.add(pretrained.get(name) as Tensor)];
    });
  };

  return {
    name: "lora",
    traits: {
      exclusiveRoles: { training: "trains only low-rank updates and the head" },
    },
    checkCompatibility(innerMethods, { model }) {
      findModules(model, options);
      const other = innerMethods.find((method) => method.weights);
      return other ? `${other.name} changes the weights that lora replaces. List lora before ${other.name}.` : null;
    },
    async prepare(training) {
      const { model } = training.job;
      ({ names, layers } = findModules(model, options));
      factors = initFactors(model, layers, options.rank, training.rng.fork("lora"));
      frozen = new Set(getPretrainedParameterNames(model));
      // The copy is made now: a resumed run restores the merged weights.
      training.getPretrainedWeights();
    },
    state: () => ({ parameters: factors, frozen }),
    weights: ({ context }, next) => new Map([...next(), ...merge(context.training)]),
    afterStep(step, next) {
      const { weights } = step.training.job.model;
      scope(() => {
        for (const [name, merged] of merge(step.training)) (weights.get(name) as Tensor).copy_(merged);
      });
      next();
    },
    saveAdapter: (training, folder) =>
      noGrad(() => savePeftAdapter(folder, training.job.model, { ...options, names, factors, frozen })),
  };
}

export const lora = defineMethod({
  name: "lora",
  summary: "trains low-rank updates of chosen dense layers and the head; also saves an adapter for PEFT",
  paper: "Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models",
  cost: { gpu: "1.0", cpu: "0.7" },
  options: optionsSchema,
  create: createLora,
});
