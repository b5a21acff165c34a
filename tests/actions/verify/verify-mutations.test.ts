import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { attack } from "../../../src/actions/attack/attack.js";
import type { AttackRequest } from "../../../src/actions/attack/attack-request.js";
import { certify } from "../../../src/actions/certify.js";
import { exact } from "../../../src/actions/exact/exact.js";
import { summaryClass } from "../../../src/actions/verify/check-summary.js";
import { type VerifyRequest, verify } from "../../../src/actions/verify/verify.js";
import { journalHeaderSchema } from "../../../src/attacks/journal.js";
import { attackResultSchema } from "../../../src/attacks/result.js";
import { searchFields } from "../../../src/attacks/verify.js";
import { hashVote } from "../../../src/methods/index.js";
import { createCertificate, findCertificate } from "../../../src/proofs/certificates/index.js";
import { certificateFormat, proofLineSchema } from "../../../src/proofs/index.js";
import { createReport } from "../../../src/report/index.js";
import { listRuns } from "../../../src/runs/list-runs.js";
import { seal, unseal } from "../../attacks/sealed.js";
import { tinyVictim } from "../../attacks/tiny-victim.js";
import { chooseExtent } from "../../extent.js";
import { listMutations } from "../../mutations.js";
import { trainCertified } from "../../proofs/certificates/certified-run.js";
import { temporaryFolder } from "../../temporary.js";

type Line = Readonly<Record<string, unknown>>;

const folder = temporaryFolder();
const runtime = { device: "cpu", threads: 1 };
const runs = new Map<string, string>();
let mutated = 0;

beforeAll(async () => {
  for (const [name, methods] of [
    ["votes", [hashVote({ groups: 5 })]],
    ["leads", [hashVote({ groups: 5, clip: 2 })]],
    ["words", [hashVote({ groups: "words", clip: 2 })]],
    ["plain", []],
  ] as const)
    runs.set(name, await trainCertified(folder, name, methods));
  runs.set("canonical", await trainCertified(folder, "canonical", [], "canonical"));
});
afterAll(() => console.log(`${mutated} fields were changed`));

/** Writes lines with checksums that match, as somebody who forges a journal would, and verifies them. */
async function verifyForged(
  journal: string,
  lines: readonly Line[],
  request: Omit<VerifyRequest, "journals">,
): Promise<Awaited<ReturnType<typeof verify>>[number]> {
  const forged = join(dirname(journal), "forged.jsonl");
  writeFileSync(forged, seal(lines.map((line) => JSON.stringify(line))));
  const [found] = await verify({ ...runtime, ...request, journals: [forged] });
  return found!;
}

/** Changes every field of some lines in turn. Returns the fields of the changes that were verified. */
async function findUnnoticed(
  journal: string,
  schema: z.ZodType,
  isMutated: (line: Line, i: number) => boolean,
  request: Omit<VerifyRequest, "journals">,
): Promise<string[]> {
  const lines = unseal(readFileSync(journal, "utf8"));
  const countVerified = ({ classes }: Awaited<ReturnType<typeof verify>>[number]): number =>
    classes.filter(({ isVerified }) => isVerified).reduce((sum, { count }) => sum + count, 0);
  const honest = countVerified(await verifyForged(journal, lines, request));
  const unnoticed = new Set<string>();
  for (const [i, line] of lines.entries())
    for (const { path, value } of isMutated(line, i) ? listMutations(schema, line) : []) {
      mutated++;
      const found = await verifyForged(journal, lines.with(i, value as Line), request).catch(() => null);
      if (found && countVerified(found) >= honest) unnoticed.add(path);
    }
  return [...unnoticed].sort();
}

const kinds = [
  ["votes", "hash-vote"],
  ["leads", "hash-vote"],
  ["words", "hash-vote"],
  ["plain", "windows:size=4"],
  ["canonical", "canonical"],
] as const;

async function certifyKind(
  name: string,
  kind: string,
  numExamples: number,
): Promise<{ model: string; journal: string }> {
  const model = runs.get(name)!;
  const out = join(folder, `${name}-${kind.replaceAll(/\W/g, "-")}-${numExamples}`);
  const journal = join(out, `${kind.split(":")[0]}.jsonl`);
  if (!existsSync(journal)) await certify({ ...runtime, model, kind, numExamples, edits: 2, out });
  return { model, journal };
}

