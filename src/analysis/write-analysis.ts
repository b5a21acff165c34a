import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { z } from "zod";
import { createFileError, writeFileAtomic } from "../files.js";
import { type Figure, renderFigure, renderPng } from "./figure.js";

/** The analyses, by the names of their files. */
export type AnalysisName =
  | "distance"
  | "tradeoff"
  | "ablation"
  | "geometry"
  | "landscape"
  | "interpolation"
  | "probe"
  | "consistency";

/** What an analysis found: its data, a sentence that says what it means, and how it is drawn. */
export interface Analysis<Data = unknown> {
  readonly name: AnalysisName;
  readonly meaning: string;
  readonly schema: z.ZodType<Data>;
  readonly data: Data;
  readonly figure: Figure;
}

export interface AnalysisFiles {
  readonly json: string;
  readonly svg: string;
  readonly png: string | null;
}

/** Writes NAME.json (checked against its schema), NAME.svg and, on request, NAME.png into a folder. */
export async function writeAnalysis<Data>(
  folder: string,
  analysis: Analysis<Data>,
  png = false,
): Promise<AnalysisFiles> {
  await mkdir(folder, { recursive: true }).catch((error: unknown) => {
    throw createFileError(error, folder, "make the folder");
  });
  const at = (kind: string): string => join(folder, `${analysis.name}.${kind}`);
  const svg = renderFigure(analysis.figure);
  await writeFileAtomic(at("json"), `${JSON.stringify(toAnalysisJson(analysis), null, 1)}\n`);
  await writeFileAtomic(at("svg"), svg);
  if (png) await writeFileAtomic(at("png"), renderPng(svg));
  return { json: at("json"), svg: at("svg"), png: png ? at("png") : null };
}

/** An analysis as its file holds it. */
export function toAnalysisJson<Data>({ name, meaning, schema, data }: Analysis<Data>): object {
  return { format: 1, analysis: name, meaning, ...(schema.parse(data) as object) };
}
