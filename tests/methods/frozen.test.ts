import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { train as trainRun } from "../../src/actions/train/train.js";
import { createMethods } from "../../src/methods/index.js";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import { isHeadParameter } from "../../src/models/index.js";
import { free, fromBytes, scope } from "../../src/tensor/index.js";
import type { TrainingMethod } from "../../src/train/index.js";
import { findPython, runPython } from "../python.js";
import { expectClose, matchClose, unitRoundoff } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";
import { trainingFiles } from "../train/training-files.js";
import { readValues, texts, tinyDataset, tinyModel } from "./tiny.js";
import { expectResumed, type TinyMethod, trainTiny } from "./train-tiny.js";

const root = temporaryFolder();
// RIFT caches its teacher features here.
vi.stubEnv("TEMPER_CACHE", join(root, "cache"));
type Values = Record<string, number[]>;

const pretrained = (): Values => {
  const { weights } = tinyModel();
  const values = readValues(weights);
  free(weights);
  return values;
};
const listMoved = (after: Values): string[] =>
  Object.entries(pretrained()).flatMap(([name, before]) => (String(before) === String(after[name]) ? [] : [name]));

async function readAdapter(folder: string): Promise<Map<string, { shape: readonly number[]; values: number[] }>> {
  const file = await openSafetensors(join(folder, "adapter_model.safetensors"));
  try {
    return scope(
      () =>
        new Map(
          [...file.entries.values()].map(({ name, shape }) => [
            name,
            { shape, values: [...fromBytes(file.readSync(name), shape, "float32").toFloat32Array()] },
          ]),
        ),
    );
  } finally {
    await file.close();
  }
}

