import { describe, expect, test } from "vitest";
import type { HttpVictimOptions } from "../../src/attacks/endpoint.js";
import { connectHttpVictim } from "../../src/attacks/http-victim.js";
import { listen } from "../../src/base/events.js";
import { invoke } from "../cli/invoke.js";
import { startJsonServer } from "../local-server.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { writeReviews } from "../tiny-run.js";

const serve = (answer: (body: never) => unknown): Promise<string> =>
  startJsonServer((body, response) => response.end(JSON.stringify(answer(body))));

const rate = (text: string): number => (text.includes("spam") ? 0.75 : 0.25);
const texts = ["spam here", "a note"];

async function ask(url: string, options: HttpVictimOptions): Promise<{ labels: unknown; rows: number[][] }> {
  const victim = await connectHttpVictim(url, { retries: 0, ...options });
  const answers = await victim.predict(victim.prepare(texts.map((text) => [text])));
  return { labels: victim.labels, rows: answers.map(({ probabilities }) => Array.from(probabilities)) };
}

type Inputs = { readonly inputs: readonly string[] };
const ham = (text: string) => ({ label: "ham", score: 1 - rate(text) });
const spam = (text: string) => ({ label: "spam", score: rate(text) });
const expected = [
  [0.25, 0.75],
  [0.75, 0.25],
];

