import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { createFolder } from "../base/files.js";
import { validate } from "../base/validate.js";
import { listen } from "../serve/http.js";
import type { JobRow, LiveMessage } from "./api.js";
import { addJobRoutes } from "./job-routes.js";
import { JobStore } from "./jobs.js";
import { JournalSearch } from "./journal-search.js";
import { LiveStream } from "./live-stream.js";
import { addPageRoutes } from "./page-files.js";
import { addPlaygroundRoutes } from "./playground.js";
import { addRatingRoutes, RatingStore } from "./ratings.js";
import { RunCatalog } from "./run-catalog.js";
import { createToken } from "./security.js";
import { createStudioApp } from "./studio-app.js";

/** The request of `studio`. */
export const studioRequestSchema = z.strictObject({
  folders: z.array(z.string()).min(1).default(["runs"]).describe("folders whose runs are shown"),
  port: z.number().int().min(0).max(65_535).default(0).describe("port to listen on; 0 chooses a free one"),
});
export type StudioRequest = z.input<typeof studioRequestSchema>;

/** A studio that is open. `await using` or `close()` stops it. Jobs go on without it. */
export interface Studio extends AsyncDisposable {
  /** The address of the page, with the token. */
  readonly url: string;
  close(): Promise<void>;
}

/** Between two looks at the runs. A change of a run reaches the page after at most twice that. */
const refreshMilliseconds = 700;

/**
 * Starts the web page of the runs below some folders, for this host only.
 *
 *     await using page = await studio({ folders: ["runs"] });
 *     console.log(page.url);
 */
export async function studio(request: StudioRequest = {}, callbacks: Callbacks = {}): Promise<Studio> {
  const { folders, port } = validate(studioRequestSchema, request, "studio");
  for (const folder of request.folders ?? [])
    if (!existsSync(folder)) throw new UserError(`${folder}: no such folder. Name folders with runs, or create it.`);
  for (const folder of folders) createFolder(folder);
  const token = createToken();
  const live = new LiveStream<LiveMessage>();
  const catalog = new RunCatalog(folders, (message) => live.send(message), join(folders[0]!, ".studio", "rows.json"));
  const journals = new JournalSearch();
  const app = createStudioApp({
    token,
    catalog,
    live,
    journals,
    onError: (message: string) => warn(callbacks, message),
    listMessages: () => [...catalog.listMessages(), { type: "jobs", jobs: jobRows }],
  });
  const jobs = new JobStore(join(folders[0]!, ".studio", "jobs"), folders);
  let jobRows: readonly JobRow[] = [];
  const refreshJobs = async (): Promise<void> => {
    const rows = await jobs.list((folder) => catalog.findId(folder));
    if (JSON.stringify(rows) === JSON.stringify(jobRows)) return;
    jobRows = rows;
    live.send({ type: "jobs", jobs: rows });
  };
  addJobRoutes(app, jobs, catalog, refreshJobs);
  addRatingRoutes(app, new RatingStore(join(folders[0]!, ".studio", "ratings"), journals), catalog);
  const closePlayground = addPlaygroundRoutes(app, catalog);
  await addPageRoutes(app, token);
  const server = await listen(app, { host: "127.0.0.1", port });
  const refresh = async (): Promise<void> => {
    await catalog.refresh();
    await refreshJobs();
  };
  const stopWatching = watch(refresh, live, callbacks);
  const close = async (): Promise<void> => {
    stopWatching();
    live.close();
    closePlayground();
    await server.close();
    await catalog.save();
  };
  return { url: `${server.url}?token=${token}`, close, [Symbol.asyncDispose]: close };
}

/** Looks at the runs once, and again and again while a page is open. */
function watch(look: () => Promise<void>, live: LiveStream<LiveMessage>, callbacks: Callbacks): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isFirst = true;
  let isStopped = false;
  const refresh = async (): Promise<void> => {
    if (isFirst || live.hasClients)
      await look().catch((error: unknown) => warn(callbacks, `Cannot read the runs: ${(error as Error).message}`));
    isFirst = false;
    if (!isStopped) timer = setTimeout(() => void refresh(), refreshMilliseconds);
  };
  void refresh();
  return () => {
    isStopped = true;
    clearTimeout(timer);
  };
}
