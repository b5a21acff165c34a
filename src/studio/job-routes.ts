import type { Hono } from "hono";
import { z } from "zod";
import { checkForm } from "./check-form.js";
import { readColumns } from "./data-columns.js";
import { listFields } from "./forms.js";
import type { JobStore } from "./jobs.js";
import type { RunCatalog } from "./run-catalog.js";
import { addRoute } from "./studio-app.js";

const kindSchema = z.enum(["harden", "train", "attack"]);
const formSchema = z.strictObject({
  kind: kindSchema,
  values: z.record(z.string(), z.union([z.string().max(20_000), z.boolean(), z.number(), z.null()])),
});
const startSchema = formSchema.extend({ isConfirmed: z.boolean().default(false) });
const jobSchema = z.strictObject({ id: z.string(), action: z.enum(["stop", "resume"]) });

export function addJobRoutes(app: Hono, jobs: JobStore, catalog: RunCatalog): void {
  addRoute(app, "form", z.object({ kind: kindSchema }), ({ kind }) => listFields(kind, catalog.listModels()));
  addRoute(app, "data", z.object({ path: z.string().max(4096) }), ({ path }) => readColumns(path));
  addRoute(app, "form/check", formSchema, async ({ kind, values }) => {
    const { request: _, ...check } = await checkForm(kind, values, catalog.folders);
    return check;
  });
  addRoute(app, "jobs", startSchema, async ({ kind, values, isConfirmed }) => {
    const { request, ...check } = await checkForm(kind, values, catalog.folders);
    const canStart = check.question === null || isConfirmed;
    return { ...check, id: request && canStart ? await jobs.start(request) : null };
  });
  addRoute(app, "jobs/change", jobSchema, async ({ id, action }) => {
    await jobs[action](id);
    return {};
  });
  addRoute(app, "jobs/log", z.object({ id: z.string() }), async ({ id }) => ({ text: await jobs.readLog(id) }));
}
