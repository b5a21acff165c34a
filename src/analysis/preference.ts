import { z } from "zod";
import { UserError } from "../base/errors.js";
import { groupBy } from "../base/group-by.js";
import { RunFolder } from "../runs/run-folder.js";
import { msgsProbes } from "../tasks/msgs.js";
import { defineAnalysis, runsOption } from "./define-analysis.js";
import { createProbeFigure, summarizeProbes } from "./probe.js";
import { labelGroups } from "./run-labels.js";

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
    const labels = new Map<RunFolder, string>();
    for (const group of groupBy(
      found.map(({ run }) => run),
      ({ task }) => task,
    ).values())
      for (const [i, label] of labelGroups(group).entries()) labels.set(group[i]!, label);
    const data = {
      model: [...new Set(found.map(({ results }) => results.model))].join(", "),
      runs: runs.map((each, i) => ({ ...each, method: labels.get(found[i]!.run)! })),
    };
    return { data, summary: summarizeProbes(data), figure: await createProbeFigure(data) };
  },
});
