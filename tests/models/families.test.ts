import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openSafetensors, type SafetensorsFile } from "../../src/models/checkpoint/safetensors.js";
import {
  embedInput,
  encodeLayers,
  forward,
  loadMaskedLm,
  loadModel,
  type MaskedLm,
  type Model,
  modelTypes,
  predictTokens,
  saveModel,
  toModelInput,
} from "../../src/models/index.js";
import { AdamW, crossEntropy, evalMode, type Weights } from "../../src/nn/index.js";
import { free, grad, noGrad, scope, type Tensor, tensor } from "../../src/tensor/index.js";
import { padBatch } from "../../src/text/batch.js";
import type { Encoding } from "../../src/text/encoding.js";
import { expectClose, expectComputed, getLargest } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { familyNames as names, writeFamilyClassifier, writeFamilyMaskedLm } from "./family-models.js";

const fixtures = fileURLToPath(new URL("../fixtures/families", import.meta.url));
const temporary = temporaryFolder();
const cases = ["ragged", "longest"] as const;

interface Fixture {
  readonly model: Model;
  readonly languageModel: MaskedLm;
  readonly expected: SafetensorsFile;
  readonly lengths: Record<(typeof cases)[number], number[]>;
}

function readFloats(file: SafetensorsFile, name: string): Float32Array {
  return new Float32Array(file.readSync(name).slice().buffer);
}

/** The values of the tokens, without padding. */
function selectTokens(values: Float32Array, lengths: readonly number[], width: number): number[] {
  const length = Math.max(...lengths);
  return lengths.flatMap((count, row) => [...values.slice(row * length * width, (row * length + count) * width)]);
}

