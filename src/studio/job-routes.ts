import type { Hono } from "hono";
import { z } from "zod";
import type { Form } from "./api.js";
import { checkForm } from "./check-form.js";
import { previewData } from "./data-preview.js";
import { listFields, presets } from "./forms.js";
import type { JobStore } from "./jobs.js";
import type { RunCatalog } from "./run-catalog.js";
import { explainErrors, parseQuery, readBody } from "./studio-app.js";

const kindSchema = z.enum(["harden", "train", "attack"]);
const formSchema = z.strictObject({
  kind: kindSchema,
  values: z.record(z.string(), z.union([z.string().max(20_000), z.boolean(), z.number(), z.null()])),
});
const jobSchema = z.strictObject({ id: z.string(), action: z.enum(["stop", "resume"]) });

/** Adds the routes of forms and jobs. */
export function addJobRoutes(app: Hono, jobs: JobStore, catalog: RunCatalog, onChange: () => Promise<void>): void {
  app.get("/api/form", (context) => {
    const { kind } = parseQuery(z.object({ kind: kindSchema }), context);
    const form: Form = { fields: listFields(kind, catalog.listModels()), presets: presets[kind] };
    return context.json(form);
  });
  app.get("/api/data", async (context) => {
    const { path } = parseQuery(z.object({ path: z.string().max(4096).default("") }), context);
    return context.json(await previewData(path));
  });
  app.post("/api/form/check", async (context) => {
    const { kind, values } = await readBody(context, formSchema);
    const { request: _, ...check } = await explainErrors(() => checkForm(kind, values, catalog.folders));
    return context.json(check);
  });
  app.post("/api/jobs", async (context) => {
    const { kind, values } = await readBody(context, formSchema);
    const { request, ...check } = await explainErrors(() => checkForm(kind, values, catalog.folders));
    const id = request ? await explainErrors(() => jobs.start(request)) : null;
    await onChange();
    return context.json({ ...check, id });
  });
  app.post("/api/jobs/change", async (context) => {
    const { id, action } = await readBody(context, jobSchema);
    await explainErrors(() => jobs[action](id));
    await onChange();
    return context.json({});
  });
  app.get("/api/jobs/log", async (context) => {
    const { id } = parseQuery(z.object({ id: z.string() }), context);
    return context.json({ text: await jobs.readLog(id) });
  });
}
