import { copyFileSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import { type SafetensorsTensor, writeSafetensors } from "../../src/models/checkpoint/safetensors-writer.js";

const fixtures = fileURLToPath(new URL("../fixtures", import.meta.url));

/** The fixtures of all families: tiny models with random weights. */
export const familyNames = readdirSync(join(fixtures, "families"));

function prepareFolder(folder: string, name: string): void {
  mkdirSync(folder, { recursive: true });
  copyFileSync(join(fixtures, "bert-tiny/tokenizer.json"), join(folder, "tokenizer.json"));
  copyFileSync(join(fixtures, "families", name, "config.json"), join(folder, "config.json"));
}

/** Writes the classifier of a family with a tokenizer. */
export function writeFamilyClassifier(folder: string, name: string): string {
  prepareFolder(folder, name);
  copyFileSync(join(fixtures, "families", name, "model.safetensors"), join(folder, "model.safetensors"));
  return folder;
}

/** Writes the masked language model of a family with a tokenizer, without the classifier. */
export async function writeFamilyMaskedLm(
  folder: string,
  name: string,
  change: (tensors: SafetensorsTensor[]) => SafetensorsTensor[] = (tensors) => tensors,
): Promise<string> {
  prepareFolder(folder, name);
  const source = join(fixtures, "families", name);
  const [encoder, head] = [
    await openSafetensors(join(source, "model.safetensors")),
    await openSafetensors(join(source, "masked-lm.safetensors")),
  ];
  const tensors = [encoder, head].flatMap((file) =>
    [...file.entries]
      .filter(([key]) => file === head || !(head.entries.has(key) || /^(pre_)?classifier\./.test(key)))
      .map(([key, { shape }]) => ({ name: key, dtype: "F32" as const, shape, bytes: () => file.readSync(key) })),
  );
  await writeSafetensors(join(folder, "model.safetensors"), change(tensors));
  await encoder.close();
  await head.close();
  return folder;
}
