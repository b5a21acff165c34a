import type { Hono } from "hono";
import { z } from "zod";
import type { Form } from "./api.js";
import { checkForm } from "./check-form.js";
import { previewData } from "./data-preview.js";
import { listFields, presets } from "./forms.js";
import type { JobStore } from "./jobs.js";
import type { RunCatalog } from "./run-catalog.js";
import { answerBody, answerQuery } from "./studio-app.js";

const kindSchema = z.enum(["harden", "train", "attack"]);
const formSchema = z.strictObject({
  kind: kindSchema,
  values: z.record(z.string(), z.union([z.string().max(20_000), z.boolean(), z.number(), z.null()])),
});
const startSchema = formSchema.extend({ isConfirmed: z.boolean().default(false) });
const jobSchema = z.strictObject({ id: z.string(), action: z.enum(["stop", "resume"]) });

/** Adds the routes of forms and jobs. */
export function addJobRoutes(app: Hono, jobs: JobStore, catalog: RunCatalog, onChange: () => Promise<void>): void {
  answerQuery(app, "/api/form", z.object({ kind: kindSchema }), ({ kind }): Form => {
    return { fields: listFields(kind, catalog.listModels()), presets: presets[kind] };
  });
  answerQuery(app, "/api/data", z.object({ path: z.string().max(4096).default("") }), ({ path }) => previewData(path));
  answerBody(app, "/api/form/check", formSchema, async ({ kind, values }) => {
    const { request: _, ...check } = await checkForm(kind, values, catalog.folders);
    return check;
  });
  answerBody(app, "/api/jobs", startSchema, async ({ kind, values, isConfirmed }) => {
    const { request, ...check } = await checkForm(kind, values, catalog.folders);
    const canStart = check.question === null || isConfirmed;
    const id = request && canStart ? await jobs.start(request) : null;
    await onChange();
    return { ...check, id };
  });
  answerBody(app, "/api/jobs/change", jobSchema, async ({ id, action }) => {
    await jobs[action](id);
    await onChange();
    return {};
  });
  answerQuery(app, "/api/jobs/log", z.object({ id: z.string() }), async ({ id }) => ({ text: await jobs.readLog(id) }));
}
