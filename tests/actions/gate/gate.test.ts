import { cpSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { beforeAll, expect, test, vi } from "vitest";
import { evaluate } from "../../../src/actions/evaluate.js";
import { gate } from "../../../src/actions/gate/gate.js";
import { formatGateLock } from "../../../src/actions/gate/gate-lock.js";
import type { TemperEvent } from "../../../src/base/events.js";
import { serve } from "../../../src/serve/serve-model.js";
import { type TinyVictim, tinyVictim, trainVictim } from "../../attacks/tiny-victim.js";
import { invoke } from "../../cli/invoke.js";
import { chooseExtent } from "../../extent.js";
import { expectClose } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";
import { tinyRun } from "../../tiny-run.js";

const folder = temporaryFolder();
const runtime = { threads: 1 } as const;
const columns = { textColumn: ["text"], labelColumn: "label" };
let victim: TinyVictim;
let worse: string;
let data: readonly string[];

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "good"), { tokenization: "word" }, 200);
  const { substitutions } = victim;
  worse = join(folder, "worse", "run");
  const settings = { epochs: 1, dropout: false, learningRate: 1e-6 };
  await trainVictim({
    ...(await tinyRun(join(folder, "worse"), { substitutions, tokenization: "word", train: settings })),
    out: worse,
  });
  data = ["--data", victim.data, "--text-column", "text", "--label-column", "label", "--threads", "1"];
});

const out = (name: string): string => join(folder, "gates", name);

test("a worse model regresses: exit code 1, a reason, JUnit XML and diffs", async () => {
  const lock = join(folder, "gate.lock");
  const argv = ["gate", worse, "--baseline", victim.run, ...data, "--lock", lock, "--out", out("worse")];
  const { code, stdout, stderr } = await invoke(argv);
  expect([code, stderr]).toEqual([1, expect.any(String)]);
  expect(stdout).toContain("The gate regressed");
  expect(stdout).toMatch(
    /The drop is at least \d+\.\d points with 95% certainty, and a drop of 2\.0 points is allowed/,
  );
  const summary = readFileSync(join(out("worse"), "summary.md"), "utf8");
  expect(summary).toContain("### New failures on clean text");
  const { failures } = JSON.parse(readFileSync(join(out("worse"), "gate.json"), "utf8")) as { failures: object[] };
  expect(failures.length).toBeGreaterThan(0);
  checkJunit(readFileSync(join(out("worse"), "junit.xml"), "utf8"), { failures: true });
  expect(existsSync(lock)).toBe(true);
});

test("the lock pins texts, attack and scores; a worse model shows attacked texts as diffs", async () => {
  const lock = join(folder, "gate.lock");
  const passed = await invoke(["gate", victim.run, "--baseline", lock, "--out", out("lock"), "--threads", "1"]);
  expect([passed.code, passed.stderr]).toEqual([0, expect.any(String)]);
  checkJunit(readFileSync(join(out("lock"), "junit.xml"), "utf8"), { failures: false });
  const other = await invoke(["gate", victim.run, "--baseline", lock, "--attack", "random", "--out", out("lock")]);
  expect([other.code, other.stderr]).toEqual([2, expect.stringContaining("gate.lock pins")]);
  // The baseline resisted one more text than it really did.
  const { seal: _, ...content } = JSON.parse(readFileSync(lock, "utf8"));
  const fooled = content.examples.find(
    ({ baseline }: { baseline: { isCorrect: boolean; attacks: Record<string, { isRobust: boolean }> } }) =>
      baseline.isCorrect && !baseline.attacks.pwws!.isRobust,
  );
  fooled.baseline.attacks.pwws = { isRobust: true, score: 0.9 };
  const forged = join(folder, "forged.lock");
  writeFileSync(forged, formatGateLock(content));
  await gate({ model: victim.run, baseline: forged, out: out("forged"), ...runtime });
  const summary = readFileSync(join(out("forged"), "summary.md"), "utf8");
  expect(summary).toContain("### New failures under attack (1)");
  expect(summary).toMatch(/ {2}> .*~~\w+~~ \*\*\w+\*\*/);
  content.examples[0].texts[0] += " changed";
  writeFileSync(forged, formatGateLock(content));
  await expect(gate({ model: victim.run, baseline: forged, out: out("forged"), ...runtime })).rejects.toThrow(
    "the texts of the candidate differ from those of the baseline",
  );
});

