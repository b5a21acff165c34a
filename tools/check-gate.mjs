// `make check-gate`: the gate with real models. Standard fine-tuning must fail against ASCC, the same model must pass
// 20 times out of 20, and too few texts must be reported. Usage: node tools/check-gate.mjs [FOLDER with the runs of the demo]
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const runs = resolve(process.argv[2] ?? "runs/demo");
const [standard, ascc] = ["standard", "ascc"].map((name) => join(runs, name));
const main = resolve(import.meta.dirname, "../dist/cli/main.js");
const folder = mkdtempSync(join(tmpdir(), "temper-gate-"));
// Standard is only weaker than ASCC against the synonyms of all senses, as in the demo.
const attack = ["--attack", "pwws", "--min-context-similarity=-1"];
const [numTexts, repetitions] = [400, 20];
// With JUNIT_XSD (Jenkins' junit-10.xsd), a Python that has lxml validates every junit.xml.
const { JUNIT_XSD: schema, TEMPER_PYTHON: python = "python3" } = process.env;
const validate =
  "import sys; from lxml import etree as e; e.XMLSchema(file=sys.argv[1]).assertValid(e.parse(sys.argv[2]))";
let [failures, validated] = [0, 0];

/** @param {string[]} words */
function gate(...words) {
  const out = join(folder, "gate");
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, "gate", ...words, "--out", out, "--quiet"], {
    encoding: "utf8",
  });
  if (stdout === "") throw new Error(stderr);
  if (schema) {
    const valid = spawnSync(python, ["-c", validate, schema, join(out, "junit.xml")], { encoding: "utf8" });
    if (valid.status !== 0) throw new Error(`junit.xml: ${valid.stderr}`);
    validated++;
  }
  return { status, stdout, seconds: (performance.now() - started) / 1000 };
}

/** @param {boolean} isTrue @param {string} message */
function expect(isTrue, message) {
  console.log(`${isTrue ? "ok" : "FAILED"}  ${message}`);
  if (!isTrue) failures++;
}

for (const run of [standard, ascc])
  if (!existsSync(join(run, "results.json"))) {
    console.error(`${run}: there is no finished run. Run \`make demo\` first.`);
    process.exit(2);
  }
try {
  const lock = join(folder, "gate.lock");
  const worse = gate(standard, "--baseline", ascc, ...attack, "--num-examples", String(numTexts), "--lock", lock);
  console.log(worse.stdout);
  expect(worse.status === 1, `standard compared with ascc, ${numTexts} texts: exit code ${worse.status}`);
  const pinned = gate(ascc, "--baseline", lock);
  expect(
    pinned.status === 0,
    `ascc compared with its lock: exit code ${pinned.status}, ${pinned.seconds.toFixed(0)} s`,
  );
  const codes = Array.from({ length: repetitions }, (_, seed) => {
    const sample = ["--num-examples", "60", "--max-drop", "5", "--seed", String(seed)];
    return gate(ascc, "--baseline", ascc, ...attack, ...sample).status;
  });
  const passed = codes.filter((code) => code === 0).length;
  expect(
    passed === repetitions,
    `the same model: passed ${passed} of ${repetitions} samples of 60 texts, margin 5 points`,
  );
  const few = gate(ascc, "--baseline", ascc, ...attack, "--num-examples", "20");
  expect(few.status === 2 && few.stdout.includes("too few"), `20 texts: exit code ${few.status}`);
  console.log(
    schema ? `${validated} files of JUnit XML are valid by ${schema}` : "JUNIT_XSD is not set: no XML was validated",
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = failures > 0 ? 1 : 0;