describe("connectHttpVictim with the answers of other servers", () => {
  test("Text Embeddings Inference: all labels of a text, in any order", async () => {
    const url = await serve(({ inputs }: Inputs) =>
      inputs.map((text) => [spam(text), ham(text)].sort((a, b) => b.score - a.score)),
    );
    expect(await ask(url, { preset: "tei" })).toEqual({ labels: ["ham", "spam"], rows: expected });
  });

  test("a pipeline of transformers: the most probable label, with the labels named", async () => {
    const url = await serve(({ inputs }: Inputs) => inputs.map((text) => (rate(text) > 0.5 ? spam(text) : ham(text))));
    expect(await ask(url, { preset: "transformers", classes: "ham,spam" })).toEqual({
      labels: ["ham", "spam"],
      rows: expected,
    });
    await expect(ask(url, { preset: "transformers" })).rejects.toThrow(
      /one label per text \(ham\)\. Name all labels in the order of the task's: classes=ham,spam/,
    );
  });

  test("OpenAI's moderation: the largest category decides", async () => {
    const url = await serve(({ input }: { input: string[] }) => ({
      results: input.map((text) => ({ flagged: false, category_scores: { hate: 0.01, violence: rate(text) } })),
    }));
    expect(await ask(url, { preset: "openai-moderation" })).toEqual({ labels: ["safe", "flagged"], rows: expected });
  });

  test("a mapping of one's own: the body, the labels and the scores", async () => {
    const url = await serve(({ items }: { items: string[] }) => ({
      predictions: items.map((text) => ({ class: "spam", score: rate(text) })),
    }));
    const mapping = {
      request: '{"items": $texts, "model": "x"}',
      labels: "$.predictions[*].class",
      scores: "$.predictions[*].score",
      classes: ["ham", "spam"],
    };
    expect((await ask(url, mapping)).rows).toEqual(expected);
    const wrong: [HttpVictimOptions, RegExp][] = [
      [{ scores: "$.nothing[*]" }, /scores \(\$\.nothing\[\*\]\) matches nothing in the answer {"predictions"/],
      [{ scores: "$[" }, /scores: expected a JSONPath such as \$\[\*\]\.score, received \$\[/],
      [{ scores: "$.predictions[*].class" }, /expected numbers, received "spam"/],
      [{ classes: ["good", "bad"] }, /label "spam" is not one of the classes good, bad/],
      [{ request: '{"items": []}' }, /expected JSON with \$texts/],
      [{ request: '{"items": $texts' }, /expected JSON after \$texts or \$text is filled in/],
      [{ labels: "$.predictions[0].class", request: '{"items": $texts}' }, /as many labels .* as scores/],
    ];
    for (const [change, message] of wrong) await expect(ask(url, { ...mapping, ...change })).rejects.toThrow(message);
    await expect(ask(url, { labels: "$[*].label" })).rejects.toThrow(/scores: expected the JSONPath of the scores/);
  });

  test("one score per text is that of the second label, and logits keep their order", async () => {
    const scored = await serve(({ inputs }: Inputs) => inputs.map(rate));
    expect((await ask(scored, { scores: "$[*]" })).rows).toEqual(expected);
    const logits = await serve(({ inputs }: Inputs) => inputs.map((text) => [0, text.includes("spam") ? 2 : -2]));
    const { rows } = await ask(logits, { scores: "$[*][*]" });
    await expect(ask(logits, { scores: "$[*][*]", classes: "a,b,c" })).rejects.toThrow(
      /one score \(\$\[\*\]\[\*\]\) for each of the classes a, b, c, received 2 per text/,
    );
    const probability = 1 / (1 + Math.exp(-2));
    rows.forEach((row, i) => {
      const second = i === 0 ? probability : 1 - probability;
      expectClose(row, [1 - second, second], { terms: 2 });
    });
  });

  test("scores that are no probabilities are reported once, and all later ones are logits, too", async () => {
    const url = await serve(({ inputs }: Inputs) => inputs.map((text) => (text.includes("spam") ? 7 : 0.5)));
    const warnings: string[] = [];
    const callbacks = listen({ warning: ({ message }) => warnings.push(message) });
    const victim = await connectHttpVictim(url, { scores: "$[*]" }, callbacks);
    const predict = async (text: string): Promise<number> =>
      (await victim.predict(victim.prepare([[text]])))[0]!.probabilities[1]!;
    const [flagged, first, second] = [await predict("spam"), await predict("fine"), await predict("fine")];
    expect(flagged).toBeGreaterThan(first);
    // The second answer is known to be a logit, as is the third.
    expectClose([first, second], new Array(2).fill(1 / (1 + Math.exp(-0.5))), { terms: 2 });
    expect(warnings).toEqual([expect.stringContaining("no probabilities")]);
  });

  test("one text per request", async () => {
    const url = await serve(({ text }: { text: string }) => ({ score: rate(text) }));
    const mapping = { request: '{"text": $text}', scores: "$.score" };
    expect((await ask(url, { ...mapping, batchSize: 1 })).rows).toEqual(expected);
    await expect(ask(url, mapping)).rejects.toThrow(/\$text stands for one text\. Set batchSize=1/);
  });
});

test("attack: an endpoint of another form says what to do, and works with a mapping", async () => {
  const folder = temporaryFolder();
  const data = writeReviews(`${folder}/reviews.tsv`, 10);
  const url = await serve(({ inputs = ["x"] }: Partial<Inputs>) => ({
    predictions: inputs.map((text) => ({ class: /good|fine/.test(text) ? "positive" : "negative", score: 0.9 })),
  }));
  const args = ["attack", url, "--data", data, "--text-column", "text", "--label-column", "label"];
  args.push("--attack", "deepwordbug", "--num-examples", "4", "--out", `${folder}/out`, "--quiet");
  const unmapped = await invoke(args);
  expect(unmapped.code).toBe(2);
  expect(unmapped.stderr).toContain("name a preset (--endpoint preset=tei), or pass a function.");
  const mapping = ["labels=$.predictions[*].class", "scores=$.predictions[*].score"];
  const flags = [...mapping, "classes=negative,positive"].flatMap((each) => ["--endpoint", each]);
  const mapped = await invoke([...args, ...flags, "--json"]);
  expect(JSON.parse(mapped.stdout)).toMatchObject({ examples: 4, labels: ["negative", "positive"] });
  // The labels of the data are read in the order of the endpoint's.
  const other = [...args.slice(0, -2), `${folder}/other`, "--quiet", "--json"];
  const reversed = await invoke([...other, ...flags.slice(0, 4), "--endpoint", "classes=positive,negative"]);
  expect(JSON.parse(reversed.stdout)).toMatchObject({ labels: ["positive", "negative"] });
  expect(JSON.parse(reversed.stdout).attacks.deepwordbug.robustAccuracy).toBe(
    JSON.parse(mapped.stdout).attacks.deepwordbug.robustAccuracy,
  );
  const unknown = await invoke([...other, ...flags.slice(2, 4), "--endpoint", "classes=bad,good"]);
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("expected the labels bad, good") });
});
