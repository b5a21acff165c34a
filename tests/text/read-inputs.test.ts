import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { readInputs, readLines } from "../../src/text/read-inputs.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

async function* chunks(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
}

describe("readLines", () => {
  it("removes the byte-order mark and carriage returns, and keeps empty lines", async () => {
    const path = file("lines.txt", "\ufeffone\r\n\r\nthrée\u2028x\r\n😀 last");
    expect(await collect(readLines(path))).toMatchObject([
      { line: 1, text: "one" },
      { line: 2, text: "" },
      { line: 3, text: "thrée\u2028x" },
      { line: 4, text: "😀 last" },
    ]);
  });

  it("returns the same lines for all chunk sizes", async () => {
    const content = fc.array(
      fc.string({ unit: "grapheme" }).map((line) => line.replace(/[\r\n\ufeff]/g, "")),
      { minLength: 1 },
    );
    await fc.assert(
      fc.asyncProperty(content, fc.integer({ min: 1, max: 7 }), async (lines, size) => {
        const bytes = new TextEncoder().encode(`${lines.join("\n")}\n`);
        const found = await collect(readLines("-", chunks(bytes, size)));
        expect(found.map(({ text }) => text)).toEqual(lines);
      }),
    );
  });

  it("names the line that is not UTF-8, after returning the lines before it", async () => {
    const path = file("latin.txt", Buffer.from("fine\ncaf\xe9\nfine\n", "latin1"));
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { text } of readLines(path)) seen.push(text);
    })();
    await expect(reading).rejects.toThrow(`${path}:2: the line is not valid UTF-8`);
    await expect(reading).rejects.toBeInstanceOf(UserError);
    expect(seen).toEqual(["fine"]);
  });

  it("rejects a missing file and a folder", async () => {
    await expect(collect(readLines(join(folder, "nowhere.txt")))).rejects.toThrow(
      /nowhere\.txt: there is no such file/,
    );
    await expect(collect(readLines(folder))).rejects.toThrow("this is a folder, expected a file");
  });
});

describe("readInputs", () => {
  const inputs = (name: string, content: string) => collect(readInputs(file(name, content)));

  it("reads JSON lines, single texts and pairs", async () => {
    expect(await inputs("a.jsonl", '{"text":"one","id":4}\n{"texts":["a","b"]}\n\n')).toEqual([
      { line: 1, texts: ["one"], row: { text: "one", id: 4 } },
      { line: 2, texts: ["a", "b"], row: { texts: ["a", "b"] } },
    ]);
    expect(await inputs("a.txt", '{"text":"known by its first line"}\n')).toEqual([
      { line: 1, texts: ["known by its first line"], row: { text: "known by its first line" } },
    ]);
  });

  it("reads plain lines that begin with brackets or quotes, and blank ones", async () => {
    expect(await inputs("b.txt", '{curly} talk\n \n"quoted"\n')).toEqual([
      { line: 1, texts: ["{curly} talk"] },
      { line: 2, texts: [" "] },
      { line: 3, texts: ['"quoted"'] },
    ]);
  });

  it.each([
    ["broken.jsonl", '{"text":"fine"}\n{"text":\n', /broken\.jsonl:2: invalid JSON/],
    ["wrong.jsonl", '{"txt":"fine"}\n', /wrong\.jsonl:1: expected \{"text": "…"\} or .*received \{"txt":"fine"\}/],
    ["three.jsonl", '{"texts":["a","b","c"]}\n', /three\.jsonl:1: .*expected/],
    ["empty.txt", "", /empty\.txt: no text found/],
    ["blank.jsonl", "\n \n", /blank\.jsonl: no text found/],
  ])("rejects %s", async (name, content, message) => {
    await expect(inputs(name, content)).rejects.toThrow(message);
    await expect(inputs(name, content)).rejects.toBeInstanceOf(UserError);
  });
});

it("input without line breaks, such as /dev/zero, is rejected", async () => {
  await expect(collect(readLines("/dev/zero"))).rejects.toThrow(/\/dev\/zero:1: expected lines of at most 16777216/);
});
