import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { attack } from "../../src/actions/attack/attack.js";
import { train } from "../../src/actions/train/train.js";
import { analyze } from "../../src/analysis/index.js";
import { run } from "../../src/cli/main.js";
import { readAttackReport } from "../../src/runs/attack-folder.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";
import { invoke, memoryStream } from "./invoke.js";

const folder = temporaryFolder();
const runs = join(folder, "runs");
const journal = join(runs, "first/attacks/greedy.jsonl");

const hasProgram = (name: string): boolean => spawnSync(name, ["--version"]).error === undefined;

beforeAll(async () => {
  const config = await tinyRun(folder, { tags: ["final"] });
  const settings = { ...config.train, epochs: 8, dropout: false, keepOptimizerState: true };
  await train({ ...config, train: settings, out: join(runs, "first") });
  await train({ ...config, train: settings, seed: 1, tags: [], out: join(runs, "second") });
  const words = { good: ["dull", "grey"], fine: ["cold"], bright: ["grey"], dull: ["bright", "warm"], bad: ["fine"] };
  writeFileSync(join(folder, "words.json"), JSON.stringify(words));
  const substitutions = join(folder, "words.json");
  await attack({ model: join(runs, "first"), attacks: ["greedy"], substitutions, device: "cpu", cache: false });
});

test("runs shows model, date, duration, size and tags", async () => {
  const { stdout } = await invoke(["runs", runs]);
  const [head, first] = stdout.split("\n");
  for (const column of ["model", "started (UTC)", "duration", "size", "tags"]) expect(head).toContain(column);
  expect(first).toMatch(
    /first +tiny-bert +reviews .* finished .* 20\d\d-\d\d-\d\d \d\d:\d\d +0:\d\d +[\d.]+ [kM]B +final$/,
  );
  expect(stdout).toMatch(/2 runs, [\d.]+ [kM]B\n$/);
});

test("runs shows the lowest accuracy under attack", async () => {
  const [head, first, second] = (await invoke(["runs", runs])).stdout.split("\n");
  expect(head).toMatch(/accuracy \(\d+ texts\) +under attack \(\d+ texts\)/);
  expect(first).toMatch(/first .* [\d.]+% of \d+ \(greedy\)/);
  expect(second).not.toContain("greedy");
  const listed = JSON.parse((await invoke(["runs", runs, "--json"])).stdout) as { underAttack: unknown }[];
  const { attacks, examples } = (await readAttackReport(join(runs, "first", "attacks")))!;
  const accuracy = attacks.greedy!.accuracyUnderAttack;
  expect(listed.map(({ underAttack }) => underAttack)).toEqual([
    { attack: "greedy", accuracy, examples, attackedLabel: null },
    null,
  ]);
});

test("a recall of few texts never stands beside the accuracy of all without both numbers in the head", async () => {
  const labeled = join(folder, "labeled");
  cpSync(join(runs, "second"), labeled, { recursive: true });
  const substitutions = join(folder, "words.json");
  const request = { model: labeled, substitutions, device: "cpu", cache: false } as const;
  const { examples } = await attack({ ...request, attacks: ["greedy"], attackedLabel: "positive" });
  const [head, first] = (await invoke(["runs", labeled])).stdout.split("\n");
  expect(head).toMatch(
    new RegExp(`accuracy \\(\\d+ texts\\) +recall of positive under attack \\(${examples} texts\\)`),
  );
  expect(first).toContain(`% of ${examples} positive (greedy)`);
  const out = join(folder, "tradeoff");
  const { summary } = await analyze({ analysis: "tradeoff", runs: [labeled], out });
  expect(summary).toContain(`Recall of positive under greedy, ${examples} texts: `);
  expect(readFileSync(join(out, "tradeoff.svg"), "utf8")).toContain(
    `recall of positive under greedy, ${examples} texts (%)`,
  );
});

