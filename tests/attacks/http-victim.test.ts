import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { createHttpVictim, type HttpVictimOptions } from "../../src/attacks/http-victim.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { attack, collect, targetOfChoices } from "./scripted.js";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

type Answer = (texts: unknown[], response: ServerResponse, request: number) => void;

async function serve(answer: Answer): Promise<{ url: string; requests: { texts: unknown[]; at: number }[] }> {
  const requests: { texts: unknown[]; at: number }[] = [];
  server = createServer(async (message: IncomingMessage, response) => {
    let body = "";
    for await (const chunk of message) body += chunk;
    const { texts } = JSON.parse(body) as { texts: unknown[] };
    requests.push({ texts, at: performance.now() });
    answer(texts, response, requests.length);
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/predict`, requests };
}

const json =
  (rows: unknown): Answer =>
  (_, response) =>
    response.end(JSON.stringify(rows));
const good: Answer = (texts, response) =>
  response.end(
    JSON.stringify({ probabilities: texts.map((text) => (/bad/.test(String(text)) ? [0.2, 0.8] : [0.7, 0.3])) }),
  );
const quick: HttpVictimOptions = { retryDelay: 0.001, retries: 2, timeout: 0.2 };

describe("an HTTP endpoint", () => {
  test("is attacked like any victim, in requests of a bounded size", async () => {
    const { url, requests } = await serve(good);
    const victim = await createHttpVictim(url, { batchSize: 3, maxConcurrentRequests: 2 });
    expect(victim).toMatchObject({ numLabels: 2, maxBatchSize: 6, isDeterministic: false });
    const target = targetOfChoices("1", [
      ["a", "b", "c"],
      ["d", "e", "f"],
      ["fine", "bad"],
    ]);
    const [result] = await collect(new SearchPool(victim).run([target], await attack("pwws"), { seed: 1 }));
    expect(result).toMatchObject({ outcome: "success", final: ["a", "d", "bad"] });
    expect(Math.max(...requests.map(({ texts }) => texts.length))).toBe(3);
    expect(requests.flatMap(({ texts }) => texts)).toContain("[UNK] d fine");
  });

  test("gets a pair as a list", async () => {
    const { url, requests } = await serve(good);
    const victim = await createHttpVictim(url);
    const input = { words: ["a", "b"], fields: [0, 1], fieldCount: 2, texts: () => ["a", "b"] };
    await victim.probabilities([victim.prepare(input)]);
    expect(requests[1]!.texts).toEqual([["a", "b"]]);
  });

  test("is asked again with growing pauses while it is busy, slow or gone for a moment", async () => {
    const { url, requests } = await serve((texts, response, request) => {
      if (request === 1) response.writeHead(503).end();
      else if (request === 2) response.destroy();
      else if (request === 3) return;
      else good(texts, response, request);
    });
    const victim = await createHttpVictim(url, { ...quick, retries: 3, retryDelay: 0.01 });
    expect(victim.numLabels).toBe(2);
    expect(requests).toHaveLength(4);
  });

  test("may ask for patience by a date", async () => {
    const { url, requests } = await serve((texts, response, request) => {
      if (request > 1) return good(texts, response, request);
      response.writeHead(429, { "retry-after": new Date(Date.now() + 2000).toUTCString() }).end();
    });
    await createHttpVictim(url, quick);
    // A date has whole seconds, so up to one of the two may be cut off.
    expect(requests[1]!.at - requests[0]!.at).toBeGreaterThan(900);
  });

  test("that has moved is named with its new address, not asked there without the texts", async () => {
    const { url, requests } = await serve((_, response) => response.writeHead(301, { location: "/v2/predict" }).end());
    await expect(createHttpVictim(url, quick)).rejects.toThrow(
      `redirects to ${new URL("/v2/predict", url)}; give the one that answers`,
    );
    expect(requests).toHaveLength(1);
  });

  test("is given up after the last retry, and told why", async () => {
    const { url, requests } = await serve((_, response) => response.writeHead(500).end());
    await expect(createHttpVictim(url, quick)).rejects.toThrow("status 500, 3 times in a row");
    expect(requests).toHaveLength(3);
    const { url: silent } = await serve(() => undefined);
    await expect(createHttpVictim(silent, { ...quick, retries: 0, timeout: 0.05 })).rejects.toThrow(
      "no answer within 0.05 s",
    );
    await expect(createHttpVictim("http://127.0.0.1:1/", quick)).rejects.toThrow("check that the endpoint runs");
  });

  test("is asked no faster than its rate limit", async () => {
    const { url, requests } = await serve(good);
    const start = performance.now();
    const victim = await createHttpVictim(url, { batchSize: 1, requestsPerSecond: 50 });
    const ready = victim.prepare({ words: ["a"], fields: [0], fieldCount: 1, texts: () => ["a"] });
    await victim.probabilities(Array.from({ length: 6 }, () => ready));
    // Seven requests, 20 ms apart; a timer may fire a millisecond early.
    expect(requests).toHaveLength(7);
    expect(requests.at(-1)!.at - start).toBeGreaterThan(6 * 20 - 2);
  });

  test.each<[string, Answer, RegExp]>([
    [
      "the wrong number of rows",
      json([
        [0.5, 0.5],
        [0.5, 0.5],
      ]),
      /expected a list of 1 rows/,
    ],
    ["no list", json({ label: "positive" }), /expected a list of 1 rows/],
    ["one number a row", json([[0.5]]), /row 0: expected 2 probabilities/],
    ["text in a row", json([["a", "b"]]), /row 0: expected 2 probabilities/],
    ["null for NaN", json([[null, null]]), /row 0: expected 2 probabilities/],
    ["logits", json([[-2.1, 3.4]]), /are these logits/],
    ["HTML", (_, response) => response.end("<!doctype html><p>hello"), /received HTML/],
    ["NaN", (_, response) => response.end("[[NaN, 1]]"), /no JSON/],
    ["nothing", (_, response) => response.end(), /an empty answer/],
    ["another status", (_, response) => response.writeHead(404).end("not here"), /received 404: not here/],
  ])("that returns %s is refused in plain words", async (_, answer, message) => {
    const { url, requests } = await serve(answer);
    await expect(createHttpVictim(url, quick)).rejects.toThrow(message);
    expect(requests).toHaveLength(1);
  });

  test("must have an address", async () => {
    for (const url of ["localhost:80", "ftp://a", "", "http://"])
      await expect(createHttpVictim(url)).rejects.toThrow("expected an address");
  });
});
