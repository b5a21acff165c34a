import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Hono } from "hono";
import { getMimeType } from "hono/utils/mime";
import { UserError } from "../base/errors.js";
import { getErrorCode } from "../base/files.js";
import { html } from "../report/html.js";
import { HttpError } from "../serve/http.js";
import { packageRoot } from "../tensor/native.js";
import { checkToken } from "./security.js";

/** The folder in which `npm run build` puts the page. */
const pageFolder = join(packageRoot, "dist", "studio", "page");

/**
 * Serves the page and its files from memory. The page itself needs the token; its scripts and
 * styles are those of the package and contain no data.
 */
export async function addPageRoutes(app: Hono, token: string): Promise<void> {
  const files = new Map<string, Buffer>();
  for (const folder of ["", "assets"]) {
    const names = await readdir(join(pageFolder, folder)).catch((error: unknown) => {
      if (getErrorCode(error) !== "ENOENT") throw error;
      throw new UserError("The page of the studio is not built. Run: npm run build");
    });
    for (const name of names.filter((each) => getMimeType(each) !== undefined))
      files.set(`/${folder && `${folder}/`}${name}`, await readFile(join(pageFolder, folder, name)));
  }
  app.get("/", (context) => {
    try {
      checkToken(token, context.req.query("token"));
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      return context.html(renderRefusal(error.message), 403);
    }
    return context.body(new Uint8Array(files.get("/index.html")!), 200, { "content-type": "text/html; charset=utf-8" });
  });
  app.get("/assets/:name", (context) => {
    const path = `/assets/${context.req.param("name")}`;
    const file = files.get(path);
    if (!file) return context.notFound();
    const headers = { "content-type": getMimeType(path)!, "cache-control": "max-age=31536000, immutable" };
    return context.body(new Uint8Array(file), 200, headers);
  });
}

/** The page for somebody who has only a part of the address. */
function renderRefusal(message: string): string {
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Temper Studio</title></head>
<body><main><h1>Temper Studio</h1><p>${message}</p>
<p>The address ends in <code>?token=…</code>. To see it again, stop the studio with Ctrl-C and start <code>temper studio --open</code>.</p>
</main></body></html>`.text;
}
