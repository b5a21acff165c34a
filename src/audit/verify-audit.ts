import { stat } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { isEndpoint } from "../actions/load/load-victim.js";
import { type VerifyRequest, verify as verifyJournals, verifyRequestSchema } from "../actions/verify/verify.js";
import { UserError } from "../base/errors.js";
import type { Callbacks } from "../base/events.js";
import { exists, readJson, readText, sha256File } from "../base/files.js";
import { validate } from "../base/validate.js";
import { describeDifference, type FileVerification, findDifference, type VerifiedClass } from "../base/verification.js";
import { checksFolder } from "../runs/attack-folder.js";
import { readPackageVersion } from "../runs/environment.js";
import { createContext, createResult, openAudit } from "./audit.js";
import { auditRequestSchema } from "./audit-request.js";
import { type AuditResult, auditFiles, auditResultSchema } from "./audit-result.js";
import type { StepResult } from "./context.js";
import { createStatement } from "./statement.js";
import { listSteps } from "./steps.js";

/**
 * Replays journals, proofs, certificates and audits. Of an audit, every claim is computed again from the model, the
 * data and its journals, whose lines are replayed, too.
 *
 *     await verify({ journals: ["audits/spam/audit.json"] });
 */
export async function verify(request: VerifyRequest, callbacks: Callbacks = {}): ReturnType<typeof verifyJournals> {
  const done: Awaited<ReturnType<typeof verifyJournals>> = [];
  for (const path of validate(verifyRequestSchema, request, "verify").journals) {
    const audit = await findAudit(path);
    if (audit !== null) done.push(await verifyAudit(audit, request, callbacks));
    else done.push(...(await verifyJournals({ ...request, journals: [path] }, callbacks)));
  }
  return done.length > 0 ? done : verifyJournals(request, callbacks);
}

async function findAudit(path: string): Promise<string | null> {
  if (basename(path) === auditFiles.json) return path;
  const inside = join(path, auditFiles.json);
  return (await stat(inside).catch(() => null))?.isFile() ? inside : null;
}

async function verifyAudit(path: string, request: VerifyRequest, callbacks: Callbacks): Promise<FileVerification> {
  const written = await readJson(path, "the audit");
  const recorded = validate(auditResultSchema, written, path);
  const folder = dirname(path);
  for (const [file, hash] of Object.entries(recorded.files)) {
    if (relative(folder, join(folder, file)).startsWith(".."))
      throw new UserError(`${path}: files: expected files of the folder of the audit, received ${file}.`);
    if ((await sha256File(join(folder, file))) !== hash)
      throw new UserError(`${path}: ${file} is not the file of the audit. Restore it, or audit again.`);
  }
  const model = request.model ?? recorded.subject.model;
  if (request.model == null && isEndpoint(model))
    throw new UserError(`${path}: a file does not choose where texts are sent. Name the endpoint: --model ${model}`);
  const { device, threads } = request;
  const runtime = { ...(device && { device }), ...(threads && { threads }) };
  // The headers of a file could send secrets of the environment.
  const endpoint = { ...(recorded.request.endpoint as object | undefined), headers: {}, ...request.endpoint };
  const audited = { ...recorded.request, ...runtime, endpoint, model, out: folder, minutes: recorded.plan.minutes };
  const parsed = validate(auditRequestSchema, audited, `${path}: request`);
  await using opened = await openAudit(model, parsed, callbacks);
  let context = createContext(opened, parsed, recorded.plan, callbacks, true);
  const attacked = context.examples.slice(0, recorded.plan.attackedTexts);
  const lines: VerifiedClass[] = [];
  const controls = Object.keys(recorded.files).filter((file) => basename(dirname(file)) === checksFolder);
  for (const file of Object.keys(recorded.files).filter((each) => !controls.includes(each))) {
    const found = await verifyJournals({ ...request, journals: [join(folder, file)], model }, callbacks, attacked);
    lines.push(...found.flatMap(({ classes }) => classes));
  }
  const what = "attacks that check others, whose files are those of the audit";
  if (controls.length > 0) lines.push({ count: controls.length, what, isVerified: false });
  const steps: StepResult[] = [];
  for (const step of listSteps(context)) {
    if (recorded.notMeasured.includes(step.name)) continue;
    const result = await step.run(context);
    steps.push(result);
    if (result.answers) context = { ...context, answers: result.answers };
  }
  const computed = await createResult(context, steps, recorded.notMeasured);
  const difference = findDifference(selectClaims(recorded), [selectClaims(computed)]);
  if (difference)
    throw new UserError(`${path}: ${describeDifference(difference, "the model and the data", "the audit")}.`);
  const count = recorded.claims.length;
  const classes = [
    { count, what: "claims recomputed from the model, the data and the journals", isVerified: true },
    ...(await checkPages(path, written as AuditResult)),
    ...lines,
    { count: recorded.notMeasured.length, what: "checks that the audit did not measure", isVerified: false },
    { count: 1, what: "header that names the model, the data and the settings", isVerified: false },
  ];
  return { journal: path, lines: count, classes: classes.filter((each) => each.count > 0) };
}

/** The page and the statement follow from audit.json, in the version that wrote them. */
async function checkPages(path: string, written: AuditResult): Promise<VerifiedClass[]> {
  const folder = dirname(path);
  const isSame = written.temper === readPackageVersion();
  const { renderAudit } = await import("./page.js");
  const computed = {
    [auditFiles.page]: renderAudit(written),
    [auditFiles.statement]: `${JSON.stringify(await createStatement(written, path), null, 2)}\n`,
  };
  const classes: VerifiedClass[] = [];
  for (const [name, expected] of Object.entries(computed)) {
    const file = join(folder, name);
    if (!(await exists(file))) continue;
    if (isSame && (await readText(file, "a file of the audit")) !== expected)
      throw new UserError(`${file}: it says something else than audit.json. Remove it, or audit again.`);
    const what = `${name} ${isSame ? "written again from audit.json" : `of Temper ${written.temper}`}`;
    classes.push({ count: 1, what, isVerified: isSame });
  }
  return classes;
}

/** Everything that follows from the model and the data. The last digits of a number may be others on another host. */
function selectClaims({ temper: _, subject, request: __, ...rest }: AuditResult): unknown {
  const { commit: ___, model: ____, ...hashes } = subject;
  return JSON.parse(JSON.stringify({ ...rest, hashes }), (_key, value: unknown) =>
    typeof value === "number" ? Number(value.toPrecision(4)) : value,
  );
}
