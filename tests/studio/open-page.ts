import type { Browser, Page } from "playwright-core";

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly dark?: boolean;
  /** What the browser says its language is. It may be no valid language tag. */
  readonly language?: string;
  /** False if scripts are turned off. */
  readonly script?: boolean;
}

/** A page that records what must not happen. */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  /** Messages of the console, errors and dialogs. */
  readonly complaints: string[];
  /** Requests to other hosts than that of the page. */
  readonly foreignRequests: string[];
}

/** Opens a page of the studio, or a report. */
export async function openPage(
  browser: Browser,
  url: string,
  hash = "",
  { width = 1280, height = 900, dark = false, language = "en-US", script = true }: PageOptions = {},
): Promise<OpenPage> {
  const context = await browser.newContext({
    viewport: { width, height },
    locale: "en-US",
    reducedMotion: "reduce",
    colorScheme: dark ? "dark" : "light",
    javaScriptEnabled: script,
  });
  const value = JSON.stringify(language);
  await context.addInitScript(`Object.defineProperty(navigator, "language", { get: () => ${value} });`);
  const page = await context.newPage();
  // Only a page that hangs takes longer.
  page.setDefaultTimeout(120_000);
  const complaints: string[] = [];
  const foreignRequests: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("response", async (response) => {
    if (response.status() >= 400) complaints.push(`${response.url()}: ${await response.text().catch(() => "")}`);
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("dialog", (dialog) => {
    complaints.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const { protocol, host } = new URL(request.url());
    if (protocol !== "data:" && host !== new URL(url).host) foreignRequests.push(request.url());
  });
  await page.goto(`${url}${hash}`);
  return { page, complaints, foreignRequests, [Symbol.asyncDispose]: () => context.close() };
}