test.each(kinds)("every field of a certificate of %s, --kind %s, is computed again", async (name, kind) => {
  const { model, journal } = await certifyKind(name, kind, 3);
  const [header] = unseal(readFileSync(journal, "utf8"));
  const { certificate } = header as { certificate: { kind: string } };
  const { lineSchema } = createCertificate(findCertificate(certificate.kind, "test"), certificate, "test");
  const isMutated = (_: Line, i: number): boolean => i > 0 && i <= chooseExtent(1, 3);
  expect(await findUnnoticed(journal, lineSchema, isMutated, { model })).toEqual([]);
  // The header says which texts these are and where they come from.
  const unnoticed = await findUnnoticed(journal, certificateFormat.header, (_, i) => i === 0, { model });
  const claims = ["seed", "settings.split", "settings.task"];
  expect(unnoticed.filter((path) => !claims.includes(path))).toEqual([]);
  await expectSummaryVerified(journal.replace(/jsonl$/, "json"), journal, model);
});

test.each([
  ["leads", "hash-vote", "a larger radius", (line: Line) => ({ changeableGroups: Number(line.changeableGroups) + 1 })],
  ["leads", "hash-vote", "other predictions", (line: Line) => ({ predicted: 1 - Number(line.predicted) })],
  ["words", "hash-vote", "larger margins", () => ({ margins: [9, 9, 9, 9] })],
  ["plain", "windows:size=4", "other predictions", (line: Line) => ({ predicted: 1 - Number(line.predicted) })],
])("certificates of %s, --kind %s, with %s on all lines are rejected", async (name, kind, _, change) => {
  const { model, journal } = await certifyKind(name, kind, 20);
  const [header, ...lines] = unseal(readFileSync(journal, "utf8"));
  const forged = lines.map((line) => ({ ...line, ...change(line) }));
  const [field] = Object.keys(change(lines[0]!));
  await expect(verifyForged(journal, [header!, ...forged], { model })).rejects.toThrow(
    new RegExp(`forged\\.jsonl:\\d+: ${field}.*: the journal says .*, the model gives `),
  );
});

/** What only the header says, unless searches run again: which attack it was, on which task. */
const recordedHeader = /^(attack|options|seed|settings)(\.|$)/;

const attackKinds: Readonly<Record<string, Partial<AttackRequest>>> = {
  untargeted: { attacks: ["pwws", "deepwordbug"] },
  targeted: { attacks: [{ name: "pwws", options: { target: "positive" } }] },
  reduction: { attacks: ["input-reduction"] },
};
const attacked = Object.entries(attackKinds).slice(0, chooseExtent(1, 3));

test.each(attacked)(
  "every field of an attack (%s) is computed again, or counted as recorded",
  async (name, request) => {
    const victim = await tinyVictim(join(folder, "victim", name));
    const out = join(folder, "attacks", name);
    const data = { path: victim.data, textColumn: ["text"], labelColumn: "label" };
    await attack({ ...runtime, model: victim.run, data, numExamples: 12, ...request, out });
    const fields = new Set<string>();
    const journals = readdirSync(out).filter((file) => file.endsWith(".jsonl"));
    for (const journal of journals.map((file) => join(out, file))) {
      const seen = new Set<string>();
      const isMutated = (line: Line, i: number): boolean => {
        const shape = `${line.outcome} ${Object.keys(line)}`;
        return i > 0 && !seen.has(shape) && seen.add(shape) !== undefined;
      };
      const unnoticed = await findUnnoticed(journal, attackResultSchema, isMutated, { model: victim.run });
      for (const path of unnoticed) fields.add(path.split(".")[0]!);
      const header = await findUnnoticed(journal, journalHeaderSchema, (_, i) => i === 0, { model: victim.run });
      expect(header.filter((path) => !recordedHeader.test(path))).toEqual([]);
      await expectSummaryVerified(join(out, "report.json"), journal, victim.run);
    }
    expect([...fields].filter((field) => !(searchFields as readonly string[]).includes(field))).toEqual([]);
  },
);