test("an edited lock is an error, also if the edit drops a check", async () => {
  const { seal, ...content } = JSON.parse(readFileSync(join(folder, "gate.lock"), "utf8"));
  const path = join(folder, "edited.lock");
  const [first, ...rest] = content.examples;
  const run = () => gate({ model: victim.run, baseline: path, out: out("edited"), ...runtime });
  writeFileSync(path, JSON.stringify({ ...content, examples: rest, seal }));
  await expect(run()).rejects.toThrow("the lock was edited");
  writeFileSync(path, JSON.stringify(content));
  await expect(run()).rejects.toThrow("the lock was edited");
  const withoutAttacks = { ...first, baseline: { ...first.baseline, attacks: {} } };
  const more = { ...first.baseline.attacks, extra: first.baseline.attacks.pwws };
  for (const [changes, message] of [
    [{ examples: content.examples.map(() => withoutAttacks) }, "two texts have the same id"],
    [{ examples: [withoutAttacks] }, "results of 0 attacks, expected 1"],
    [{ examples: [first, { ...withoutAttacks, id: "other" }] }, "lacks the result of an attack"],
    [{ examples: [first, { ...first, id: "other", baseline: { ...first.baseline, attacks: more } }] }, "lacks the"],
    [{ examples: [{ ...first, label: 99 }] }, "has label 99"],
    [{ examples: [{ ...first, label: -1 }] }, "expected number to be >=0"],
    [{ examples: [{ ...first, texts: ["a", "b"] }] }, "has 2 fields"],
    [{ hashes: {} }, "hashes.data"],
    [{ hashes: { data: content.hashes.data } }, "substitutions of the candidate differ"],
    [{ temper: "0.0.1" }, "Temper 0.0.1 attacked the baseline"],
    [{ format: 2 }, "expected a lock of format 3"],
    [{ format: undefined }, "is not a lock of the gate: its JSON has no format"],
    [{ clean: { ...content.clean, correct: "" } }, "clean.correct"],
  ] as const) {
    writeFileSync(path, formatGateLock({ ...content, ...changes }));
    await expect(run(), message).rejects.toThrow(message);
  }
});

test("a lock pins the precision of the search, float32 by default", async () => {
  const lock = join(folder, "gate.lock");
  expect(JSON.parse(readFileSync(lock, "utf8")).attack.precision).toBe("fp32");
  const other = { model: victim.run, baseline: lock, out: out("precision"), ...runtime } as const;
  await expect(gate({ ...other, ...runtime, precision: "bf16" })).rejects.toThrow("precision: ");
  await gate(other);
  const [header] = readFileSync(join(out("precision"), "candidate", "pwws.jsonl"), "utf8").split("\n", 1);
  expect(header).toContain('"precision":"fp32"');
});

test("a lock runs no code unless the person allows it", async () => {
  const { seal: _, ...content } = JSON.parse(readFileSync(join(folder, "gate.lock"), "utf8"));
  const evil = join(folder, "evil.mjs");
  writeFileSync(evil, `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(`${evil}.ran`)}, "");`);
  const path = join(folder, "code.lock");
  writeFileSync(
    path,
    formatGateLock({ ...content, attack: { ...content.attack, attacks: [{ name: "./evil.mjs", options: {} }] } }),
  );
  const request = { model: victim.run, baseline: path, out: out("code"), ...runtime };
  await expect(gate(request)).rejects.toThrow("./evil.mjs is code. Read it, then pass --allow-code");
  expect(existsSync(`${evil}.ran`)).toBe(false);
  await expect(gate({ ...request, allowCode: true })).rejects.toThrow("defineAttack");
  expect(existsSync(`${evil}.ran`)).toBe(true);
});

