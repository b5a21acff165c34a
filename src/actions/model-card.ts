import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { parse, stringify } from "yaml";
import { escapeHtml } from "../base/escape.js";
import { exists, readText, writeFileAtomic } from "../base/files.js";
import { capitalize, formatCount, formatInterval, formatPercent } from "../base/format.js";
import { formatSpec } from "../base/spec.js";
import { describeMetric, isAttackMetric } from "../evaluation/metric-table.js";
import { type Interval, wilsonInterval } from "../evaluation/statistics.js";
import { worstCaseId } from "../evaluation/worst-case.js";
import { resolveModel } from "../models/checkpoint/resolve-model.js";
import { readModelConfig, readTemperMetadata } from "../models/config.js";
import { type AttackFolder, listAttackWarnings } from "../runs/attack-folder.js";
import type { Results } from "../runs/results.js";
import type { RunFolder } from "../runs/run-folder.js";
import { readAttackMetrics, readDegeneracy, readGuardMetrics } from "../runs/run-metrics.js";
import { formatTrainCommand } from "./train/format-train-command.js";

interface CardMetric {
  readonly name: string;
  readonly value: number;
  readonly interval: Interval;
  readonly examples: number;
}

async function listMetrics(run: RunFolder, { test }: Results, attacks: AttackFolder): Promise<CardMetric[]> {
  const { journals } = attacks;
  const found = readAttackMetrics(attacks).filter(([id, { isPaired }]) => isPaired || isAttackMetric(id));
  const hasSeveral = found.filter(([id, { isPaired }]) => isPaired && isAttackMetric(id)).length > 1;
  const getName = (id: string, attackedLabel: string | null = null): string => {
    const labels = journals.get(id)?.summary.recall?.labels.map((label) => test.labels[label] ?? String(label));
    return capitalize(describeMetric(id, labels?.join(", ") ?? attackedLabel).title);
  };
  return [
    { name: getName("accuracy"), value: test.accuracy, interval: test.interval, examples: test.examples },
    ...(await readGuardMetrics(run)).map(({ id, ...metric }) => ({ name: getName(id), ...metric })),
    ...found
      .filter(([id]) => id !== worstCaseId || hasSeveral)
      .map(([id, { value, examples, attackedLabel }]) => ({
        name: getName(id, attackedLabel),
        value,
        interval: wilsonInterval(Math.round(value * examples!), examples!),
        examples: examples!,
      })),
  ];
}

/** The metadata of the Hugging Face Hub: a YAML block at the start of the card. */
async function createMetadata(
  run: RunFolder,
  results: Results,
  metrics: readonly CardMetric[],
  note: string | null,
): Promise<object> {
  const { model, task } = run.config;
  const dataset = task?.startsWith("hf:") ? task.slice(3).split("@")[0]! : null;
  const license = await findLicense(model);
  const isHubModel = !/^(npm:|\.|\/|~)/.test(model) && /^[\w.-]+(\/[\w.-]+)?$/.test(model);
  return {
    ...(license !== null && { license }),
    ...(isHubModel && { base_model: model }),
    ...(dataset !== null && { datasets: [dataset] }),
    library_name: note === null ? "transformers" : "temper-nlp",
    pipeline_tag: "text-classification",
    tags: [
      "text-classification",
      "adversarial-robustness",
      "temper",
      ...new Set(results.methods.map(({ name }) => name)),
    ],
    "model-index": [
      {
        name: basename(resolve(run.folder)),
        results: [
          {
            task: { type: "text-classification", name: "Text Classification" },
            dataset: { name: results.task, type: dataset ?? results.task, split: results.test.split },
            metrics: metrics.map(({ name, value, interval, examples }) => ({
              type: "accuracy",
              name,
              value: Number(value.toFixed(4)),
              args: {
                examples,
                confidence_interval: [interval.low, interval.high].map((bound) => Number(bound.toFixed(4))),
              },
            })),
          },
        ],
      },
    ],
  };
}

function describeTraining(
  run: RunFolder,
  { methods, steps, bestStep, trainExamples, seed, task, test }: Results,
): string {
  const { config } = run;
  const names = methods.map((spec) => `\`${formatSpec(spec)}\``);
  const how = names.length === 0 ? "standard fine-tuning" : `the methods ${names.join(", ")} on top of each other`;
  return (
    `Fine-tuned from \`${config.model}\` on ${formatCount(trainExamples)} examples of ${escapeHtml(task)} with ` +
    `${names.length === 1 ? `the method ${names[0]}` : how}: ${formatCount(steps)} steps, seed ${seed}, ` +
    `${config.tokenization} tokenization, at most ${config.maxLength} tokens. The weights are those of step ` +
    `${formatCount(bestStep)}, the best on the validation split. Labels: ${escapeHtml(test.labels.join(", "))}.`
  );
}

function describeLimits(
  run: RunFolder,
  attacks: AttackFolder,
  degeneracy: string | null,
  note: string | null,
): string[] {
  const sanity = listAttackWarnings(attacks, { trainedTokenization: run.config.tokenization })
    .filter(({ name }) => name !== "degenerate")
    .map(({ message }) => message);
  return [
    ...(degeneracy ? [`The model is degenerate: ${degeneracy}. Its numbers say nothing about robustness.`] : []),
    ...(attacks.journals.size === 0 ? ["It has not been attacked yet, so nothing is known about its robustness."] : []),
    ...(note === null ? [] : [note]),
    "Accuracy under attack holds for these attacks and texts only. A stronger attack may find more.",
    ...(run.config.tokenization === "subword"
      ? []
      : ["Words outside the vocabulary are unknown tokens, and texts are read word by word."]),
    `Longer texts are cut off after ${run.config.maxLength} tokens.`,
    ...sanity,
  ];
}