test("without runs, the message says how to train one", async () => {
  const empty = join(folder, "empty");
  mkdirSync(empty);
  const { code, stdout } = await invoke(["runs", empty]);
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining("Train one:\n  temper train --model") });
});

test("a folder that does not exist is an error", async () => {
  const wrong = await invoke(["runs", join(folder, "nowhere")]);
  expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("there is no such file or folder") });
});

test("show prints adversarial examples as diffs, with colors in a terminal", async () => {
  const { code, stdout } = await invoke(["show", journal]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/fooled: (negative|positive) [\d.]+% → (negative|positive) [\d.]+% \(label /);
  expect(stdout).toMatch(/\[-(good|fine|bright|bad|dull)-\]\{\+\w+\+\}/);
  const terminal = memoryStream({ columns: 100 });
  const stderr = memoryStream();
  expect(
    await run(["show", journal, "--num-examples", "1"], { stdin: (async function* () {})(), stdout: terminal, stderr }),
  ).toBe(0);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the colors of the terminal
  expect(terminal.text).toMatch(/\x1b\[31m(good|fine|bright|bad|dull)\x1b\[39m \x1b\[32m\w+\x1b\[39m/);
  expect(terminal.text).toMatch(/more: pass --num-examples \d+/);
  expect((await invoke(["show", journal, "--outcome", "robust"])).stdout).toMatch(/\(robust\)\.?/);
  expect((await invoke(["show", join(runs, "first/results.json")])).code).toBe(2);
  expect((await invoke(["show", dirname(dirname(journal))])).stdout).toBe(stdout);
  // A folder of runs, as harden writes one, means the journals of all its attacked runs.
  expect((await invoke(["show", runs])).stdout).toBe(stdout);
  expect((await invoke(["verify", runs, "--device", "cpu", "--quiet"])).stdout).toContain(journal);
});

test("show sets off what the model does not read", async () => {
  const short = join(folder, "short");
  const config = await tinyRun(join(folder, "short-data"));
  await train({ ...config, maxLength: 4, out: short });
  await attack({
    model: short,
    attacks: ["greedy"],
    substitutions: join(folder, "words.json"),
    device: "cpu",
    cache: false,
  });
  const { stdout } = await invoke(["show", short, "--outcome", "all", "--num-examples", "3", "--full"]);
  const texts = stdout.split("\n").filter((line) => line.startsWith("  "));
  expect(texts).toHaveLength(3);
  for (const text of texts) expect(text).toMatch(/^ {2}\S+ \S+⟨ .*⟩$/);
});

test("prune removes optimizer state and, on request, checkpoints of finished runs", async () => {
  const checkpoints = join(runs, "first/checkpoints");
  const list = () => readdirSync(checkpoints, { recursive: true, encoding: "utf8" }).join("\n");
  mkdirSync(join(runs, "stopped"));
  expect((await invoke(["prune", runs, "--dry-run"])).stdout).toMatch(/Would remove [\d.]+ [kM]B of 2 runs/);
  expect(list()).toContain("moments.safetensors");
  expect((await invoke(["prune", join(runs, "first")])).stdout).toMatch(/Removed [\d.]+ [kM]B of 1 run\./);
  expect(list()).not.toContain("moments.safetensors");
  expect(list()).toContain("weights.safetensors");
  expect((await invoke(["prune", join(runs, "first")])).stdout).toContain("Nothing to remove");
  const { stdout } = await invoke(["prune", join(runs, "first"), "--checkpoints", "--json"]);
  expect((JSON.parse(stdout) as { bytesRemoved: number }[])[0]!.bytesRemoved).toBeGreaterThan(1000);
  expect(existsSync(checkpoints)).toBe(false);
  expect(existsSync(join(runs, "first/model"))).toBe(true);
  expect((await invoke(["prune", join(folder, "empty")])).code).toBe(2);
});

test("the completion script completes commands, flags, attacks, methods, tasks and runs", async () => {
  const { stdout: script } = await invoke(["completion", "bash"]);
  const place = join(folder, "completed");
  for (const name of ["standard", "robust"]) {
    mkdirSync(join(place, "runs/reviews", name), { recursive: true });
    writeFileSync(join(place, "runs/reviews", name, "config.yaml"), "");
  }
  mkdirSync(join(place, "runs/other"));
  const complete = (...words: string[]): string[] => {
    const call = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}; _temper`;
    const { stdout } = spawnSync("bash", ["-c", `${script}\n${call}; printf '%s\\n' "\${COMPREPLY[@]}"`], {
      encoding: "utf8",
      cwd: place,
    });
    return stdout.split("\n").filter((word) => word !== "");
  };
  expect(complete("temper", "pru")).toEqual(["prune"]);
  expect(complete("temper", "worker")).toEqual([]);
  expect(complete("temper", "train", "--label-")).toEqual(["--label-column", "--label-map"]);
  expect(complete("temper", "analyze", "land")).toEqual(["landscape"]);
  expect(complete("temper", "attacks", "text")).toEqual(["textfooler", "textbugger"]);
  expect(complete("temper", "attack", "runs/reviews/robust", "--attack", "deep")).toEqual(["deepwordbug"]);
  expect(complete("temper", "methods", "ros")).toEqual(["rose"]);
  expect(complete("temper", "train", "--method", "rif")).toEqual(["rift"]);
  expect(complete("temper", "gate", "--task", "im")).toEqual(["imdb"]);
  expect(complete("temper", "show", "x", "--outcome", "f")).toEqual(["fooled"]);
  expect(complete("temper", "attack", "").sort()).toEqual(["runs/reviews/robust", "runs/reviews/standard"]);
  expect(complete("temper", "compare", "a", "runs/reviews/s")).toEqual(["runs/reviews/standard"]);
  expect(complete("temper", "train", "runs/")).toEqual([]);
  const { stdout: fish } = await invoke(["completion", "fish"]);
  expect(fish).toContain("-l label-map -d ");
  expect(fish).toMatch(/from harden' -l attack -x -a 'pwws /);
  expect(fish).toContain("from compare' -a '(__temper_runs)'");
  const { stdout: zsh } = await invoke(["completion", "zsh"]);
  expect(zsh).toContain("bashcompinit");
  const begun = ["temper pru", "temper attack x --attack deep", "temper show runs/reviews/s"];
  const completed = ["temper prune", "temper attack x --attack deepwordbug", "temper show runs/reviews/standard"];
  const runIn = (shell: string, code: string): string =>
    spawnSync(shell, [shell === "zsh" ? "-fc" : "-Nc", code], { encoding: "utf8", cwd: place, timeout: 120_000 })
      .stdout;
  if (hasProgram("fish")) {
    const lines = runIn("fish", `${fish}\n${begun.map((line) => `complete -C '${line}'`).join("\n")}`).split("\n");
    expect(lines.map((line) => line.split("\t")[0])).toEqual(expect.arrayContaining(["prune", "deepwordbug"]));
    expect(lines).toEqual(expect.arrayContaining(["deepwordbug", "runs/reviews/standard"]));
  }
  if (hasProgram("zsh")) {
    writeFileSync(join(place, "temper.zsh"), zsh);
    // Completion needs a terminal: a second zsh in one, which gets each line and the tab key.
    const type = begun.map(
      (line, i) => `zpty -wn z '${line}'$'\\t'; zpty -r z seen '*${completed[i]}*'; zpty -wn z $'\\x15'`,
    );
    const start =
      "zmodload zsh/zpty; zpty z zsh -fi; zpty -w z 'source ./temper.zsh; echo re''ady'; zpty -r z seen '*ready*'";
    expect(runIn("zsh", [start, ...type, "echo all"].join("\n"))).toBe("all\n");
  }
  expect((await invoke(["completion", "tcsh"])).code).toBe(2);
});
