import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { AttackResult } from "../../src/attacks/result.js";
import { seal, unseal } from "../attacks/sealed.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";

const columns = ["--text-column", "text", "--label-column", "label"];
const folder = temporaryFolder();
const out = join(folder, "out");
const journal = join(out, "pwws.jsonl");
const cpu = ["--device", "cpu", "--threads", "1", "--quiet"];
let victim: TinyVictim;
let other: TinyVictim;

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "one"));
  other = await tinyVictim(join(folder, "two"), { seed: 1 });
  const flags = ["--data", victim.data, ...columns, "--num-examples", "24", ...cpu];
  expect(await invoke(["attack", victim.run, ...flags, "--attack", "pwws", "--out", out])).toMatchObject({ code: 0 });
});
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());

const verify = (path: string, ...more: string[]) => invoke(["verify", path, "--model", victim.run, ...cpu, ...more]);

describe("temper verify", () => {
  test("verifies a journal and that every edit is in the table of the run", async () => {
    const { code, stdout, stderr } = await verify(journal);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(
      /pwws\.jsonl: \d+ texts that fool the model, recomputed, .*; not verified: 1 header that names the attack and its settings, \d+ texts recorded as robust and not searched again, 24 lines whose queries and search space are recorded, 1 header that names the task and the split; every substitute is in .*table\.json/,
    );
    expect(JSON.parse((await verify(journal, "--json")).stdout)).toMatchObject([
      { journal, lines: 24, header: { attack: "pwws" } },
    ]);
  });

  test("repeats seeded searches, so a success that was recorded as robust is found", async () => {
    const { code, stdout, stderr } = await verify(journal, "--repeat", "100");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const [, robust, successes, identical] =
      /(\d+) texts recorded as robust and searched again, (\d+) successes searched again.* (\d+) searches with the same queries/.exec(
        stdout,
      )!;
    expect(Number(successes)).toBeGreaterThan(0);
    expect(Number(identical)).toBe(Number(robust) + Number(successes));
    expect(stdout).toContain("1 header with the attack and its settings, with which searches ran again");
    expect(stdout).not.toContain("not searched again");
    const forged = unseal(readFileSync(journal, "utf8"));
    const line = forged.findIndex(({ outcome }) => outcome === "success");
    const success = forged[line] as unknown as AttackResult;
    const unchanged = {
      edits: [],
      finalWords: success.words,
      finalTexts: success.texts,
      finalFieldSizes: success.fieldSizes,
    };
    forged[line] = { ...success, ...unchanged, outcome: "failed", after: success.before };
    const copy = join(folder, "forged");
    cpSync(out, copy, { recursive: true });
    writeFileSync(join(copy, "pwws.jsonl"), seal(forged.map((each) => JSON.stringify(each))));
    // The summary shows it, unless it is forged, too.
    expect((await verify(join(copy, "pwws.jsonl"))).stderr).toMatch(
      /report\.json: .*the summary says .*, its journal gives/,
    );
    const report = join(copy, "report.json");
    const recorded = JSON.parse(readFileSync(report, "utf8"));
    writeFileSync(report, JSON.stringify({ ...recorded, attacks: {} }));
    expect(await verify(join(copy, "pwws.jsonl"))).toMatchObject({ code: 0 });
    const repeated = await verify(join(copy, "pwws.jsonl"), "--repeat", "100");
    expect(repeated.code).toBe(2);
    expect(repeated.stderr).toContain(
      `pwws.jsonl:${line + 1}: the journal records "failed" after ${success.queries} queries, but the same search ends with "success"`,
    );
    // Requests of earlier versions had groups of keys.
    const { request, ...rest } = recorded;
    const { numExamples, split, substitutions, maxLength, task, data, textColumn, labelColumn, ...others } = request;
    const groups = {
      data: { task, path: data, textColumn, labelColumn },
      sample: { numExamples, split },
      resources: { substitutions },
      runtime: { maxLength },
    };
    cpSync(journal, join(copy, "pwws.jsonl"));
    writeFileSync(report, JSON.stringify({ ...rest, request: { ...others, ...groups } }));
    expect(await verify(join(copy, "pwws.jsonl"), "--repeat", "2")).toMatchObject({ code: 0 });
    // A report with other settings does not make another search look like the recorded one.
    writeFileSync(
      report,
      JSON.stringify({
        ...rest,
        request: { ...request, maxModificationRate: 0.1 },
      }),
    );
    expect((await verify(join(copy, "pwws.jsonl"), "--repeat", "2")).stderr).toContain("different maxModificationRate");
  });

  test("rejects a journal that was sealed anew without the hash of its texts, so no text can be left out", async () => {
    const [header, ...lines] = unseal(readFileSync(journal, "utf8"));
    const { data: _, ...hashes } = header!.hashes as Record<string, string>;
    const forged = join(folder, "without-data.jsonl");
    const shorter = [{ ...header, hashes, examples: lines.length - 1 }, ...lines.slice(1)];
    writeFileSync(forged, seal(shorter.map((each) => JSON.stringify(each))));
    const { code, stderr } = await verify(forged);
    expect([code, stderr]).toEqual([2, expect.stringContaining("no hash of the attacked examples")]);
  });

  test("verifies the journals of a run without their paths, and asks for the model of other journals", async () => {
    const own = ["attack", victim.run, "--data", victim.data, ...columns, "--num-examples", "6", ...cpu];
    expect(await invoke([...own, "--attack", "pwws"])).toMatchObject({ code: 0 });
    const { code, stdout } = await invoke(["verify", victim.run, ...cpu]);
    expect(code).toBe(0);
    expect(stdout).toContain("pwws.jsonl: ");
    // The attacks that exact compares cannot be repeated. They do not stop those that can.
    const exact = ["exact", victim.run, "--data", victim.data, ...columns, "--max-changes", "1", "--num-examples", "4"];
    expect(await invoke([...exact, ...cpu])).toMatchObject({ code: 0 });
    const repeated = await invoke(["verify", victim.run, "--repeat", "2", ...cpu]);
    expect({ code: repeated.code, stderr: repeated.stderr }).toEqual({ code: 0, stderr: "" });
    expect(repeated.stdout).toContain("searched again");
    const without = await invoke(["verify", journal, ...cpu]);
    expect(without.code).toBe(2);
    expect(without.stderr).toContain("this journal is not in a run. Name the model that was attacked: --model FOLDER");
    expect((await invoke(["verify", other.run, ...cpu])).stdout).toContain("1 test result recomputed; not verified: ");
    rmSync(join(other.run, "results.json"));
    expect((await invoke(["verify", other.run, ...cpu])).stderr).toContain(
      "this run has no result, attack, proof or certificate. Finish it first: temper train",
    );
  });

  test("rejects a journal of another model and of another table", async () => {
    const wrong = await invoke(["verify", journal, "--model", other.run, ...cpu]);
    expect(wrong).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("was written with a different model"),
    });
    const table = join(folder, "table.json");
    writeFileSync(table, JSON.stringify({ good: ["bad"] }));
    expect((await verify(journal, "--substitutions", table)).stderr).toContain(
      "was written with a different substitutions",
    );
  });
});