/** Reads the reason why transformers does not compute the predictions of the model; null if it does. */
async function readIncompatibility(run: RunFolder): Promise<string | null> {
  const folder = run.path("model");
  return readTemperMetadata(await readModelConfig(folder), join(folder, "config.json"))?.note ?? null;
}

/** Training is not delayed by what only attacks need. */
async function listAttackCommands(run: RunFolder, attacks: AttackFolder): Promise<string[]> {
  if (attacks.journals.size === 0 && attacks.report === null) return [];
  const { formatAttackCommands } = await import("./attack/format-attack-commands.js");
  return formatAttackCommands(run, attacks);
}

export async function formatModelCard(run: RunFolder, results: Results): Promise<string> {
  const attacks = await run.attacks();
  const metrics = await listMetrics(run, results, attacks);
  const note = await readIncompatibility(run);
  const metadata = await createMetadata(run, results, metrics, note);
  const rows = metrics.map(
    ({ name, value, interval, examples }) =>
      `| ${escapeHtml(name).replaceAll("|", "\\|")} | ${formatPercent(value)} | ${formatInterval(interval.low, interval.high)} | ${formatCount(examples)} |`,
  );
  const commands = [formatTrainCommand(run), ...(await listAttackCommands(run, attacks))];
  const card = [
    `---\n${stringify(metadata)}---`,
    `# ${escapeHtml(basename(resolve(run.folder)))}`,
    describeTraining(run, results),
    "## Results",
    ["| metric | value | 95% CI | examples |", "|---|---|---|---|", ...rows].join("\n"),
    "## Limits",
    describeLimits(run, attacks, await readDegeneracy(run), note)
      .map((line) => `- ${escapeHtml(line)}`)
      .join("\n"),
    "## Commands",
    `\`\`\`sh\n${commands.join("\n")}\n\`\`\``,
    "Made with [Temper](https://www.npmjs.com/package/temper-nlp).",
    "",
  ].join("\n\n");
  return removeLocalPaths(card, [run.folder, ...listStrings(run.config), ...listStrings(attacks.report?.request)]);
}

/**
 * The results as files of the hub's `.eval_results`, one per metric: accuracy, and accuracy under each attack. Only a
 * dataset on the hub can be named there; others have none.
 */
export async function listEvalResults(
  run: RunFolder,
  results: Results,
): Promise<{ readonly path: string; readonly content: string }[]> {
  const source = (await run.environment())?.data.source ?? null;
  const named = run.config.task?.startsWith("hf:") ? run.config.task.slice(3).split("@")[0]! : null;
  const id = source?.repository ?? named;
  if (id === null) return [];
  const dataset = { id, task_id: "default", ...(source && { revision: source.revision }) };
  return (await listMetrics(run, results, await run.attacks())).map(({ name, value, interval, examples }) => ({
    path: `.eval_results/${name.replaceAll(/[^a-z0-9]+/gi, "-").toLowerCase()}.yaml`,
    content: stringify([
      {
        dataset,
        value: Math.round(1e4 * value) / 100,
        notes: `${name}, in percent (95% CI ${formatInterval(interval.low, interval.high)}, ${formatCount(examples)} texts)`,
        source: { name: "Temper", url: "https://www.npmjs.com/package/temper-nlp" },
      },
    ]),
  }));
}

function listStrings(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(listStrings) : [];
}

/**
 * Replaces paths of this host by their last part: a card is published. The known ones may contain
 * spaces. Paths inside the current folder stay.
 */
function removeLocalPaths(card: string, known: readonly string[]): string {
  const isLocal = (text: string): boolean => isAbsolute(text) || /^(~|\.\.)[/\\]/.test(text);
  const paths = [...new Set(known.filter(isLocal))].sort((a, b) => b.length - a.length);
  const replaced = paths.reduce((text, path) => text.replaceAll(path, basename(path)), card);
  return replaced.replaceAll(/(^|[\s"'`(=])(?:~|\.\.)?\/[^\s"'`)]*\/([^\s"'`)/]+)/gm, "$1$2");
}

export async function writeModelCard(run: RunFolder, results: Results): Promise<void> {
  await writeFileAtomic(join(run.path("model"), "README.md"), await formatModelCard(run, results));
}

/**
 * Finds the license of a local model, for the card of a model made from it: in the metadata of its
 * README.md, or in package.json. Null if it is unknown.
 */
async function findLicense(reference: string): Promise<string | null> {
  const isLocal = reference.startsWith("npm:") || (await exists(reference));
  if (!isLocal) return null;
  const found = await resolveModel(reference).catch(() => null);
  if (found === null) return null;
  const readme = join(found.folder, "README.md");
  if (await exists(readme)) {
    const [, metadata] =
      /^---\n([\s\S]*?)\n---/.exec(await readText(readme, "the model card", { kind: "settings" })) ?? [];
    const license = readLicense(metadata === undefined ? null : parse(metadata));
    if (license !== null) return license;
  }
  if (found.source !== "npm") return null;
  for (const folder of [found.folder, dirname(found.folder)]) {
    const manifest = join(folder, "package.json");
    if (!(await exists(manifest))) continue;
    return (
      readLicense(JSON.parse(await readText(manifest, "the package", { kind: "settings" })))?.toLowerCase() ?? null
    );
  }
  return null;
}

function readLicense(data: unknown): string | null {
  const license = (data as { license?: unknown } | null)?.license;
  return typeof license === "string" ? license : null;
}
