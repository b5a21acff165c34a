import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { audit } from "../../src/audit/audit.js";
import type { AuditRequest } from "../../src/audit/audit-request.js";
import { type AuditResult, auditResultSchema } from "../../src/audit/audit-result.js";
import { verify } from "../../src/audit/verify-audit.js";
import { Interrupted } from "../../src/base/errors.js";
import type { TemperEvent } from "../../src/base/events.js";
import { attack, evaluate } from "../../src/index.js";
import type { AuditRow } from "../../src/studio/api.js";
import { studio } from "../../src/studio/studio.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { invoke } from "../cli/invoke.js";
import { chooseExtent } from "../extent.js";
import { testLong } from "../long.js";
import { listMutations } from "../mutations.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const out = join(folder, "audit");
const main = join(import.meta.dirname, "../../dist/cli/main.js");
const cpu = ["--device", "cpu", "--threads", "1", "--quiet"];
const small = { attacks: ["pwws" as const], numExamples: 12, queryBudget: 60, maxChanges: 1 };
const flags = ["--attack", "pwws", "--num-examples", "12", "--query-budget", "60", "--max-changes", "1"];
let victim: TinyVictim;

beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());
beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "model"));
  const columns = ["--text-column", "text", "--label-column", "label", "--minutes", "5"];
  const argv = ["audit", victim.run, "--data", victim.data, ...columns, ...flags, "--out", out, "--json", ...cpu];
  const { code, stdout, stderr } = await invoke(argv);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  writeFileSync(join(folder, "stdout.json"), stdout);
});

const read = (path: string): AuditResult => JSON.parse(readFileSync(path, "utf8")) as AuditResult;
const createRequest = (folderName: string): AuditRequest => ({
  ...{ model: victim.run, data: victim.data, textColumn: ["text"], labelColumn: "label", minutes: 5, ...small },
  ...{ device: "cpu", threads: 1, out: join(folder, folderName) },
});

