import type { Context, Hono } from "hono";
import { z } from "zod";
import { assignColors } from "../analysis/colors.js";
import { UserError } from "../base/errors.js";
import { validate } from "../base/validate.js";
import { renderComparison } from "../report/render-comparison.js";
import { readReportRun } from "../report/report-run.js";
import { RunFolder } from "../runs/run-folder.js";
import { BodyMemory, createHttpApp, HttpError, readJsonBody } from "../serve/http.js";
import type { ChartData, ComparisonAnswer, LiveMessage, Series } from "./api.js";
import { listAudits } from "./audits.js";
import { readCharts } from "./charts.js";
import type { JournalSearch } from "./journal-search.js";
import type { LiveStream } from "./live-stream.js";
import type { RunCatalog } from "./run-catalog.js";
import { readRunDetail } from "./run-detail.js";
import { addSecurityHeaders, checkToken, readBearerToken } from "./security.js";

export interface StudioParts {
  readonly token: string;
  readonly catalog: RunCatalog;
  readonly live: LiveStream<LiveMessage>;
  readonly journals: JournalSearch;
  /** The present state of everything that is sent live. */
  listMessages(): LiveMessage[];
  readonly onError?: ((message: string) => void) | undefined;
}

const maxBytesPerRequest = 1 << 20;
const memory = new BodyMemory(8 * maxBytesPerRequest);

/** Creates the application of the studio: every route of the API needs the token. */
export function createStudioApp(parts: StudioParts): Hono {
  const { token, catalog, live } = parts;
  const app = createHttpApp({ onError: parts.onError });
  app.use(addSecurityHeaders);
  app.use("/api/*", async (context, next) => {
    checkToken(token, readBearerToken(context));
    await next();
  });
  app.get("/health", (context) => context.json({ status: "ok" }));
  app.get("/api/live", (context) => live.connect(context, () => parts.listMessages()));
  answerQuery(app, "/api/run", z.object({ id: z.string().default("") }), async ({ id }) =>
    readRunDetail(await catalog.getRow(id)),
  );
  answerQuery(app, "/api/texts", textsQuerySchema, async ({ id, attack, ...query }) =>
    parts.journals.find((await catalog.getRow(id)).folder, attack, query),
  );
  answerQuery(app, "/api/audits", z.object({}), async () => ({ audits: await listAudits(catalog.folders) }));
  answerBody(app, "/api/compare", compareSchema, ({ models }) => compareModels(catalog, models));
  return app;
}

const textsQuerySchema = z.object({
  id: z.string(),
  attack: z.string(),
  search: z.string().max(1000).default(""),
  outcome: z.enum(["success", "failed", "skipped"]).nullable().default(null),
  offset: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(200).default(50),
});

/** The first model of each task is its baseline. A model has one run per seed. */
const compareSchema = z.strictObject({
  models: z
    .array(z.strictObject({ name: z.string(), runs: z.array(z.string()).min(1) }))
    .min(1)
    .max(32),
});

/** Compares models as a report does, task by task, with their curves in the same charts. */
async function compareModels(
  catalog: RunCatalog,
  models: z.output<typeof compareSchema>["models"],
): Promise<ComparisonAnswer> {
  const named = await Promise.all(
    models.map(async ({ name, runs }) => ({
      name,
      runs: await Promise.all(
        runs.map(async (id) => readReportRun(await RunFolder.open((await catalog.getRow(id)).folder))),
      ),
    })),
  );
  const colors = assignColors(named.map(({ name, runs }) => ({ label: name, method: runs[0]!.run.method })));
  const charts: ChartData[] = [];
  for (const [i, { name, runs }] of named.entries())
    for (const { run } of runs) {
      const title = runs.length > 1 ? `${name}, seed ${run.config.seed}` : name;
      for (const chart of await readCharts(run)) addToChart(charts, chart, { name: title, color: colors[i]! });
    }
  return { html: await renderComparison(named), charts };
}

/** Adds the main line of a run's chart to the chart of all runs. */
function addToChart(charts: ChartData[], chart: ChartData, look: Pick<Series, "name" | "color">): void {
  const [first] = chart.series;
  if (!first) return;
  const main = chart.series.find((series) => series.name === "loss") ?? first;
  const index = charts.findIndex(({ id }) => id === chart.id);
  const line = { ...main, ...look };
  const isNamed = chart.title.toLowerCase().endsWith(main.name);
  const title = isNamed ? chart.title : `${chart.title}: ${main.name}`;
  if (index < 0) charts.push({ ...chart, title, series: [line] });
  else charts[index] = { ...charts[index]!, series: [...charts[index]!.series, line] };
}

/** Adds a route that answers a checked query with JSON. */
export function answerQuery<Schema extends z.ZodType>(
  app: Hono,
  path: string,
  schema: Schema,
  work: (query: z.output<Schema>) => object | Promise<object>,
): void {
  app.get(path, async (context) =>
    context.json(await explainErrors(async () => work(parseInput(schema, context.req.query(), "query")))),
  );
}

/** Adds a route that answers a checked JSON body with JSON. */
export function answerBody<Schema extends z.ZodType>(
  app: Hono,
  path: string,
  schema: Schema,
  work: (body: z.output<Schema>) => Promise<object>,
): void {
  app.post(path, async (context) =>
    context.json(await explainErrors(async () => work(await readBody(context, schema)))),
  );
}

/** Reads and checks the JSON body of a request. */
export async function readBody<Schema extends z.ZodType>(context: Context, schema: Schema): Promise<z.output<Schema>> {
  const options = { maxBytes: maxBytesPerRequest, memory, example: "{…}" };
  return parseInput(schema, await readJsonBody(context, options), "request");
}

function parseInput<Schema extends z.ZodType>(schema: Schema, data: unknown, name: string): z.output<Schema> {
  try {
    return validate(schema, data, name);
  } catch (error) {
    throw error instanceof UserError ? new HttpError(400, error.message) : error;
  }
}

/** An error that people can act on is shown on the page. Others only reach the terminal. */
async function explainErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof UserError ? new HttpError(400, error.message) : error;
  }
}