test("the same model always passes", async () => {
  for (let seed = 0; seed < chooseExtent(1, 20); seed++) {
    const request = { data: { path: victim.data, ...columns }, numExamples: 150, seed };
    const settings = { model: victim.run, baseline: victim.run, out: out("same"), ...runtime };
    expect((await gate({ ...settings, ...request })).verdict).toBe("passed");
  }
});

test("clean accuracy is compared on the whole split, however few texts are attacked", async () => {
  const lock = join(folder, "few.lock");
  const source = { path: victim.data, ...columns };
  const request = { model: victim.run, out: out("split"), data: source, numExamples: 20, ...runtime };
  const count = readFileSync(victim.data, "utf8").trim().split("\n").length - 1;
  expect(count).toBeGreaterThan(150);
  const { checks } = await gate({ ...request, baseline: victim.run, lock });
  expect(checks.map(({ name, examples, verdict }) => [name, examples, verdict])).toEqual([
    ["clean accuracy", count, "passed"],
    ["accuracy under pwws", 20, "unresolved"],
  ]);
  const locked = { model: victim.run, baseline: lock, out: out("split"), ...runtime } as const;
  const named = await gate({ ...locked, data: source, positiveLabel: "negative" });
  expect(named.checks[0]).toMatchObject({ name: "clean accuracy", examples: count });
  // Of the label that the candidate flags, over the whole split.
  const { operatingPoints } = await evaluate({
    model: victim.run,
    data: source,
    ...runtime,
    positiveLabel: "negative",
  });
  const metrics = new Map(named.operatingPoints.map((metric) => [metric.id, metric]));
  expect(metrics.get("auc")!.examples).toBe(count);
  expect(metrics.get("recall-at-fpr:0.01")!.examples).toBe(operatingPoints!.positives);
  expectClose(metrics.get("auc")!.value, operatingPoints!.auc);
  expect(readFileSync(join(out("split"), "summary.md"), "utf8")).toMatch(/recall at 1\.0% false positives [\d.]+%/);
  await expect(gate({ ...locked, data: source, positiveLabel: "spam" })).rejects.toThrow(/--positive-label: expected/);
  const other = join(folder, "other.tsv");
  writeFileSync(other, readFileSync(victim.data, "utf8").split("\n").slice(0, -2).join("\n"));
  await expect(gate({ ...locked, data: { ...source, path: other } })).rejects.toThrow(
    "other.tsv: the texts differ from those of",
  );
  const warnings: string[] = [];
  const onEvent = (event: TemperEvent) => event.type === "warning" && warnings.push(event.message);
  const copy = join(folder, "copy");
  cpSync(join(victim.run, "model"), copy, { recursive: true });
  const alone = await gate({ ...locked, model: copy }, { onEvent });
  expect(alone.verdict).toBe("unresolved");
  expect(alone.checks.map(({ name, examples }) => [name, examples])).toContainEqual(["clean accuracy", 20]);
  expect(warnings.join(" ")).toContain(`on the 20 attacked texts of ${lock} only, because its test split of ${count}`);
});

test("two gates never share a folder, from the first attack until the verdict", async () => {
  const settings = { model: victim.run, baseline: join(folder, "gate.lock"), out: out("shared"), ...runtime };
  const refused: Promise<unknown>[] = [];
  const onEvent = (): void => {
    if (refused.length < 3) refused.push(gate(settings).catch((error: unknown) => error));
  };
  expect((await gate(settings, { onEvent })).verdict).toBe("passed");
  expect(refused.length).toBeGreaterThan(0);
  for (const error of await Promise.all(refused))
    expect(error).toMatchObject({ message: expect.stringContaining(`process ${process.pid} is writing there`) });
  expect((await gate(settings)).verdict).toBe("passed");
});

