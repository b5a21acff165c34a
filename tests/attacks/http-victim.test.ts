import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { connectHttpVictim, type HttpVictimOptions } from "../../src/attacks/http-victim.js";
import { loadAttack } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { collect, createExample } from "./scripted.js";

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

describe("connectHttpVictim", () => {
  test("returns a victim that any attack can query, in requests of limited size", async () => {
    const { url, requests } = await serve(good);
    const victim = await connectHttpVictim(url, { batchSize: 3, maxConcurrentRequests: 2 });
    expect(victim).toMatchObject({ numLabels: 2, maxBatchSize: 6, isDeterministic: false });
    const example = createExample("1", [
      ["a", "b", "c"],
      ["d", "e", "f"],
      ["fine", "bad"],
    ]);
    const [result] = await collect(new SearchPool(victim).run([example], await loadAttack("pwws"), { seed: 1 }));
    expect(result).toMatchObject({ outcome: "success", final: ["a", "d", "bad"] });
    expect(Math.max(...requests.map(({ texts }) => texts.length))).toBe(3);
    expect(requests.flatMap(({ texts }) => texts)).toContain("[UNK] d fine");
  });

  test("sends a pair as a list", async () => {
    const { url, requests } = await serve(good);
    const victim = await connectHttpVictim(url);
    const input = { words: ["a", "b"], fields: [0, 1], fieldCount: 2, texts: () => ["a", "b"] };
    await victim.probabilities([victim.prepare(input)]);
    expect(requests[1]!.texts).toEqual([["a", "b"]]);
  });

  test("retries while the endpoint is busy, slow or unreachable", async () => {
    const { url, requests } = await serve((texts, response, request) => {
      if (request === 1) response.writeHead(503).end();
      else if (request === 2) response.destroy();
      else if (request === 3) return;
      else good(texts, response, request);
    });
    const victim = await connectHttpVictim(url, { ...quick, retries: 3, retryDelay: 0.01 });
    expect(victim.numLabels).toBe(2);
    expect(requests).toHaveLength(4);
  });

  test("waits until the date in Retry-After", async () => {
    const { url, requests } = await serve((texts, response, request) => {
      if (request > 1) return good(texts, response, request);
      response.writeHead(429, { "retry-after": new Date(Date.now() + 2000).toUTCString() }).end();
    });
    await connectHttpVictim(url, quick);
    // A date has no fractions of a second, so the wait may be up to one second shorter.
    expect(requests[1]!.at - requests[0]!.at).toBeGreaterThan(900);
  });

  test("does not follow redirects, and names the new URL", async () => {
    const { url, requests } = await serve((_, response) => response.writeHead(301, { location: "/v2/predict" }).end());
    await expect(connectHttpVictim(url, quick)).rejects.toThrow(
      `redirects to ${new URL("/v2/predict", url)}. Use that URL instead.`,
    );
    expect(requests).toHaveLength(1);
  });

  test("gives up after the last retry, and names the cause", async () => {
    const { url, requests } = await serve((_, response) => response.writeHead(500).end());
    await expect(connectHttpVictim(url, quick)).rejects.toThrow("failed 3 times in a row (status 500)");
    expect(requests).toHaveLength(3);
    const { url: silent } = await serve(() => undefined);
    await expect(connectHttpVictim(silent, { ...quick, retries: 0, timeout: 0.05 })).rejects.toThrow(
      "no response within 0.05 s",
    );
    await expect(connectHttpVictim("http://127.0.0.1:1/", quick)).rejects.toThrow("Check that the endpoint is running");
  });

  test("respects the rate limit", async () => {
    const { url, requests } = await serve(good);
    const start = performance.now();
    const victim = await connectHttpVictim(url, { batchSize: 1, requestsPerSecond: 50 });
    const prepared = victim.prepare({ words: ["a"], fields: [0], fieldCount: 1, texts: () => ["a"] });
    await victim.probabilities(Array.from({ length: 6 }, () => prepared));
    // Seven requests start 20 ms apart. A timer may fire a millisecond early.
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
    ["an object", json({ label: "positive" }), /expected a list of 1 rows/],
    ["one number per row", json([[0.5]]), /row 0: expected 2 probabilities/],
    ["text in a row", json([["a", "b"]]), /row 0: expected 2 probabilities/],
    ["null for NaN", json([[null, null]]), /row 0: expected 2 probabilities/],
    ["logits", json([[-2.1, 3.4]]), /If these are logits, apply a softmax/],
    ["HTML", (_, response) => response.end("<!doctype html><p>hello"), /received HTML/],
    ["NaN", (_, response) => response.end("[[NaN, 1]]"), /invalid JSON/],
    ["an empty body", (_, response) => response.end(), /an empty response/],
    ["status 404", (_, response) => response.writeHead(404).end("not here"), /received 404: not here/],
  ])("rejects an endpoint that returns %s", async (_, answer, message) => {
    const { url, requests } = await serve(answer);
    await expect(connectHttpVictim(url, quick)).rejects.toThrow(message);
    expect(requests).toHaveLength(1);
  });

  test("rejects an invalid URL", async () => {
    for (const url of ["localhost:80", "ftp://a", "", "http://"])
      await expect(connectHttpVictim(url)).rejects.toThrow("expected a URL");
  });
});