test("prints verdict, findings, clean and underAttack, and writes page, data and statement", () => {
  const printed = JSON.parse(readFileSync(join(folder, "stdout.json"), "utf8")) as AuditResult;
  expect(Object.keys(printed).sort()).toEqual(["clean", "findings", "underAttack", "verdict"]);
  for (const { id, severity, claim, outcome, evidence } of printed.findings) {
    expect(id).toMatch(/^[a-z0-9-]+$/);
    expect(["high", "medium", "low"]).toContain(severity);
    expect(["proven", "counterexample", "inconclusive"]).toContain(outcome);
    expect(claim).toMatch(/\.$/);
    expect(evidence.summary).not.toBe("");
  }
  expect(printed.verdict.split(". ").length).toBeGreaterThanOrEqual(3);
  const page = readFileSync(join(out, "audit.html"), "utf8");
  expect(page).toContain("Not covered");
  expect(page).not.toMatch(/<(script|link|img)[^>]+(src|href)="http/);
  expect(page).not.toMatch(/complian/i);
  const statement = JSON.parse(readFileSync(join(out, "audit.intoto.json"), "utf8"));
  expect(statement).toMatchObject({
    _type: "https://in-toto.io/Statement/v1",
    predicateType: "https://in-toto.io/attestation/test-result/v0.1",
    subject: [{ digest: { sha256: read(join(out, "audit.json")).subject.modelHash } }],
  });
});

test("its numbers are those of evaluate and attack", async () => {
  const { clean, evaluation, attacks, subject } = read(join(out, "audit.json"));
  const data = { data: victim.data, textColumn: ["text"], labelColumn: "label", device: "cpu", threads: 1 };
  const evaluated = await evaluate({ model: victim.run, ...data });
  const { accuracy, confusionMatrix, interval } = evaluated;
  expect({ clean, matrix: evaluation.confusionMatrix, interval: evaluation.interval }).toEqual({
    ...{ clean: accuracy, matrix: confusionMatrix, interval },
  });
  const report = await attack({
    ...{ model: victim.run, attacks: ["pwws"], queryBudget: 60, numExamples: 12, out: join(folder, "attack"), ...data },
  });
  expect(attacks.pwws!.accuracy).toBe(report.attacks.pwws!.accuracyUnderAttack);
  expect(attacks.pwws!.successRate).toBe(report.attacks.pwws!.successRate);
  expect(subject.dataHash).toMatch(/^[0-9a-f]{64}$/);
});

test("stopped before any step, it continues and gives the same result", async () => {
  const request = createRequest("stopped");
  const progress = JSON.parse(readFileSync(join(out, "progress.json"), "utf8"));
  const total = Object.keys(progress.steps).length;
  // The rate of the host decides sizes, so both have the same one.
  cpSync(join(out, ".temper.json"), join(folder, "stopped", ".temper.json"), { recursive: true });
  writeFileSync(join(folder, "stopped", "progress.json"), JSON.stringify({ ...progress, steps: {}, seconds: 0 }));
  for (let stop = 0; stop < total; stop++) {
    const controller = new AbortController();
    const onStep = (_: string, done: number): void => {
      if (done === stop) controller.abort();
    };
    await expect(audit(request, { onStep, signal: controller.signal })).rejects.toThrow(Interrupted);
  }
  await audit(request);
  expect(read(join(folder, "stopped", "audit.json"))).toEqual(read(join(out, "audit.json")));
  expect(readFileSync(join(folder, "stopped", "audit.html"), "utf8")).toBe(
    readFileSync(join(out, "audit.html"), "utf8"),
  );
});

test("an audit whose attack ran out of time is verified for the texts that it finished, and for no others", async () => {
  const target = join(folder, "partial");
  cpSync(out, target, { recursive: true });
  const path = join(target, "progress.json");
  const { "attack pwws": _, ...steps } = JSON.parse(readFileSync(path, "utf8")).steps;
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), steps }));
  const journal = join(target, "attacks", "pwws.jsonl");
  writeFileSync(journal, `${readFileSync(journal, "utf8").split("\n").slice(0, 6).join("\n")}\n`);
  // The next progress of the attack is the end of its time.
  const onEvent = (event: TemperEvent): void => {
    if (event.type === "progress" && event.stage.startsWith("attack")) throw new Interrupted("The time is over.");
  };
  const { notMeasured, attacks } = await audit(createRequest("partial"), { onEvent });
  const { examples } = attacks.pwws!;
  expect(examples).toBeLessThan(12);
  expect(notMeasured).toEqual([`attack pwws: ${12 - examples} of 12 texts`]);
  const { code, stderr } = await invoke(["verify", target, ...cpu]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
});

test("a guard attack without a text of its labels has no numbers", async () => {
  const labels = ["negative", "positive"] as const;
  const audits = labels.map(async (benignLabel, i) => {
    const attacks = [{ name: "guard", options: { benignLabel } }];
    const positiveLabel = labels[1 - i]!;
    return audit({ ...createRequest(`guard-${i}`), attacks, positiveLabel, numExamples: 1, maxChanges: 0 });
  });
  const results = await Promise.all(audits);
  expect(results.map(({ attacks }) => Object.keys(attacks).length).sort()).toEqual([0, 1]);
  for (const { verdict } of results) expect(verdict).not.toContain("NaN");
});

/** Runs the command until so many steps are kept, and kills it in the next one. */
async function killAfter(kept: number, argv: readonly string[], progress: string): Promise<void> {
  const child = spawn(process.execPath, [main, ...argv], { stdio: ["ignore", "pipe", "ignore"] });
  const exited = once(child, "exit");
  // The plan is printed before the first step.
  await Promise.race([once(child.stdout, "data"), exited]);
  while (child.exitCode === null && Object.keys(JSON.parse(readFileSync(progress, "utf8")).steps).length < kept)
    await new Promise((resolve) => setTimeout(resolve, 2));
  child.kill("SIGKILL");
  await exited;
}

testLong("killed in any step, it continues and gives the same result", async () => {
  const target = join(folder, "killed");
  const path = join(target, "progress.json");
  const progress = JSON.parse(readFileSync(join(out, "progress.json"), "utf8"));
  cpSync(join(out, ".temper.json"), join(target, ".temper.json"), { recursive: true });
  writeFileSync(path, JSON.stringify({ ...progress, steps: {}, seconds: 0 }));
  const columns = ["--text-column", "text", "--label-column", "label", "--minutes", "5"];
  const argv = ["audit", victim.run, "--data", victim.data, ...columns, ...flags, "--device", "cpu", "--threads", "1"];
  for (const kept of Object.keys(progress.steps).keys()) await killAfter(kept, [...argv, "--out", target], path);
  await audit(createRequest("killed"));
  expect(read(join(target, "audit.json"))).toEqual(read(join(out, "audit.json")));
});