test("every field of a proof is computed again, or counted as recorded", async () => {
  const { run: model, data: path, substitutions } = await tinyVictim(join(folder, "proved"));
  const data = { path, textColumn: ["text"], labelColumn: "label" };
  const out = join(folder, "proofs");
  const { proof } = await exact({ ...runtime, model, data, substitutions, numExamples: 8, maxChanges: 2, out });
  const seen = new Set<string>();
  const isMutated = ({ kind, changes, attack: found }: Line): boolean => {
    const name = JSON.stringify([kind, changes, Array.isArray(found)]);
    return kind !== undefined && !seen.has(name) && seen.add(name) !== undefined;
  };
  expect(await findUnnoticed(proof, proofLineSchema, isMutated, { model })).toEqual([]);
  expect(seen.size).toBeGreaterThan(5);
  const header = await findUnnoticed(proof, journalHeaderSchema, (_, i) => i === 0, { model });
  expect(header.filter((field) => !recordedHeader.test(field))).toEqual([]);
  await expectSummaryVerified(proof.replace(/jsonl$/, "report.json"), proof, model);
});

/** Measured by this call, or said by the request. */
const notFromLines = /^(textsPerSecond|proof|journal|format|task|split|labels|coverage|sanity|request)(\.|$)/;

/** Changes every field of the summary beside a journal in turn, and expects that each is refused. */
async function expectSummaryVerified(path: string, journal: string, model: string): Promise<void> {
  const original = readFileSync(path, "utf8");
  const keys = Object.keys(JSON.parse(original)).length;
  const unnoticed = new Set<string>();
  // In make test, some of the fields.
  const mutations = listMutations(z.unknown(), JSON.parse(original)).filter((_, i) => i % chooseExtent(8, 1) === 0);
  for (const { path: field, value } of mutations) {
    // Earlier versions wrote fewer keys.
    if (notFromLines.test(field) || Object.keys(value as object).length < keys) continue;
    mutated++;
    writeFileSync(path, JSON.stringify(value));
    const isVerified = await verify({ ...runtime, journals: [journal], model }).then(
      ([found]) => found!.classes.some(({ what }) => what === summaryClass.what),
      () => false,
    );
    if (isVerified) unnoticed.add(field);
  }
  writeFileSync(path, original);
  expect([...unnoticed]).toEqual([]);
}

test("the numbers of a report come from the lines, and verify compares the summary with them", async () => {
  const model = runs.get("votes")!;
  const { journal, certified } = await certify({ ...runtime, model, numExamples: 20, edits: 2 });
  const path = journal.replace(/jsonl$/, "json");
  const summary = JSON.parse(readFileSync(path, "utf8"));
  expect(summary.certified).toEqual(certified);
  writeFileSync(path, JSON.stringify({ ...summary, clean: 0.123, certified: [{ ...certified[0], accuracy: 0.987 }] }));
  const { html } = await createReport([model]);
  expect(html).not.toMatch(/98\.7%|12\.3%/);
  expect(html).toContain(`${(100 * certified[0]!.accuracy).toFixed(1)}%`);
  const request = { ...runtime, journals: [model] };
  await expect(verify(request)).rejects.toThrow(/hash-vote\.json: clean: the summary says 0\.123, its journal gives/);
  writeFileSync(path, JSON.stringify(summary));
  // A run with certificates only.
  expect(await verify(request)).toMatchObject([
    {
      classes: [
        { count: 20, what: "hash-vote certificates recomputed from model and text" },
        { count: 1, what: "summary recomputed" },
        { count: 1, what: "header that names the task and the split", isVerified: false },
      ],
    },
    { journal: join(model, "results.json") },
  ]);
});

test("lists and reports show what the journals of attacks say, not report.json", async () => {
  const { run, data: path } = await tinyVictim(join(folder, "listed"));
  const data = { path, textColumn: ["text"], labelColumn: "label" };
  const { attacks } = await attack({ ...runtime, model: run, data, numExamples: 12, attacks: ["pwws"] });
  const { accuracyUnderAttack } = attacks.pwws!;
  const copy = join(folder, "attacks-only");
  cpSync(join(run, "attacks"), copy, { recursive: true });
  for (const path of [join(run, "attacks", "report.json"), join(copy, "report.json")]) {
    const report = JSON.parse(readFileSync(path, "utf8"));
    const forged = { pwws: { ...report.attacks.pwws, accuracyUnderAttack: 0.987 } };
    writeFileSync(path, JSON.stringify({ ...report, clean: 0.987, worstCase: 0.987, attacks: forged, sanity: [] }));
  }
  const [listed] = await listRuns(run);
  expect(listed!.underAttack).toMatchObject({ attack: "pwws", accuracy: accuracyUnderAttack, examples: 12 });
  for (const each of [run, copy]) expect((await createReport([each])).html).not.toContain("98.7%");
  await expect(verify({ ...runtime, journals: [run] })).rejects.toThrow(/report\.json: clean: the summary says 0\.987/);
});
