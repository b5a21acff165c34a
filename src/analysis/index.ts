import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { didYouMean } from "../base/did-you-mean.js";
import { UserError } from "../base/errors.js";
import { type Callbacks, reportProgress } from "../base/events.js";
import { createFileError, writeFileAtomic } from "../base/files.js";
import { validate } from "../base/validate.js";
import { RunFolder } from "../runs/run-folder.js";
import { Interrupted } from "../train/index.js";
import type { AnalysisContext, AnalysisDefinition } from "./define-analysis.js";
import { type AnalysisName, analyses, definitions } from "./definitions.js";
import { type Panel, renderFigure, renderPng } from "./figure.js";
import { plotPanel as plotTypedPanel } from "./plot-panel.js";

export { type Analysis, type AnalysisContext, type AnalysisDefinition, defineAnalysis } from "./define-analysis.js";
export { type Figure, type LegendEntry, type Panel, renderFigure, renderPng } from "./figure.js";
export { tsne } from "./tsne.js";

export const plotPanel: (title: string, options: object) => Panel = plotTypedPanel;

export { type AnalysisName, analyses };

type Definitions = typeof definitions;

export const analysisRequestSchema = z.discriminatedUnion(
  "analysis",
  Object.values(definitions).map(({ request }) => request) as [Definitions[AnalysisName]["request"]],
);
export type AnalysisRequest = z.input<typeof analysisRequestSchema>;

export interface AnalysisResult<Data = unknown> {
  readonly name: string;
  readonly summary: string;
  readonly data: Data;
  readonly files: { readonly json: string; readonly svg: string; readonly png: string | null };
}

type Named<Request, Analysis> = Omit<Request, "analysis"> & { readonly analysis: Analysis };

/**
 * Analyzes runs and writes NAME.json, NAME.svg and, if requested, NAME.png. The analysis is a name,
 * or a value of `defineAnalysis`.
 *
 *     const runs = ["runs/standard", "runs/ascc"];
 *     const { summary, data } = await analyze({ analysis: "distance", runs });
 *     console.log(summary, data.runs[0]?.final.all);
 */
export async function analyze<Name extends AnalysisName>(
  request: Named<z.input<Definitions[Name]["request"]>, Name>,
  callbacks?: Callbacks,
): Promise<AnalysisResult<z.output<Definitions[Name]["data"]>>>;
export async function analyze<Request extends z.ZodType, Data extends z.ZodType>(
  request: Named<z.input<Request>, AnalysisDefinition<string, Request, Data>>,
  callbacks?: Callbacks,
): Promise<AnalysisResult<z.output<Data>>>;
export async function analyze(
  { analysis, ...options }: { readonly analysis: string | AnalysisDefinition },
  callbacks: Callbacks = {},
): Promise<AnalysisResult> {
  const definition = typeof analysis === "string" ? analyses.get(analysis) : analysis;
  const names = [...analyses.keys()];
  if (!definition)
    throw new UserError(
      `Unknown analysis "${analysis}"${didYouMean(`${analysis}`, names)}. Use one of ${names.join(", ")}.`,
    );
  const { name } = definition;
  const parsed = validate(definition.request, { ...options, analysis: name }, name) as {
    readonly runs: readonly string[];
    readonly out: string | null;
    readonly png: boolean;
  };
  // By default, the folder of the first run in which `temper report` looks.
  const out = parsed.out ?? (await RunFolder.findFinished(parsed.runs[0]!))[0]!.run.path("analysis");
  const { summary, data, figure } = await definition.run(parsed, createContext(definition, out, callbacks));
  await mkdir(out, { recursive: true }).catch((error: unknown) => {
    throw createFileError(error, out, "create the folder");
  });
  const getPath = (extension: string): string => join(out, `${name}.${extension}`);
  const svg = renderFigure(figure);
  const content = { analysis: name, title: figure.title, summary, ...(definition.data.parse(data) as object) };
  // The files are one set: an older figure must not stay next to newer data.
  const png = parsed.png ? renderPng(svg) : null;
  for (const extension of ["svg", "png"]) await rm(getPath(extension), { force: true });
  await writeFileAtomic(getPath("json"), `${JSON.stringify(content, null, 1)}\n`);
  await writeFileAtomic(getPath("svg"), svg);
  if (png) await writeFileAtomic(getPath("png"), png);
  const files = { json: getPath("json"), svg: getPath("svg"), png: parsed.png ? getPath("png") : null };
  return { name, summary, data, files };
}

function createContext(
  { name, keeps }: Pick<AnalysisDefinition, "name" | "keeps">,
  out: string,
  callbacks: Callbacks,
): AnalysisContext {
  return {
    ...callbacks,
    out,
    async advance(done, total) {
      reportProgress(callbacks, name, done, total);
      // Signals and other events only arrive between two turns of the event loop.
      await new Promise(setImmediate);
      if (callbacks.signal?.aborted) throw new Interrupted(`Stopped the analysis ${name}.${keeps ? ` ${keeps}` : ""}`);
    },
  };
}