testLong("the command of the contract exits with 0 and writes page and data", async () => {
  const target = join(folder, "contract");
  const columns = ["--text-column", "text", "--label-column", "label", "--minutes", "1"];
  const argv = ["audit", victim.run, "--data", victim.data, ...columns, "--out", target, "--json"];
  const child = spawn(process.execPath, [main, ...argv], { stdio: ["ignore", "pipe", "ignore"] });
  const [[code], printed] = await Promise.all([once(child, "exit"), text(child.stdout)]);
  expect(code).toBe(0);
  const { verdict, findings, clean, underAttack, ...others } = JSON.parse(printed) as AuditResult;
  expect([typeof verdict, typeof clean, typeof underAttack]).toEqual(["string", "number", "number"]);
  expect(others).toEqual({});
  for (const finding of findings)
    expect(Object.keys(finding)).toEqual(expect.arrayContaining(["id", "severity", "claim", "outcome", "evidence"]));
  expect(existsSync(join(target, "audit.html"))).toBe(true);
  expect(read(join(target, "audit.json"))).toMatchObject({ verdict, findings, clean, underAttack });
});

test("verify computes every claim again, and refuses a changed claim and a changed journal", async () => {
  const verify = (path: string) => invoke(["verify", path, ...cpu]);
  const { code, stdout, stderr } = await verify(join(out, "audit.json"));
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/audit\.json: \d+ claims recomputed from the model, the data and the journals/);
  const forged = join(folder, "forged");
  cpSync(out, forged, { recursive: true });
  const result = read(join(out, "audit.json"));
  const [first, ...others] = result.claims;
  const claims = [{ ...first!, evidence: { ...first!.evidence, summary: "All is well." } }, ...others];
  writeFileSync(join(forged, "audit.json"), JSON.stringify({ ...result, claims }));
  expect(await verify(forged)).toMatchObject({ code: 2, stderr: expect.stringContaining("claims.0.evidence.summary") });
  writeFileSync(join(forged, "audit.json"), JSON.stringify({ ...result, underAttack: 1, clean: 1 }));
  expect(await verify(forged)).toMatchObject({ code: 2 });
  const files = { ...result.files, "../elsewhere.jsonl": "0" };
  writeFileSync(join(forged, "audit.json"), JSON.stringify({ ...result, files }));
  expect(await verify(forged)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("received ../elsewhere.jsonl"),
  });
  writeFileSync(join(forged, "audit.json"), JSON.stringify(result));
  const journal = join(forged, "attacks", "pwws.jsonl");
  writeFileSync(journal, readFileSync(journal, "utf8").replace('"failed"', '"skipped"').concat(" "));
  expect(await verify(forged)).toMatchObject({ code: 2, stderr: expect.stringContaining("pwws.jsonl") });
});

test("every field of an audit is computed again, or counted as recorded", async () => {
  const forged = join(folder, "mutated");
  cpSync(out, forged, { recursive: true });
  const path = join(forged, "audit.json");
  // The page and the statement would show each change.
  for (const name of ["audit.html", "audit.intoto.json"]) rmSync(join(forged, name));
  const result = read(path);
  // Mutations of what only names the model, the data and the settings, or times.
  const recorded = /^(temper|subject\.(model|data|commit)|request(\..+)?|plan\.minutes|notMeasured)$/;
  const mutations = listMutations(auditResultSchema, result).filter(({ path: field }) => !recorded.test(field));
  const step = chooseExtent(60, 4);
  const unnoticed = new Set<string>();
  const chosen = mutations.filter((_, i) => i % step === 0);
  console.log(`${chosen.length} fields were changed`);
  for (const { path: field, value } of chosen) {
    writeFileSync(path, JSON.stringify(value));
    await verify({ journals: [path], device: "cpu", threads: 1 }).then(
      () => unnoticed.add(field),
      () => null,
    );
  }
  expect([...unnoticed]).toEqual([]);
});

