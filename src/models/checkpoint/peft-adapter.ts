import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../../base/files.js";
import type { Weights } from "../../nn/index.js";
import { getFamily, isHeadParameter } from "../families/index.js";
import type { Model } from "../model.js";
import { toSafetensorsTensor, writeSafetensors } from "./safetensors-writer.js";

/** PEFT wraps the model twice. */
const peftPrefix = "base_model.model.";

/** Writes a PEFT adapter of a sequence classifier, or of the encoder if the head is mlp. */
export async function savePeftAdapter(
  folder: string,
  model: Model,
  adapter: {
    readonly rank: number;
    readonly alpha: number;
    readonly names: readonly string[];
    readonly factors: Weights;
    readonly frozen: ReadonlySet<string>;
  },
): Promise<void> {
  const { rank, alpha, names, factors, frozen } = adapter;
  const isClassifier = model.architecture.head === "hf";
  const { prefix } = getFamily(model.architecture.config);
  const isStored = (name: string): boolean => isClassifier || !isHeadParameter(name);
  const trained = [...model.weights].filter(([name]) => !frozen.has(name) && isStored(name));
  const getStoredName = (name: string): string =>
    `${peftPrefix}${!isClassifier && name.startsWith(prefix) ? name.slice(prefix.length) : name}`;
  const config = {
    peft_type: "LORA",
    task_type: isClassifier ? "SEQ_CLS" : "FEATURE_EXTRACTION",
    base_model_name_or_path: model.reference,
    r: rank,
    lora_alpha: alpha,
    lora_dropout: 0,
    target_modules: names,
    modules_to_save:
      trained.length > 0
        ? listTopModules(
            trained.map(([name]) => name),
            prefix,
          )
        : null,
    bias: "none",
    fan_in_fan_out: false,
    init_lora_weights: true,
    inference_mode: true,
  };
  await mkdir(folder, { recursive: true });
  const entries = [...factors, ...trained].map(([name, value]) => toSafetensorsTensor(getStoredName(name), value));
  await writeSafetensors(join(folder, "adapter_model.safetensors"), entries);
  // A folder without it is no adapter, so it comes last.
  await writeFileAtomic(join(folder, "adapter_config.json"), `${JSON.stringify(config, null, 2)}\n`);
}

/** The outermost modules of parameters: `classifier` of classifier.dense.weight. */
function listTopModules(names: readonly string[], prefix: string): string[] {
  const withoutPrefix = names.map((name) => (name.startsWith(prefix) ? name.slice(prefix.length) : name));
  return [...new Set(withoutPrefix.map((name) => name.split(".")[0]!))];
}
