import type { Hono } from "hono";
import { z } from "zod";
import { checkForm } from "./check-form.js";
import { listFields } from "./forms.js";
import type { JobStore } from "./jobs.js";
import type { RunCatalog } from "./run-catalog.js";
import { explainErrors, parseQuery, readBody } from "./studio-app.js";

const kindSchema = z.enum(["train", "attack"]);
const formSchema = z.strictObject({
  kind: kindSchema,
  values: z.record(z.string(), z.union([z.string().max(20_000), z.boolean(), z.number(), z.null()])),
});
const jobSchema = z.strictObject({ id: z.string(), action: z.enum(["stop", "resume"]) });

/** Adds the routes of forms and jobs. */
export function addJobRoutes(app: Hono, jobs: JobStore, catalog: RunCatalog, onChange: () => Promise<void>): void {
  app.get("/api/form", (context) => {
    const { kind } = parseQuery(z.object({ kind: kindSchema }), context);
    return context.json(listFields(kind, catalog.listModels()));
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