test("verify refuses a page and a statement that say something else than audit.json", async () => {
  for (const name of ["audit.html", "audit.intoto.json"]) {
    const forged = join(folder, `forged-${name}`);
    cpSync(out, forged, { recursive: true });
    const text = readFileSync(join(forged, name), "utf8");
    writeFileSync(
      join(forged, name),
      text.replace(/\d(?=\D*$)/, (digit) => String((Number(digit) + 1) % 10)),
    );
    const found = await invoke(["verify", forged, ...cpu]);
    expect(found).toMatchObject({ code: 2, stderr: expect.stringContaining(`${name}: it says something else`) });
  }
});

testLong(
  "an audit of the standard filter of the demo suggests the command that its robust filter was made to show",
  async () => {
    const standard = join(import.meta.dirname, "../../packages/temper-nlp-demo/filters/standard");
    const { verdict, findings } = await audit({
      ...{ model: standard, task: "spam", attacks: ["pwws"], numExamples: 12, queryBudget: 200, maxChanges: 0 },
      ...{ minContextSimilarity: -1, minutes: 5, out: join(folder, "demo"), threads: 1 },
    });
    expect(findings.find(({ id }) => id === "attack-pwws")!.evidence.command).toContain("temper harden --task spam");
    expect(verdict).toContain("Next: temper harden --task spam");
    expect(findings.map(({ id }) => id)).toContain("truncation");
  },
);

test("the studio lists audits below its folders, with their findings", async () => {
  await using opened = await studio({ folders: [out] });
  const url = new URL(opened.url);
  const authorization = `Bearer ${url.searchParams.get("token")}`;
  const headers = { authorization, connection: "close", "content-type": "application/json" };
  const answer = await fetch(`${url.origin}/api/audits`, { method: "POST", headers, body: "{}" });
  const audits = (await answer.json()) as AuditRow[];
  const { verdict, findings } = read(join(out, "audit.json"));
  expect(audits).toMatchObject([{ folder: out, model: victim.run, verdict }]);
  for (const { id } of findings) expect(audits[0]!.html).toContain(`<h3>${id}</h3>`);
});

test("mistakes are named before anything is measured", async () => {
  const fresh = join(folder, "fresh");
  const run = (...more: string[]) =>
    invoke(["audit", victim.run, "--data", victim.data, "--out", fresh, ...cpu, ...more]);
  for (const [argv, message] of [
    [["--positive-label", "spam"], "--positive-label: expected a label"],
    [["--slices", "source"], "source"],
    [["--train-data", join(folder, "missing.csv")], "missing.csv"],
    [["--minutes", "0"], "minutes"],
  ] as const) {
    const { code, stderr } = await run(...argv);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
    expect(existsSync(fresh)).toBe(false);
  }
  const other = await invoke([
    "audit",
    victim.run,
    "--data",
    victim.data,
    "--out",
    out,
    "--seed",
    "1",
    ...flags,
    ...cpu,
  ]);
  expect(other).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("another model, other data or other settings"),
  });
});

test("verify sends no text to an address of a file, and no header of a file to any address", async () => {
  const received: unknown[] = [];
  const server = createServer((request, response) => {
    received.push(request.headers["x-leak"]);
    response.end("[]");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  try {
    vi.stubEnv("SECRET_OF_THE_USER", "secret");
    const forged = join(folder, "forged-endpoint");
    cpSync(out, forged, { recursive: true });
    const path = join(forged, "audit.json");
    const { subject, request, ...rest } = read(path);
    const endpoint = { retries: 0, headers: { "x-leak": "env:SECRET_OF_THE_USER" } };
    const content = { ...rest, files: {}, subject: { ...subject, model: url }, request: { ...request, endpoint } };
    writeFileSync(path, JSON.stringify(content));
    const alone = await invoke(["verify", path, ...cpu]);
    expect(alone).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("a file does not choose where texts are sent"),
    });
    expect(received).toEqual([]);
    expect(await invoke(["verify", path, "--model", url, ...cpu])).toMatchObject({ code: 2 });
    expect(received.length).toBeGreaterThan(0);
    expect(new Set(received)).toEqual(new Set([undefined]));
  } finally {
    server.close();
  }
});
