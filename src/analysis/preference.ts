import { z } from "zod";
import { UserError } from "../base/errors.js";
import { RunFolder } from "../runs/run-folder.js";
import { msgsProbes } from "../tasks/msgs.js";
import { defineAnalysis, runsOption } from "./define-analysis.js";
import { createProbeFigure, summarizeProbes } from "./probe.js";
import { labelRuns } from "./run-labels.js";

/** preference.json: which feature finished runs on MSGS tasks prefer. */
const dataSchema = z.object({
  model: z.string(),
  runs: z.array(
    z.object({
      probe: z.enum(msgsProbes),
      method: z.string(),
      seed: z.number(),
      /** Matthews correlation on disambiguating texts, as in probe.json. */
      score: z.number(),
    }),
  ),
});

/** The figure of `probe` for runs that exist, so that a sweep can draw it. */
export const preference = defineAnalysis({
  name: "preference",
  summary: "which feature runs on msgs:… tasks prefer (ROSE fig. 3)",
  unit: "runs",
  options: { runs: runsOption("runs on msgs:… tasks, or folders of them") },
  data: dataSchema,
  async run(request) {
    const found = await RunFolder.findFinished(request.runs);
    const runs = found.map(({ run, results }) => {
      const probe = msgsProbes.find((name) => results.task === `msgs:${name}`);
      const score = results.test.metrics.matthews;
      if (probe === undefined || score === undefined)
        throw new UserError(`${run.folder}: expected a run on a msgs:… task, found ${results.task}. Leave it out.`);
      return { probe, score, seed: run.config.seed };
    });
    // Runs of different probes differ in their tasks, which the panels show.
    const labels = labelMethods(found.map(({ run }) => run));
    const data = {
      model: [...new Set(found.map(({ results }) => results.model))].join(", "),
      runs: runs.map((each, i) => ({ ...each, method: labels[i]! })),
    };
    return { data, summary: summarizeProbes(data), figure: await createProbeFigure(data) };
  },
});

/** Labels without the seed, made for the runs of each task. */
function labelMethods(runs: readonly RunFolder[]): string[] {
  const labels = new Map<RunFolder, string>();
  for (const task of new Set(runs.map((run) => run.task))) {
    const own = runs.filter((run) => run.task === task);
    for (const [i, label] of labelSettings(own).entries()) labels.set(own[i]!, label);
  }
  return runs.map((run) => labels.get(run)!);
}

/** Runs that differ only in their seeds have one label. */
function labelSettings(runs: readonly RunFolder[]): string[] {
  const first = new Map(runs.map((run) => [JSON.stringify({ ...run.config, seed: 0 }), run] as const));
  const unique = [...first.values()];
  const labels = labelRuns(unique, { ignoreSeed: true });
  return runs.map((run) => labels[unique.indexOf(first.get(JSON.stringify({ ...run.config, seed: 0 }))!)]!);
}
