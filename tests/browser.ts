import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import packed from "@sparticuz/chromium";
import { type Browser, chromium } from "playwright-core";
import { tryLock } from "../src/lock.js";

/** Starts the Chromium of an npm package. It is unpacked once, by one process at a time. */
export async function launchBrowser(): Promise<Browser> {
  let lock = tryLock(join(tmpdir(), "temper-chromium.lock"));
  while (typeof lock !== "function") {
    await sleep(50);
    lock = tryLock(join(tmpdir(), "temper-chromium.lock"));
  }
  try {
    const executablePath = process.env.CHROMIUM ?? (await packed.executablePath());
    return await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  } finally {
    lock();
  }
}
