import { albert } from "./albert.js";
import { bert } from "./bert.js";
import { debertaV2 } from "./deberta-v2.js";
import { distilbert } from "./distilbert.js";
import { electra } from "./electra.js";
import type { EncoderFamily } from "./family.js";
import { modernbert } from "./modernbert.js";
import { mpnet } from "./mpnet.js";
import { camembert, roberta, xlmRoberta } from "./roberta.js";

const families: readonly EncoderFamily[] = [
  bert,
  roberta,
  distilbert,
  electra,
  xlmRoberta,
  camembert,
  albert,
  mpnet,
  debertaV2,
  modernbert,
];

const byModelType = new Map(families.map((family) => [family.modelType, family]));

export const modelTypes: readonly string[] = [...byModelType.keys()];

export function getFamily({ modelType }: { readonly modelType: string }): EncoderFamily {
  const family = byModelType.get(modelType);
  if (!family) throw new Error(`there is no encoder family ${modelType}`);
  return family;
}

function findFamilyByPrefix(name: string): EncoderFamily | null {
  // Families with the same prefix have the same names.
  return families.find(({ prefix }) => name.startsWith(prefix)) ?? null;
}

export function isHeadParameter(name: string): boolean {
  return findFamilyByPrefix(name) === null;
}

export function isPoolerParameter(name: string): boolean {
  const family = findFamilyByPrefix(name);
  return family !== null && name.startsWith(`${family.prefix}pooler.`);
}

/** Layer normalizations are called LayerNorm, sa_layer_norm, attn_norm or norm. */
export function isNormParameter(name: string): boolean {
  return /norm\.weight$/i.test(name);
}

/** The number of the layer that a parameter belongs to, or null. Shared layers count once. */
export function getLayerIndex(name: string): number | null {
  const number = findFamilyByPrefix(name)?.layerPattern.exec(name)?.[1];
  return number === undefined ? null : Number(number);
}

/** The part of the encoder of a parameter: `layer 0`, …, `final norm`, `embeddings`, or null. */
export function getEncoderPart(name: string): string | null {
  if (isHeadParameter(name) || isPoolerParameter(name)) return null;
  const layer = getLayerIndex(name);
  if (layer !== null) return `layer ${layer}`;
  const { finalNorm } = findFamilyByPrefix(name)!;
  return finalNorm !== undefined && name.startsWith(`${finalNorm}.`) ? "final norm" : "embeddings";
}