test("too few texts exit with 2 and say so", async () => {
  const argv = ["gate", victim.run, "--baseline", victim.run, ...data, "--num-examples", "20", "--out", out("few")];
  const { code, stdout } = await invoke(argv);
  expect(code).toBe(2);
  expect(stdout).toContain("20 texts are too few to resolve this. About 149 would do.");
  checkJunit(readFileSync(join(out("few"), "junit.xml"), "utf8"), { failures: false });
});

test("an endpoint is compared like a model, and a missing lock is explained", async () => {
  await using served = await serve({ model: victim.run, port: 0, device: "cpu", threads: 1 });
  const lock = join(folder, "gate.lock");
  const { verdict } = await gate({ model: served.url, baseline: lock, out: out("endpoint") });
  expect(verdict).toBe("passed");
  const { code, stderr } = await invoke(["gate", victim.run, "--baseline", join(folder, "no.lock")]);
  expect([code, stderr]).toEqual([2, expect.stringContaining("there is no such lock")]);
});

test("--min-robust decides by the bounds of the accuracy", async () => {
  const settings = { model: victim.run, baseline: join(folder, "gate.lock"), out: out("minimum"), ...runtime };
  const { checks } = await gate({ ...settings, minRobust: 99.9 });
  expect(checks.map(({ verdict }) => verdict)).toEqual(["passed", "passed", "regressed"]);
  expect((await gate({ ...settings, minRobust: 0 })).verdict).toBe("passed");
});

/** The rules of Jenkins' junit-10.xsd for the elements that a gate writes. */
const junitRules: Record<string, { children: string[]; required: string[]; optional: string[] }> = {
  testsuites: { children: ["testsuite"], required: [], optional: ["name", "time", "tests", "failures", "errors"] },
  testsuite: {
    children: ["properties", "testcase", "system-out", "system-err"],
    required: ["name", "tests", "failures", "errors"],
    optional: ["time", "skipped", "timestamp", "hostname", "id", "package"],
  },
  properties: { children: ["property"], required: [], optional: [] },
  property: { children: [], required: ["name", "value"], optional: [] },
  testcase: {
    children: ["skipped", "error", "failure", "system-out", "system-err"],
    required: ["name"],
    optional: ["time", "classname", "group"],
  },
  failure: { children: [], required: [], optional: ["type", "message"] },
  error: { children: [], required: [], optional: ["type", "message"] },
};

interface XmlElement {
  readonly localName: string;
  readonly children: Iterable<XmlElement>;
  getAttributeNames(): string[];
}

function checkJunit(xml: string, expected: { failures: boolean }): void {
  expect(xml.startsWith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>')).toBe(true);
  const { document } = parseHTML(xml.replaceAll(/<(\w+)([^<>]*)\/>/g, "<$1$2></$1>"));
  const root = document.querySelector("testsuites")!;
  const visit = (element: XmlElement): void => {
    const rules = junitRules[element.localName];
    expect(rules, element.localName).toBeDefined();
    const names = element.getAttributeNames();
    for (const name of names) expect([...rules!.required, ...rules!.optional]).toContain(name);
    for (const name of rules!.required) expect(names).toContain(name);
    for (const child of element.children) {
      expect(rules!.children).toContain(child.localName);
      visit(child);
    }
  };
  visit(root as unknown as XmlElement);
  const suite = root.querySelector("testsuite")!;
  for (const [attribute, selector] of [
    ["tests", "testcase"],
    ["failures", "failure"],
    ["errors", "error"],
  ] as const)
    expect(suite.getAttribute(attribute)).toBe(String(root.querySelectorAll(selector).length));
  expect(Number(suite.getAttribute("failures")) > 0).toBe(expected.failures);
  expect(suite.getAttribute("timestamp")).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/);
}
