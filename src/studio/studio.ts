import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../base/errors.js";
import { type Callbacks, warn } from "../base/events.js";
import { createFolder } from "../base/files.js";
import { validate } from "../base/validate.js";
import { listen } from "../serve/http.js";
import type { StudioState } from "./api.js";
import { addJobRoutes } from "./job-routes.js";
import { JobStore } from "./jobs.js";
import { JournalSearch } from "./journal-search.js";
import { addPageRoutes } from "./page-files.js";
import { addPlaygroundRoutes } from "./playground.js";
import { addRatingRoutes, RatingStore } from "./ratings.js";
import { RunCatalog } from "./run-catalog.js";
import { createToken } from "./security.js";
import { addRoute, createStudioApp } from "./studio-app.js";

export const studioRequestSchema = z.strictObject({
  folders: z.array(z.string()).min(1).default(["runs"]).describe("folders whose runs are shown"),
  port: z.number().int().min(0).max(65_535).default(0).describe("port to listen on; 0 chooses a free one"),
});
export type StudioRequest = z.input<typeof studioRequestSchema>;

/** A studio that is open. `await using` or `close()` stops it. Jobs go on without it. */
export interface Studio extends AsyncDisposable {
  readonly url: string;
  close(): Promise<void>;
}

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
  const catalog = new RunCatalog(folders);
  const journals = new JournalSearch();
  const jobs = new JobStore(join(folders[0]!, ".studio", "jobs"), folders);
  const app = createStudioApp({ token, catalog, journals, onError: (message: string) => warn(callbacks, message) });
  const look = (): void =>
    void catalog
      .refresh()
      .catch((error: unknown) => warn(callbacks, `Cannot read the runs: ${(error as Error).message}`));
  // An open page asks again and again. Without one, nothing is read.
  addRoute(app, "state", z.object({ since: z.int().min(0) }), async ({ since }): Promise<StudioState> => {
    look();
    return { ...catalog.getState(since), jobs: await jobs.list((folder) => catalog.findId(folder)) };
  });
  addJobRoutes(app, jobs, catalog);
  addRatingRoutes(app, new RatingStore(join(folders[0]!, ".studio", "ratings"), journals), catalog);
  const closePlayground = addPlaygroundRoutes(app, catalog);
  await addPageRoutes(app, token);
  const server = await listen(app, { host: "127.0.0.1", port });
  look();
  const close = async (): Promise<void> => {
    closePlayground();
    await server.close();
  };
  return { url: `${server.url}?token=${token}`, close, [Symbol.asyncDispose]: close };
}
