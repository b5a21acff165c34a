import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import packed from "@sparticuz/chromium";
import { type Browser, chromium } from "playwright-core";
import { waitForLock } from "./wait-for-lock.js";

/** Starts the Chromium of an npm package. It is unpacked once, by one process at a time. */
export async function launchBrowser(): Promise<Browser> {
  const release = await waitForLock(join(tmpdir(), "temper-chromium.lock"));
  try {
    const executablePath = process.env.CHROMIUM ?? (await packed.executablePath());
    return await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  } finally {
    release();
  }
}

const types: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };

/** Serves the files of a folder. Returns its URL. */
export async function serveFolder(folder: string): Promise<{ readonly origin: string; close(): void }> {
  const server = createServer(({ url = "/" }, response) => {
    const path = join(folder, url === "/" ? "index.html" : new URL(url, "http://page").pathname);
    if (!existsSync(path) || !statSync(path).isFile()) return void response.writeHead(404).end();
    response.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream" });
    response.end(readFileSync(path));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}