describe.each(names)("%s compared with transformers", (name) => {
  let fixture: Fixture;
  beforeAll(async () => {
    const classifier = writeFamilyClassifier(join(temporary, name), name);
    const masked = await writeFamilyMaskedLm(join(temporary, `${name}-lm`), name);
    const { lengths } = JSON.parse(readFileSync(join(fixtures, name, "expected.json"), "utf8"));
    fixture = {
      model: await loadModel(classifier),
      languageModel: await loadMaskedLm(masked),
      expected: await openSafetensors(join(fixtures, name, "expected.safetensors")),
      lengths,
    };
  });
  afterAll(async () => {
    await fixture.expected.close();
    free([fixture.model.weights, fixture.languageModel.weights]);
  });

  /** The texts of a case, and the indices of the predicted tokens in the padded batch. */
  function readCase(which: (typeof cases)[number], padding = 0) {
    const { expected, lengths } = fixture;
    const read = (key: string): number[] =>
      Array.from(new BigInt64Array(expected.readSync(`${which}.${key}`).slice().buffer), Number);
    const [ids, types] = [read("ids"), read("types")];
    const width = Math.max(...lengths[which]);
    const encodings = lengths[which].map((length, row): Encoding => {
      const cut = (values: number[]): Int32Array => Int32Array.from(values.slice(row * width, row * width + length));
      return { ids: cut(ids), tokenTypeIds: cut(types), truncated: false };
    });
    const padded = padBatch(encodings, 0, { length: width + padding });
    const predicted = encodings.flatMap((encoding, row) =>
      [...encoding.ids.keys()]
        .filter((position) => position % 3 === 1)
        .map((position) => ({ position: row * (width + padding) + position, id: encoding.ids[position]! })),
    );
    const labels = tensor(Int32Array.from(encodings.keys(), (row) => row % 3));
    return { input: toModelInput(padded, fixture.model.architecture.config, "cpu"), labels, predicted, width };
  }

  /** The hidden states of the tokens, by layer, the logits and the loss. */
  function encodeCase(which: (typeof cases)[number]): Record<string, ArrayLike<number>> {
    const { model, lengths } = fixture;
    const { config } = model.architecture;
    return scope(() =>
      noGrad(() => {
        const { input, labels } = readCase(which);
        const states = [embedInput(config, model.weights, input, evalMode)];
        const last = encodeLayers(config, model.weights, states[0]!, input, evalMode, "all", (hidden) =>
          states.push(hidden),
        );
        states[states.length - 1] = last;
        const { logits } = forward(model.architecture, model.weights, input, evalMode);
        const layers = states.map((hidden, layer): [string, number[]] => [
          `hidden.${layer}`,
          selectTokens(hidden.toFloat32Array(), lengths[which], hidden.size(-1)),
        ]);
        return {
          ...Object.fromEntries(layers),
          logits: logits.toFloat32Array(),
          loss: [crossEntropy(logits, labels).item()],
        };
      }),
    );
  }

  it("has the same hidden states of all layers, logits and loss", () => {
    const { expected, lengths } = fixture;
    for (const which of cases) {
      const computed = encodeCase(which);
      const wanted: Record<string, ArrayLike<number>> = {};
      for (const [key, values] of Object.entries(computed)) {
        const stored = readFloats(expected, `${which}.${key}`);
        if (!key.startsWith("hidden")) wanted[key] = stored;
        else {
          const width = stored.length / (lengths[which].length * Math.max(...lengths[which]));
          // transformers keeps ALBERT's embeddings before their projection in some versions.
          const tokens = selectTokens(stored, lengths[which], width);
          if (tokens.length === values.length) wanted[key] = tokens;
        }
      }
      expect(Object.keys(wanted).length).toBeGreaterThanOrEqual(Object.keys(computed).length - 1);
      const layers = Object.keys(computed).filter((key) => key.startsWith("hidden")).length;
      expect(expected.entries.has(`${which}.hidden.${layers}`)).toBe(false);
      expectComputed(() => encodeCase(which), wanted, {}, which);
    }
  });

  function compareGradients(prefix: string, weights: Weights, computeLoss: () => Tensor, loss: number): void {
    const { expected } = fixture;
    const names = [...weights.keys()];
    const keys = [...expected.entries.keys()]
      .filter((key) => key.startsWith(`${prefix}.gradient.`))
      .map((key) => key.slice(`${prefix}.gradient.`.length));
    expect(new Set(names)).toEqual(new Set(keys));
    const readAll = (kind: "gradient" | "updated"): Map<string, Float32Array> =>
      new Map(names.map((name) => [name, readFloats(expected, `${prefix}.${kind}.${name}`)]));
    const gradients = readAll("gradient");
    expect(Math.max(...[...gradients.values()].map(getLargest))).toBeGreaterThan(1e-2);
    const differentiate = (): Map<string, Tensor> =>
      new Map(grad(computeLoss(), [...weights.values()]).map((gradient, i) => [names[i]!, gradient]));
    /** The weights after a step of AdamW. */
    const update = (): Map<string, number[]> => {
      const copies = new Map([...weights].map(([key, value]) => [key, noGrad(() => value.clone())]));
      const optimizer = new AdamW(copies, [{ names, weightDecay: 0.1, learningRate: 0.01 }]);
      optimizer.setLearningRateFactor(1);
      const updates = [...differentiate()].map(([key, gradient]) => [key, { gradient, mask: null }] as const);
      noGrad(() => optimizer.update(new Map(updates)));
      const updated = new Map([...copies].map(([key, copy]) => [key, pick(key, copy.toFloat32Array())]));
      optimizer.dispose();
      return updated;
    };
    // The first step of Adam is the sign of the gradient, so tiny gradients are not compared.
    const pick = (key: string, values: Float32Array): number[] =>
      [...values].filter((_, i) => Math.abs(gradients.get(key)![i]!) > 1e-4);
    scope(() => {
      expectClose(computeLoss().item(), loss);
      expectComputed(differentiate, gradients, {}, "gradient of");
      const updated = new Map([...readAll("updated")].map(([key, values]) => [key, pick(key, values)]));
      expectComputed(update, updated, {}, "update of");
    });
  }

  it("has the same gradient of every parameter and the same AdamW step, with more padding", () => {
    const { model, expected } = fixture;
    const { input, labels } = readCase("ragged", 3);
    const loss = readFloats(expected, "ragged.loss")[0]!;
    const computeLoss = (): Tensor =>
      crossEntropy(forward(model.architecture, model.weights, input, evalMode).logits, labels);
    compareGradients("classifier", model.weights, computeLoss, loss);
    free([input, labels]);
  });

  it("has the same masked language model", () => {
    const { languageModel, expected } = fixture;
    const { config, weights } = languageModel;
    for (const which of cases)
      scope(() => {
        const { input, predicted, width } = readCase(which);
        const positions = tensor(Int32Array.from(predicted, ({ position }) => position));
        const all = readFloats(expected, `${which}.lm.logits`);
        const { vocabSize } = config;
        expect(all.length % (vocabSize * width)).toBe(0);
        expectComputed(
          () => noGrad(() => predictTokens(config, weights, input, positions, evalMode)),
          predicted.flatMap(({ position }) => [...all.slice(position * vocabSize, (position + 1) * vocabSize)]),
        );
      });
    const { input, predicted } = readCase("ragged");
    const positions = tensor(Int32Array.from(predicted, ({ position }) => position));
    const labels = tensor(Int32Array.from(predicted, ({ id }) => id));
    const computeLoss = (): Tensor => crossEntropy(predictTokens(config, weights, input, positions, evalMode), labels);
    compareGradients("lm", weights, computeLoss, readFloats(expected, "ragged.lm.loss")[0]!);
    free([input, positions, labels]);
  });

  it("saves what it loaded", async () => {
    const { model } = fixture;
    const folder = join(temporary, `${name}-saved`);
    await saveModel(folder, model);
    const source = await openSafetensors(join(fixtures, name, "model.safetensors"));
    const saved = await openSafetensors(join(folder, "model.safetensors"));
    expect(new Set(saved.entries.keys())).toEqual(new Set(source.entries.keys()));
    for (const key of saved.entries.keys()) expect(saved.readSync(key)).toEqual(source.readSync(key));
    const written = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as { architectures: string[] };
    const original = JSON.parse(readFileSync(join(fixtures, name, "config.json"), "utf8")) as typeof written;
    expect(written.architectures).toEqual(original.architectures);
    await source.close();
    await saved.close();
  });
});

it("every family has a fixture smaller than 300 KB with recorded versions", () => {
  const types = names.map(
    (name) =>
      (JSON.parse(readFileSync(join(fixtures, name, "config.json"), "utf8")) as { model_type: string }).model_type,
  );
  expect(new Set(types)).toEqual(new Set(modelTypes));
  for (const name of names) {
    const folder = join(fixtures, name);
    const bytes = readdirSync(folder).reduce((sum, file) => sum + statSync(join(folder, file)).size, 0);
    expect(bytes, name).toBeLessThan(300e3);
    const { versions } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8"));
    expect(versions).toMatchObject({ torch: expect.any(String), transformers: expect.any(String) });
  }
});
