// A custom analysis: the recall of each label in the test of a run, as numbers and as a figure.
//
//     npx tsx examples/custom-analysis.ts runs/reviews
import { barY } from "@observablehq/plot";
import { analyze, Run, z } from "temper-nlp";
import { defineAnalysis, plotPanel } from "temper-nlp/analysis";

const recall = defineAnalysis({
  name: "recall",
  summary: "the recall of each label on the test split",
  unit: "runs",
  options: { runs: z.array(z.string()).min(1) },
  data: z.object({ recall: z.array(z.object({ label: z.string(), value: z.number() })) }),
  async run({ runs }) {
    const { labels, confusionMatrix } = (await (await Run.open(runs[0]!)).results())!.test;
    const share = (row: readonly number[], label: number) => row[label]! / row.reduce((sum, count) => sum + count, 0);
    const data = labels.map((label, i) => ({ label, value: share(confusionMatrix[i]!, i) }));
    const panel = plotPanel("recall", { marks: [barY(data, { x: "label", y: "value" })], y: { domain: [0, 1] } });
    const summary = data.map(({ label, value }) => `${label} ${value.toFixed(3)}`).join(", ");
    return {
      summary,
      data: { recall: data },
      figure: { title: runs[0]!, caption: summary, panels: [panel], columns: 1 },
    };
  },
});
const { summary, files } = await analyze({ analysis: recall, runs: [process.argv[2]!] });
console.log(summary, files.svg);
