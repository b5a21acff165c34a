import { tmpdir } from "node:os";
import { join } from "node:path";
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
