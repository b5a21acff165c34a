import type { Context, Hono } from "hono";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { BodyMemory, createHttpApp, HttpError, readJsonBody } from "../serve/http.js";
import type { ComparisonAnswer } from "./api.js";
import type { JournalSearch } from "./journal-search.js";
import type { RunCatalog } from "./run-catalog.js";
import { addSecurityHeaders, checkToken, readBearerToken } from "./security.js";

export interface StudioParts {
  readonly token: string;
  readonly catalog: RunCatalog;
  readonly journals: JournalSearch;
  readonly onError?: ((message: string) => void) | undefined;
}

const maxBytesPerRequest = 1 << 20;
const memory = new BodyMemory(8 * maxBytesPerRequest);

/** Creates the application of the studio: every route of the API needs the token. */
export function createStudioApp({ token, catalog, journals, onError }: StudioParts): Hono {
  const app = createHttpApp({ onError });
  app.use(addSecurityHeaders);
  app.use("/api/*", async (context, next) => {
    checkToken(token, readBearerToken(context));
    await next();
  });
  app.get("/health", (context) => context.json({ status: "ok" }));
  // What draws figures takes long to load.
  addRoute(app, "run", z.object({ id: z.string() }), async ({ id }) => {
    const { readRunDetail } = await import("./run-detail.js");
    return readRunDetail(await catalog.getRow(id));
  });
  addRoute(app, "texts", textsSchema, async ({ id, attack, ...query }) =>
    journals.find((await catalog.getRow(id)).folder, attack, query),
  );
  addRoute(app, "audits", z.object({}), async () => (await import("./audits.js")).listAudits(catalog.folders));
  addRoute(app, "compare", compareSchema, async ({ runs, baseline }): Promise<ComparisonAnswer> => {
    const { renderComparison } = await import("../report/render-comparison.js");
    const rows = await Promise.all(runs.map((id) => catalog.getRow(id)));
    return renderComparison(
      rows.map(({ folder }) => folder),
      baseline,
    );
  });
  return app;
}

const textsSchema = z.object({
  id: z.string(),
  attack: z.string(),
  search: z.string().max(1000).default(""),
  outcome: z.enum(["success", "failed", "skipped"]).nullable().default(null),
  limit: z.number().int().min(1).max(200).default(50),
});

const compareSchema = z.object({ runs: z.array(z.string()).min(1).max(200), baseline: z.string().default("") });

/**
 * Adds a route of the API, which answers a checked JSON body. The page shows errors that people can
 * act on. Others only reach the terminal.
 */
export function addRoute<Schema extends z.ZodType>(
  app: Hono,
  path: string,
  schema: Schema,
  work: (body: z.output<Schema>, context: Context) => object | Promise<object>,
): void {
  app.post(`/api/${path}`, async (context) => {
    try {
      const data = await readJsonBody(context, { maxBytes: maxBytesPerRequest, memory, example: "{…}" });
      const answer = await work(validate(schema, data, "request"), context);
      return answer instanceof Response ? answer : context.json(answer);
    } catch (error) {
      throw error instanceof UserError ? new HttpError(400, error.message) : error;
    }
  });
}
