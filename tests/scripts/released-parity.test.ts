import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../temporary.js";

// The numbers of the authors' code, as `compare.mjs --save tests/fixtures/released` wrote them.
const frozen = resolve("tests/fixtures/released");
const files = {
  rift: "models/AdvPLM.py",
  rose: "robustSSANs/utils/optimization.py",
  smart: "mt_dnn/perturbation.py",
  "r-drop": "huggingface_transformer_src/src/transformers/models/roberta/modeling_roberta.py",
  freelb: "huggingface-transformers/examples/run_glue_freelb.py",
  mixout: "mixout/mixout.py",
  "child-tuning": "ChildTuning/ChildTuningOptimizer.py",
};
type Part = keyof typeof files;

/** Runs the tool with empty clones. Instead of Python, a program returns what the authors' code returned. */
function compare(parts: readonly Part[], folder: string, answers = frozen) {
  const python = join(folder, "python.mjs");
  const program = `#!${process.execPath}
    import { readFileSync } from "node:fs";
    import { gunzipSync } from "node:zlib";
    readFileSync(0);
    process.stdout.write(gunzipSync(readFileSync(${JSON.stringify(answers)} + "/" + process.argv[3] + ".json.gz")));`;
  writeFileSync(python, program, { mode: 0o755 });
  const clones = parts.flatMap((part) => {
    const file = join(folder, part, files[part]);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "");
    return [`--${part}`, join(folder, part)];
  });
  const tool = "tools/parity/released/compare.mjs";
  const run = spawnSync(process.execPath, [tool, ...clones, "--python", python], { encoding: "utf8" });
  const rows = run.stdout.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| part "));
  return { ...run, rows: rows.map((line) => line.split("|").map((cell) => cell.trim())) };
}

describe("tools/parity/released", () => {
  test("Temper computes what the authors' code computed, and the table of docs/explanation/fidelity.md has it", () => {
    const { rows, status, stderr } = compare(Object.keys(files) as Part[], temporaryFolder());
    expect(rows.filter((cells) => cells[5] !== "equal")).toEqual([]);
    expect(status, stderr).toBe(0);
    const [, table = ""] = readFileSync("docs/explanation/fidelity.md", "utf8").split("| part | largest value |");
    const documented = table.split("\n\n")[0]!.split("\n").slice(2);
    expect(rows.map(([, name, , value]) => [name, value])).toEqual(
      documented.map((line) => line.split("|").map((cell) => cell.trim())).map(([, name, value]) => [name, value]),
    );
  });

  test("other numbers of the authors' code are reported", () => {
    const folder = temporaryFolder();
    const released = JSON.parse(gunzipSync(readFileSync(join(frozen, "r-drop.json.gz"))).toString());
    released.fairseq.loss.values[0] *= 1.001;
    writeFileSync(join(folder, "r-drop.json.gz"), gzipSync(JSON.stringify(released)));
    const { rows, status } = compare(["r-drop"], folder, folder);
    expect(rows.filter((cells) => cells[5] !== "equal").map(([, name]) => name)).toEqual(["R-Drop: fairseq's loss"]);
    expect(status).toBe(1);
  });

  test("warns of a clone with another commit", () => {
    const folder = temporaryFolder();
    const clone = join(folder, "mixout");
    expect(compare(["mixout"], folder).stderr).toContain(`--mixout ${clone} is no clone, but`);
    const git = (...words: string[]): string =>
      spawnSync("git", ["-C", clone, "-c", "user.name=t", "-c", "user.email=t@t", ...words], {
        encoding: "utf8",
      }).stdout.trim();
    git("init", "-q");
    git("commit", "-q", "--allow-empty", "-m", "other");
    const commit = git("rev-parse", "HEAD").slice(0, 7);
    expect(compare(["mixout"], folder).stderr).toContain(
      `--mixout ${clone} is commit ${commit}, but docs/explanation/fidelity.md was compared with 18f377d.`,
    );
  });
});