describe("lora", () => {
  test("saves factors whose product is the change of the adapted weights", async () => {
    const [rank, alpha] = [2, 3];
    const validation = tinyDataset(texts);
    const files = trainingFiles(join(root, "adapter"));
    const { weights } = await trainTiny([["lora", { rank, alpha }]], {}, { files, validation });
    const isAdapted = (name: string): boolean => /\.(query|value)\.weight$/.test(name);
    expect(listMoved(weights)).toEqual(Object.keys(weights).filter((name) => isAdapted(name) || isHeadParameter(name)));
    const saved = await readAdapter(files.adapter);
    expect(saved.get("base_model.model.classifier.bias")?.values).toEqual(weights["classifier.bias"]);
    expect(saved.size).toBe(2 * 4 + 2);
    for (const [name, before] of Object.entries(pretrained()).filter(([each]) => isAdapted(each))) {
      const path = `base_model.model.${name.replace(/\.weight$/, "")}`;
      const [a, b] = [saved.get(`${path}.lora_A.weight`)!, saved.get(`${path}.lora_B.weight`)!];
      expect([a.shape, b.shape]).toEqual([
        [rank, 8],
        [8, rank],
      ]);
      for (const [i, value] of before.entries()) {
        const [row, column] = [Math.floor(i / 8), i % 8];
        const product = b.values[row * rank]! * a.values[column]! + b.values[row * rank + 1]! * a.values[8 + column]!;
        expectClose(weights[name]![i], value + (alpha / rank) * product, { scale: Math.abs(value) + 1e-3 });
      }
    }
    expect(JSON.parse(readFileSync(join(files.adapter, "adapter_config.json"), "utf8"))).toMatchObject({
      ...{ peft_type: "LORA", task_type: "SEQ_CLS", r: rank, lora_alpha: alpha, bias: "none" },
      ...{ target_modules: ["attention.self.query", "attention.self.value"], modules_to_save: ["classifier"] },
    });
  });

  test("with alpha 0 is training of the head alone", async () => {
    const frozen = new Set(Object.keys(pretrained()).filter((name) => !isHeadParameter(name)));
    const head: TrainingMethod = { name: "head", state: () => ({ frozen }) };
    const [one, other] = [await trainTiny([["lora", { alpha: 0 }]]), await trainTiny([head])];
    // The gradients of the factors are zeros, but their norm is a sum of more numbers.
    const terms = Object.keys(one.weights).length;
    const events = other.events.map((event) => ({
      ...event,
      gradientNorm: matchClose(event.gradientNorm as number, { terms }),
    }));
    expect(one).toEqual({ ...other, events });
    expect(listMoved(one.weights)).toEqual(["classifier.weight", "classifier.bias"]);
  });

  test("of full rank takes the first step of a dense weight along B", async () => {
    // B starts at 0, so A has no gradient: the first step of Adam moves B by the learning rate.
    const files = trainingFiles(join(root, "first"));
    const { weights } = await trainTiny(
      [["lora", { rank: 1, alpha: 1, modules: "query" }]],
      { learningRate: 1e-3, weightDecay: 0 },
      { files, stopAfter: 1 },
    );
    const saved = await readAdapter(files.adapter);
    const b = saved.get("base_model.model.bert.encoder.layer.0.attention.self.query.lora_B.weight")!;
    // The epsilon of Adam makes a step along a small gradient a little shorter.
    const steps = b.values.map((value) => Math.abs(value) / 1e-3);
    expect(Math.min(...steps)).toBeGreaterThan(0.995);
    expect(Math.max(...steps)).toBeLessThan(1 + 16 * unitRoundoff.float32);
    expect(listMoved(weights)).toContain("bert.encoder.layer.0.attention.self.query.weight");
  });

  test.each(["ascc rift", "rose", "freelb", "smart", "mixout"])(
    "works under %s, and a stopped run continues bitwise",
    async (list) => {
      const options: Record<string, object> = {
        ascc: { innerSteps: 2 },
        rift: { projectionHiddenSize: 8, projectionSize: 4 },
      };
      const others = list.split(" ").map((name): TinyMethod => [name, { ...options[name] }]);
      const { whole, folders } = await expectResumed(join(root, list), [["lora", { rank: 2 }], ...others], 3);
      expect(listMoved(whole.weights)).toContain("bert.encoder.layer.1.attention.self.query.weight");
      expect(listMoved(whole.weights)).not.toContain("bert.encoder.layer.1.attention.self.key.weight");
      const [first, second] = folders.map((folder) => readAdapter(trainingFiles(folder).adapter));
      expect(await second).toEqual(await first);
    },
  );

  test("rose masks the factors", async () => {
    const masked = new Set<string>();
    const observer: TrainingMethod = {
      name: "observer",
      transformUpdates(_step, next) {
        const updates = next();
        for (const [name, { mask }] of updates) if (mask) masked.add(name);
        return updates;
      },
    };
    await trainTiny([["lora", { rank: 2 }], ["rose", { variant: "second" }], observer]);
    expect(masked.size).toBe(8);
    expect([...masked].every((name) => /lora_[AB]\.weight$/.test(name))).toBe(true);
  });

  test("lists the dense layers if a module is unknown", async () => {
    await expect(trainTiny([["lora", { modules: "query+key_proj" }]])).rejects.toThrow(
      'lora: modules: a bert encoder has no dense layer "key_proj". It has attention.self.query, ' +
        "attention.self.key, attention.self.value, attention.output.dense, intermediate.dense, output.dense.",
    );
    await expect(trainTiny([["lora", { modules: "queri" }]])).rejects.toThrow(
      'has no dense layer "queri" (did you mean "query"?). It has attention.self.query, ',
    );
    expect(() => createMethods([{ name: "lora", options: { rank: 0 } }])).toThrow(/rank/);
  });

  const python = findPython("peft", "transformers", "torch");
  test.skipIf(!python)("is loaded by PEFT with the weights of the merged model", async () => {
    const folder = join(root, "peft");
    const config = await tinyRun(folder, { methods: [{ name: "lora", options: { rank: 2 } }] });
    await trainRun({ ...config, out: join(folder, "run") });
    const program = `
import json, sys
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification
base = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], num_labels=2)
merged = PeftModel.from_pretrained(base, sys.argv[2]).eval().merge_and_unload().state_dict()
saved = load_file(sys.argv[3])
print(json.dumps({name: float((merged[name] - value).abs().max()) for name, value in saved.items()}))
`;
    const paths = [config.model, join(folder, "run", "adapter"), join(folder, "run", "model", "model.safetensors")];
    const differences = runPython(python!, program, ...paths) as Record<string, number>;
    expect(Object.keys(differences)).toContain("classifier.weight");
    // One product and one sum in float32.
    for (const [name, difference] of Object.entries(differences)) expectClose(difference, 0, { scale: 1 }, name);
  });
});
